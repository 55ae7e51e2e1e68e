import type { Provider } from '../../contracts/provider.ts'
import { anthropic } from './anthropic/provider.ts'
import { assemblyai } from './assemblyai/provider.ts'
import { deepgram } from './deepgram/provider.ts'
import { elevenlabs } from './elevenlabs/provider.ts'
import { gemini } from './gemini/provider.ts'
import { groq } from './groq.ts'
import { mistral } from './mistral.ts'
import { openai } from './openai/provider.ts'
import { openaiCompatible } from './openai-compatible.ts'
import { runway } from './runway.ts'
import { sandbox } from './sandbox.ts'

/** Every protocol that Larkway speaks, by the `kind` that the configuration names it with. */
export const PROVIDERS: ReadonlyMap<string, Provider> = new Map(
  [
    anthropic,
    assemblyai,
    deepgram,
    elevenlabs,
    gemini,
    groq,
    mistral,
    openai,
    openaiCompatible,
    runway,
    sandbox,
  ].map((provider) => [provider.kind, provider]),
)
