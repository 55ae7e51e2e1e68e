import type { ExtraName } from '../../../contracts/extras.ts'
import type { DatedSource, Provider } from '../../../contracts/provider.ts'
import { completionByChat } from '../completion.ts'
import { type ChatShape, chatOperation, OPENAI_AUDIO } from './chat.ts'
import { embeddingsOperation } from './embeddings.ts'
import { imageOperation } from './image.ts'
import { liveOperation } from './live.ts'
import { SPEECH_FORMATS, type SpeechShape, speechOperation } from './speech.ts'
import { transcriptionOperation, translationOperation } from './transcription.ts'
import { modelsOperation } from './wire.ts'

const plain = () => ({})

/**
 * The reasoning models, which are all of the newer ones, refuse `max_tokens`, and any temperature but the
 * default one (400, `unsupported_value`).
 */
const REASONING = /^(?:o\d|gpt-[5-9](?![\d.]*-chat))/

/** Options that only reasoning models take, and those that they refuse. */
const OF_REASONING: ReadonlySet<ExtraName> = new Set(['reasoning_effort', 'verbosity'])
const OF_OTHERS: ReadonlySet<ExtraName> = new Set([
  ...(['logprobs', 'top_logprobs', 'logit_bias', 'prediction'] as const),
  ...(['frequency_penalty', 'presence_penalty'] as const),
])

const CHAT: ChatShape = {
  maxTokens: 'max_completion_tokens',
  stopMax: 4,
  // The reference of `stop`: "Not supported with latest reasoning models o3 and o4-mini"; the newer ones answer 400
  // `unsupported_parameter` (2025-08 to 2026-03: smolagents 1671, 1868 and 1893 for gpt-5, 5.1 and 5.2, crewAI 5144 for
  // all of them), and no source says that gpt-6 takes it.
  noStop: REASONING,
  fixedSampling: REASONING,
  audioOnly: /^gpt-(?:4o-)?(?:mini-)?audio/,
  audio: OPENAI_AUDIO,
  takesExtra: ({ name }, { model }) => !(REASONING.test(model) ? OF_OTHERS : OF_REASONING).has(name),
}

const chat = chatOperation(CHAT, plain)

const SPEECH: SpeechShape = {
  defaultVoice: 'alloy',
  defaultFormat: 'mp3',
  formats: SPEECH_FORMATS,
  // "Does not work with tts-1 or tts-1-hd."
  takesExtra: (_extra, { model }) => !/^tts-1/.test(model),
}

/** A form without its end is no request; the price is for the audio that was transcribed, or for its tokens. */
const WHOLE_BODY: DatedSource = {
  source: 'https://platform.openai.com/docs/api-reference/audio; https://platform.openai.com/docs/pricing',
  asOf: '2026-11-21',
}

/**
 * https://platform.openai.com/docs/api-reference. There is no video: `/videos` was shut down on 2026-09-24;
 * nor is there a model left for `/completions` since 2026-09-28, so that a text completion is a chat.
 */
export const openai: Provider = {
  kind: 'openai',
  baseUrl: 'https://api.openai.com/v1',
  needsCredential: true,
  transcription: { ...transcriptionOperation(plain), billsWholeBody: WHOLE_BODY },
  live: liveOperation(plain),
  translation: { ...translationOperation(plain), billsWholeBody: WHOLE_BODY },
  speech: speechOperation(SPEECH, plain),
  chat,
  complete: completionByChat(chat),
  embeddings: embeddingsOperation(true, plain),
  image: imageOperation(false, plain),
  models: modelsOperation(plain),
}
