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
    'default: json; text, srt and vtt are answered as plain text, with the metadata in headers',
  ),
  mode: optional(
    Type.Enum([...MODES]),
    'default: batch; async answers with a job, on /v1/transcription only; no model supports realtime yet',
  ),
  diarization: optional(Type.Boolean(), 'labels speakers; the model must support it'),
  speaker_count_hint: optional(
    Type.Integer({ minimum: 1, maximum: 32 }),
    'expected number of speakers; a hint',
  ),
  timestamps: optional(
    Type.Enum([...GRANULARITIES, 'both']),
    'word timestamps, segment timestamps, or both; the model must support them',
  ),
  timestamp_granularities: optional(
    Type.Array(Type.Enum([...GRANULARITIES]), { maxItems: 2 }),
    "OpenAI's name for `timestamps`, which takes precedence",
  ),
  keyterms: optional(Keyterms, 'words to recognize, none of them empty; the model must support it'),
  custom_vocabulary: optional(Keyterms, 'same as `keyterms`; the lists are merged'),
  redaction: optional(
    Type.Union([Type.Boolean(), Type.Array(Type.Enum([...REDACTIONS]), { maxItems: REDACTIONS.length })]),
    'content to redact; true means pii; the model must support it',
  ),
  multichannel: optional(Type.Boolean(), 'transcribes each channel separately; the model must support it'),
  smart_formatting: optional(Type.Boolean(), 'formats numbers, dates and the like; a hint'),
  detect_language: optional(Type.Boolean(), 'detects the language; a hint'),
  profanity_filter: optional(Type.Boolean(), 'masks profanity; a hint'),
  seed: SEED_FIELD,
  stream: optional(Type.Boolean(), 'streams the answer as `text/event-stream`; transcription only'),
}
