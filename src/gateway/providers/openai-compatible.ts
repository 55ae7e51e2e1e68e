import { type Static, Type } from 'typebox'
import type { ChatDelta, ChatResult, CompleteCall } from '../../contracts/chat.ts'
import type { LiveTranscription, Operation, Provider, Target } from '../../contracts/provider.ts'
import { completionByChat } from './completion.ts'
import { classify } from './failure.ts'
import { UTTERANCE_ANSWER_MS } from './live-utterances.ts'
import { type ChatShape, chatOperation, OPENAI_AUDIO } from './openai/chat.ts'
import { completionOperation } from './openai/completion.ts'
import { embeddingsOperation } from './openai/embeddings.ts'
import { imageOperation } from './openai/image.ts'
import { liveOperation, UNLISTED_LIVE } from './openai/live.ts'
import { type SpeechShape, speechOperation } from './openai/speech.ts'
import { transcriptionOperation, translationOperation } from './openai/transcription.ts'
import { videoOperation } from './openai/videos.ts'
import { modelsOperation } from './openai/wire.ts'
import { vllmLive } from './vllm-live.ts'

/** The key goes out where the entry says that the server knows it; no such server knows it by itself. */
const keyed = ({ options, attemptKey }: Target): Readonly<Record<string, string>> => {
  const { idempotency_header: name }: Options = options
  return name === undefined || attemptKey === undefined ? {} : { [name.toLowerCase()]: attemptKey }
}

const OPTIONS = Type.Object(
  {
    live_protocol: Type.Optional(
      Type.Enum(['openai', 'speaches', 'vllm'], {
        description: 'how the server transcribes live audio; default: openai, transcription sessions',
      }),
    ),
    completion_endpoint: Type.Optional(
      Type.Boolean({ description: 'the server has `/completions`; else a text completion is a chat' }),
    ),
    idempotency_header: Type.Optional(
      Type.Enum(['Idempotency-Key', 'X-Idempotency-Key'], {
        description: 'the server does once what is sent again under the same value of this header',
      }),
    ),
  },
  { additionalProperties: false },
)

type Options = Static<typeof OPTIONS>

/** `max_tokens` is the word that every such server knows, the newer one only some. */
const CHAT: ChatShape = {
  maxTokens: 'max_tokens',
  stopMax: null,
  noStop: null,
  fixedSampling: null,
  audioOnly: null,
  audio: OPENAI_AUDIO,
  takesExtra: () => true,
}

const SPEECH: SpeechShape = {
  defaultVoice: 'alloy',
  defaultFormat: null,
  formats: null,
  takesExtra: () => true,
}

const chat = chatOperation(CHAT, keyed)
const byEndpoint = completionOperation(keyed)
const byChat = completionByChat(chat)

/** As the entry's options say. */
const completionAt = ({ options }: Target) => {
  const { completion_endpoint: endpoint }: Options = options
  return endpoint === true ? byEndpoint : byChat
}

const complete: Operation<CompleteCall, ChatResult, ChatDelta> = {
  takesSeed: true,
  takesExtra: (extra, target) => completionAt(target).takesExtra?.(extra, target) === true,
  start: (call, target) => completionAt(target).start(call, target),
  next: (state, reply, call, target) => completionAt(target).next(state, reply, call, target),
  streamed: {
    start: (call, target) => completionAt(target).streamed.start(call, target),
    refused: classify,
    read: (head, call, target) => completionAt(target).streamed.read(head, call, target),
  },
}

const LIVE = {
  openai: liveOperation(keyed, { dialect: 'openai', shapeOf: () => UNLISTED_LIVE }),
  speaches: liveOperation(keyed, { dialect: 'speaches', shapeOf: () => UNLISTED_LIVE }),
  vllm: vllmLive(keyed),
}

const liveAt = ({ options }: Target): LiveTranscription => {
  const { live_protocol: protocol = 'openai' }: Options = options
  return LIVE[protocol]
}

/** As the entry's options say. */
const live: LiveTranscription = {
  unsupported: (call, target) => liveAt(target).unsupported?.(call, target) ?? null,
  handshake: (call, target) => liveAt(target).handshake(call, target),
  refused: classify,
  answersWithinMs: UTTERANCE_ANSWER_MS,
  connect: (call, target) => liveAt(target).connect(call, target),
}

/**
 * Any server that speaks OpenAI's wire format at a base URL of its own: vLLM, Speaches, LocalAI, a proxy.
 * The configuration says what its models can do; a transcription asks for no more than the call needs,
 * because such servers know different parts of the format.
 */
export const openaiCompatible: Provider = {
  kind: 'openai-compatible',
  baseUrl: null,
  needsCredential: false,
  optionsSchema: OPTIONS,
  transcription: transcriptionOperation(keyed),
  live,
  translation: translationOperation(keyed),
  speech: speechOperation(SPEECH, keyed),
  chat,
  complete,
  embeddings: embeddingsOperation(false, keyed),
  image: imageOperation(true, keyed),
  video: videoOperation(keyed),
  models: modelsOperation(keyed),
}
