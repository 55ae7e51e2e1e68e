import type { Provider } from '../schema/provider.ts'
import { anthropic } from './anthropic.ts'
import { assemblyai } from './assemblyai.ts'
import { deepgram } from './deepgram.ts'
import { elevenlabs } from './elevenlabs.ts'
import { gemini } from './gemini.ts'
import { groq } from './groq.ts'
import { mistral } from './mistral.ts'
import { openai } from './openai.ts'
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
