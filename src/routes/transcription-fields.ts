import { Type } from 'typebox'
import { REDACTIONS, TRANSCRIPT_FORMATS } from '../schema/calls.ts'
import { optional, SEED_FIELD } from './json-request.ts'

const GRANULARITIES = ['word', 'segment'] as const
const MODES = ['batch', 'async', 'realtime'] as const

const KEYTERM_LENGTH_MAX = 256
const Keyterms = Type.Array(Type.String({ maxLength: KEYTERM_LENGTH_MAX }), { maxItems: 1_000 })

/** The fields of a transcription or translation beside its audio, in JSON, forms and queries alike. */
export const TRANSCRIPTION_FIELDS = {
  language: optional(Type.String({ maxLength: 35 }), 'of the speech, a hint; ISO 639, e.g. en'),
  prompt: optional(Type.String({ maxLength: 8_192 }), 'text that came before, or names to expect; a hint'),
  response_format: optional(
    Type.Enum([...TRANSCRIPT_FORMATS]),
    'json unless said; text, srt and vtt are answered as that text, with the facts of the envelope in headers',
  ),
  mode: optional(
    Type.Enum([...MODES]),
    'batch unless said; async answers with a job, on /v1/transcription alone; no model is realtime yet',
  ),
  diarization: optional(Type.Boolean(), 'who speaks; required of the model'),
  speaker_count_hint: optional(Type.Integer({ minimum: 1, maximum: 32 }), 'how many speak; a hint'),
  timestamps: optional(
    Type.Enum([...GRANULARITIES, 'both']),
    'times of words, of segments, or both; required of the model',
  ),
  timestamp_granularities: optional(
    Type.Array(Type.Enum([...GRANULARITIES]), { maxItems: 2 }),
    "OpenAI's name for `timestamps`, which wins",
  ),
  keyterms: optional(Keyterms, 'words to listen for, none of them empty; required of the model'),
  custom_vocabulary: optional(Keyterms, 'the same; both lists are united'),
  redaction: optional(
    Type.Union([Type.Boolean(), Type.Array(Type.Enum([...REDACTIONS]), { maxItems: REDACTIONS.length })]),
    'what is left out of the transcript, true stands for pii; required of the model',
  ),
  multichannel: optional(Type.Boolean(), 'each channel is a transcript of its own; required of the model'),
  smart_formatting: optional(Type.Boolean(), 'numbers, dates and the like as they are written; a hint'),
  detect_language: optional(Type.Boolean(), 'finds the language out; a hint'),
  profanity_filter: optional(Type.Boolean(), 'masks what is rude; a hint'),
  seed: SEED_FIELD,
  stream: optional(Type.Boolean(), 'answer piece by piece, as `text/event-stream`; transcription alone'),
}
