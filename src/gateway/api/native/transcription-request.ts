import { type TSchema, Type } from 'typebox'
import type { Redaction, SubtitleRules, TranscriptionOptions } from '../../../contracts/calls.ts'
import { REDACTIONS, TRANSCRIPT_FORMATS } from '../../../contracts/calls.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { FieldReader, type Fields } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { TranscriptionInput } from '../../jobs/preflight-transcription.ts'
import { SEVERAL_LANGUAGES } from '../../providers/language.ts'
import { ROUTE_CONTROL, readSelectors, SELECTOR_FIELDS, typedFields, unknownFields } from '../fields.ts'
import { optional, SEED_FIELD } from '../json-request.ts'
import { type Content, json, RAW_AUDIO } from '../openapi/operation.ts'
import { type Json, PlainSchemas, withoutNull } from '../openapi/schema.ts'

const GRANULARITIES = ['word', 'segment'] as const
const MODES = ['batch', 'async', 'realtime'] as const

/** In UTF-16 units. */
export const PROMPT_LENGTH_MAX = 8_192
const KEYTERM_LENGTH_MAX = 256
const Keyterms = Type.Array(Type.String({ maxLength: KEYTERM_LENGTH_MAX }), { maxItems: 1_000 })

/** The fields of a transcription or translation beside its audio, in JSON, forms and queries alike. */
export const TRANSCRIPTION_FIELDS = {
  language: optional(
    Type.String({ maxLength: 35 }),
    'of the speech, a hint; ISO 639, e.g. en; multi: several in one recording',
  ),
  prompt: optional(
    Type.String({ maxLength: PROMPT_LENGTH_MAX }),
    'text that came before, or names to expect; a hint',
  ),
  response_format: optional(
    Type.Enum([...TRANSCRIPT_FORMATS]),
    'default: json; text, srt and vtt are answered as plain text, with the metadata in headers',
  ),
  mode: optional(
    Type.Enum([...MODES]),
    'default: batch; on /v1/transcription only: async answers with a job, realtime hears audio while it comes',
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
  subtitle_line_length: optional(
    Type.Integer({ minimum: 10, maximum: 200 }),
    'of srt and vtt: longest line in characters; default: 42, where another rule is set',
  ),
  subtitle_lines: optional(
    Type.Integer({ minimum: 1, maximum: 4 }),
    'of srt and vtt: most lines of a subtitle; default: 2, where another rule is set',
  ),
  subtitle_characters_per_second: optional(
    Type.Integer({ minimum: 5, maximum: 100 }),
    'of srt and vtt: fastest reading, where the speech leaves room; default: 20, where another rule is set',
  ),
  skip_silence: optional(
    Type.Boolean(),
    'leaves out the middle of silence of more than 2 s before a provider is asked, or not; default: as the route says',
  ),
  max_cost_usd: optional(
    Type.Number({ minimum: 0 }),
    'most that it may cost, US dollars: what may cost more is refused with its estimate',
  ),
  stream: optional(Type.Boolean(), 'streams the answer as `text/event-stream`; transcription only'),
}

const { stream: _, ...WITHOUT_STREAM } = TRANSCRIPTION_FIELDS

/** Fields of a request that is not streamed: translations and jobs. */
export const UNSTREAMED_FIELDS = { ...WITHOUT_STREAM, ...SELECTOR_FIELDS }

const read = typedFields(TRANSCRIPTION_FIELDS)

/** Read before the other fields are. */
const AUDIO_MEMBERS = [
  ...['audio.base64', 'audio.data', 'audio.url', 'audio.upload_id', 'audio.media_type', 'audio.filename'],
]

const STREAMLESS = 'only transcriptions that are answered at once are streamed'

/** How an endpoint answers, beside whole and at once. */
export interface Offers {
  readonly stream: boolean
  /** With a durable job. */
  readonly jobs: boolean
}

export interface TranscriptionRequest extends TranscriptionInput {
  readonly stream: boolean
}

/**
 * The options of a transcription or translation, out of JSON, form fields or query parameters alike.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, ROUTE_CONTROL_NOT_ALLOWED
 */
export function readTranscriptionRequest(
  exchange: Exchange,
  fields: Fields,
  task: TranscriptionTask,
  offers: Offers = { stream: task === 'transcription', jobs: false },
): TranscriptionRequest {
  refuseRouteControl(fields)
  const reader = new FieldReader(fields)
  const language = read(reader, 'language')
  const detects = read(reader, 'detect_language') ?? false
  const format = read(reader, 'response_format') ?? 'json'
  const options: TranscriptionOptions = {
    language,
    prompt: read(reader, 'prompt'),
    response_format: format,
    mode: read(reader, 'mode') ?? 'batch',
    diarization: read(reader, 'diarization') ?? false,
    speaker_count_hint: read(reader, 'speaker_count_hint'),
    timestamps: readTimestamps(reader),
    keyterms: readKeyterms(reader),
    smart_formatting: read(reader, 'smart_formatting') ?? false,
    // An entry that cannot be told of several languages detects the one that is spoken most.
    detect_language: detects || language === SEVERAL_LANGUAGES,
    profanity_filter: read(reader, 'profanity_filter') ?? false,
    multichannel: read(reader, 'multichannel') ?? false,
    redaction: readRedaction(reader),
    seed: read(reader, 'seed'),
    ...readSubtitles(reader, format),
    ...givenOption(reader, 'skip_silence'),
    ...givenOption(reader, 'max_cost_usd'),
  }
  const stream = read(reader, 'stream') ?? false
  const isAsync = options.mode === 'async'
  if (isAsync && !offers.jobs)
    throw invalidField('mode', 'must not be `async` here; only /v1/transcription answers with a job')
  if (stream && isAsync) throw invalidField('stream', 'must be left out; a job is not streamed')
  if (stream && !offers.stream) throw invalidField('stream', `must be left out; ${STREAMLESS}`)
  const selectors = readSelectors(exchange, reader)
  const unknown = reader.unknown()
  const known = unknown.length === 0 ? [] : reader.known().filter((name) => !/\[/.test(name))
  return { options, stream, selectors, warnings: unknownFields(unknown, [...known, ...AUDIO_MEMBERS]) }
}

function givenOption(reader: FieldReader, name: 'skip_silence' | 'max_cost_usd') {
  const value = read(reader, name)
  return (value === null ? {} : { [name]: value }) as Partial<TranscriptionOptions>
}

/** Default of each rule where another one is set: two lines of 42 characters, as broadcasters have them. */
const SUBTITLES: SubtitleRules = { lineLength: 42, lines: 2, charactersPerSecond: 20 }

/** Rules of subtitles, where one is set. @throws GatewayError INVALID_REQUEST for an answer without subtitles */
function readSubtitles(
  reader: FieldReader,
  format: TranscriptionOptions['response_format'],
): Pick<TranscriptionOptions, 'subtitles'> {
  const lineLength = read(reader, 'subtitle_line_length')
  const lines = read(reader, 'subtitle_lines')
  const charactersPerSecond = read(reader, 'subtitle_characters_per_second')
  if (lineLength === null && lines === null && charactersPerSecond === null) return {}
  if (format !== 'srt' && format !== 'vtt') {
    const name = lineLength !== null ? 'line_length' : lines !== null ? 'lines' : 'characters_per_second'
    throw invalidField(`subtitle_${name}`, MUST.beLeftOut('only `srt` and `vtt` have subtitles'))
  }
  return {
    subtitles: {
      lineLength: lineLength ?? SUBTITLES.lineLength,
      lines: lines ?? SUBTITLES.lines,
      charactersPerSecond: charactersPerSecond ?? SUBTITLES.charactersPerSecond,
    },
  }
}

function refuseRouteControl(fields: Fields): void {
  const names = fields.kind === 'form' ? [...fields.values.keys()] : Object.keys(fields.value)
  // Mostly none is sent, and asking for each takes longer than reading all other fields.
  if (!names.some((name) => name.startsWith('audio') || ROUTE_CONTROL.has(name.replace('[]', '')))) return
  const given = new FieldReader(fields)
  for (const param of [...ROUTE_CONTROL].flatMap((name) => [name, `audio.${name}`])) {
    if (!given.has(param)) continue
    const message = `\`${param}\` ${MUST.beLeftOut('the route of the key chooses it')}`
    throw new GatewayError('ROUTE_CONTROL_NOT_ALLOWED', message, { param })
  }
}

/** `timestamps`, or OpenAI's `timestamp_granularities[]` which says the same. */
function readTimestamps(reader: FieldReader): TranscriptionOptions['timestamps'] {
  const timestamps = read(reader, 'timestamps')
  const granularities = read(reader, 'timestamp_granularities')
  if (timestamps !== null || granularities === null) return timestamps
  const [first = null, ...others] = new Set(granularities)
  return others.length > 0 ? 'both' : first
}

function readKeyterms(reader: FieldReader): readonly string[] {
  const keyterms = read(reader, 'keyterms') ?? []
  const vocabulary = read(reader, 'custom_vocabulary') ?? []
  for (const [name, terms] of Object.entries({ keyterms, custom_vocabulary: vocabulary })) {
    if (terms.some((term) => term.trim() === '')) throw invalidField(name, 'must hold no empty term')
  }
  return [...new Set([...keyterms, ...vocabulary])]
}

/** `true` is personal data; false and an empty list are nothing. */
function readRedaction(reader: FieldReader): readonly Redaction[] {
  const redaction = read(reader, 'redaction')
  if (typeof redaction === 'boolean') return redaction ? ['pii'] : []
  return redaction ?? []
}

/** RequestFields of a request beside its audio, by name. */
type RequestFields = Readonly<Record<string, TSchema>>

const MediaType = optional(
  Type.String({ maxLength: 128 }),
  'declared type; the format is detected from the bytes',
)
const Base64 = optional(Type.String({ contentEncoding: 'base64' }), 'the audio')

/** Sources of the audio in JSON; the scanner of the body finds it while it streams past. */
const AUDIO_FIELDS = {
  audio: Type.Optional(
    Type.Union(
      [
        Type.Object({
          base64: Base64,
          data: optional(Type.String(), 'the audio, base64 or a `data:` URL'),
          url: optional(Type.String({ format: 'uri', maxLength: 2_048 }), 'https, at an allowed host'),
          upload_id: optional(Type.String({ maxLength: 64 }), 'of a finished upload, `upl_…`'),
          media_type: MediaType,
          filename: optional(Type.String(), 'passed on to the provider'),
        }),
        Type.String({ contentEncoding: 'base64', description: 'the audio' }),
        Type.Null(),
      ],
      {
        description:
          'the audio: exactly one of `base64`, `data`, `url` and `upload_id`, or the base64 text itself',
      },
    ),
  ),
  audio_base64: optional(Type.String({ contentEncoding: 'base64' }), 'shorthand for `audio.base64`'),
}

const AUDIO_FILE = {
  type: 'string',
  format: 'binary',
  contentMediaType: 'application/octet-stream',
  description:
    'the audio: mp3, mp4, m4a, wav, webm, ogg or flac, detected from its bytes; `audio` is accepted as a name, too',
}

/**
 * Documents a body that brings audio: as a form, as JSON, or as the bytes themselves.
 *
 * @param required whether there is always audio
 */
export function audioContents(fields: RequestFields, required = true): readonly Content[] {
  const form = { file: AUDIO_FILE, ...formFields(fields) }
  return [
    {
      type: 'multipart/form-data',
      schema: { type: 'object', properties: form, ...(required ? { required: ['file'] } : {}) },
    },
    json(Type.Object({ ...AUDIO_FIELDS, ...fields })),
    ...RAW_AUDIO,
  ]
}

/** Documents the fields as query parameters, where the body is the audio itself. */
export function queryFields(fields: RequestFields): Json {
  return {
    name: 'options',
    in: 'query',
    description: 'the fields as query parameters, when the body is the audio itself',
    style: 'form',
    explode: true,
    schema: { type: 'object', properties: formFields(fields) },
    // Pages that send calls fill a form with this, instead of a value for every field.
    example: {},
  }
}

/** RequestFields as forms and queries have them: a field that is left out is null, and a refused one is left out. */
function formFields(fields: RequestFields): Json {
  const schemas = new PlainSchemas()
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, schema]) => !Type.IsNull(schema))
      .map(([name, schema]) => [name, withoutNull(schemas.of(schema))]),
  )
}
