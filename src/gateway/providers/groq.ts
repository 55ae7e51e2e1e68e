import type { ExtraOption } from '../../contracts/extras.ts'
import type { DatedSource, Provider, Target, Unsupported } from '../../contracts/provider.ts'
import { completionByChat } from './completion.ts'
import { type ChatShape, chatOperation } from './openai/chat.ts'
import { speechOperation } from './openai/speech.ts'
import { transcriptionOperation, translationOperation, WHISPER } from './openai/transcription.ts'
import { modelsOperation } from './openai/wire.ts'
import { unsent } from './unsupported.ts'

const plain = () => ({})
const whisper = () => WHISPER

/**
 * Groq's page names `max_completion_tokens` and calls `max_tokens` deprecated.
 * https://console.groq.com/docs/api-reference#chat-create
 */
const CHAT: ChatShape = {
  maxTokens: 'max_completion_tokens',
  stopMax: 4,
  noStop: null,
  fixedSampling: null,
  audioOnly: null,
  audio: null,
  takesExtra,
}

/**
 * Its page has more of OpenAI's options, and says of them that no model supports them yet, or that they must have their
 * default. Efforts differ between the models that reason. https://console.groq.com/docs/reasoning
 */
function takesExtra({ name, value }: ExtraOption, { model }: Target): boolean {
  switch (name) {
    case 'parallel_tool_calls':
    case 'messages[].name':
      return true
    case 'service_tier':
      return value === 'auto' || value === 'flex'
    case 'reasoning_effort':
      if (/gpt-oss/.test(model)) return value === 'low' || value === 'medium' || value === 'high'
      return /qwen/.test(model) && (value === 'none' || value === 'default')
    default:
      return false
  }
}

const chat = chatOperation(CHAT, plain)
const translation = translationOperation(plain, whisper)
const isTurbo = ({ model }: Target) => /-turbo$/.test(model)
const NO_TRANSLATION: Unsupported = { why: 'operation', reason: 'the model does not translate' }

/** A form without its end is no request; the price is for the seconds that were transcribed, at least ten of them. */
const WHOLE_BODY: DatedSource = {
  source: 'https://console.groq.com/docs/speech-to-text; https://groq.com/pricing',
  asOf: '2026-11-21',
}

/** https://console.groq.com/docs/api-reference; groq-sdk 1.6.0. Its 498 means overload and is read as such. */
export const groq: Provider = {
  kind: 'groq',
  baseUrl: 'https://api.groq.com/openai/v1',
  needsCredential: true,
  // OpenAI has no `url` in its form; Groq takes one in place of `file`.
  transcription: {
    ...transcriptionOperation(plain, whisper),
    takesAudioUrl: true,
    billsWholeBody: WHOLE_BODY,
  },
  translation: {
    ...translation,
    billsWholeBody: WHOLE_BODY,
    unsupported: (call, target) =>
      isTurbo(target) ? NO_TRANSLATION : (translation.unsupported?.(call, target) ?? null),
    start: (call, target) => (isTurbo(target) ? unsent(NO_TRANSLATION) : translation.start(call, target)),
  },
  // The types name flac, mp3, mulaw and ogg too; Orpheus, the only family that is left, makes wav.
  speech: speechOperation({ defaultVoice: 'autumn', defaultFormat: 'wav', formats: ['wav'] }, plain),
  chat,
  complete: completionByChat(chat),
  models: modelsOperation(plain),
}
