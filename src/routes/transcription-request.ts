import { type ErrorExtra, GatewayError } from '../errors.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { FieldReader, type Fields } from '../inbound/form.ts'
import { REDACTIONS, type Redaction, TRANSCRIPT_FORMATS, type TranscriptionOptions } from '../schema/calls.ts'
import type { Selectors } from '../schema/selectors.ts'
import { ROUTE_CONTROL, readSelectors } from './selectors.ts'
import { unknownFields } from './unknown-fields.ts'

const GRANULARITIES = ['word', 'segment'] as const
const TIMESTAMPS = [...GRANULARITIES, 'both'] as const
const MODES = ['batch', 'async', 'realtime'] as const

const PROMPT_LENGTH_MAX = 8_192
const KEYTERMS_MAX = 1_000
const KEYTERM_LENGTH_MAX = 256

const STREAMLESS = 'only transcriptions that are answered at once are streamed'

/** What a body with audio is heard for. */
export type HearingTask = 'transcription' | 'translation'

/** How an endpoint answers, beside whole and at once. */
export interface Offers {
  /** Piece by piece. */
  readonly stream: boolean
  /** With a durable job. */
  readonly jobs: boolean
}

export interface TranscriptionRequest {
  readonly options: TranscriptionOptions
  /** The caller wants the transcript piece by piece. */
  readonly stream: boolean
  readonly selectors: Selectors
  readonly warnings: readonly string[]
}

/**
 * The options of a transcription or translation, out of JSON, form fields or query parameters alike.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, ROUTE_CONTROL_NOT_ALLOWED
 */
export function readTranscriptionRequest(
  exchange: Exchange,
  fields: Fields,
  task: HearingTask,
  offers: Offers = { stream: task === 'transcription', jobs: false },
): TranscriptionRequest {
  refuseRouteControl(fields)
  const reader = new FieldReader(fields)
  const options: TranscriptionOptions = {
    language: reader.string('language', { maxLength: 35 }),
    prompt: reader.string('prompt', { maxLength: PROMPT_LENGTH_MAX }),
    response_format: reader.string('response_format', { oneOf: TRANSCRIPT_FORMATS }) ?? 'json',
    mode: reader.string('mode', { oneOf: MODES }) ?? 'batch',
    diarization: reader.boolean('diarization') ?? false,
    speaker_count_hint: reader.integer('speaker_count_hint', { min: 1, max: 32 }),
    timestamps: readTimestamps(reader),
    keyterms: readKeyterms(reader),
    smart_formatting: reader.boolean('smart_formatting') ?? false,
    detect_language: reader.boolean('detect_language') ?? false,
    profanity_filter: reader.boolean('profanity_filter') ?? false,
    multichannel: reader.boolean('multichannel') ?? false,
    redaction: readRedaction(reader),
    seed: reader.integer('seed', { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
  }
  const stream = reader.boolean('stream') ?? false
  const isAsync = options.mode === 'async'
  if (isAsync && !offers.jobs) throw invalid('mode', 'only transcriptions of /v1/transcription are async')
  if (stream && isAsync) throw invalid('stream', 'a job is not streamed')
  if (stream && !offers.stream) throw invalid('stream', STREAMLESS)
  const selectors = readSelectors(exchange, reader)
  const warnings = unknownFields(reader.unknown())
  return { options, stream, selectors, warnings }
}

function invalid(param: string, message: string, extra: ErrorExtra = {}): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { ...extra, param })
}

function refuseRouteControl(fields: Fields): void {
  const given = new FieldReader(fields)
  for (const param of [...ROUTE_CONTROL].flatMap((name) => [name, `audio.${name}`])) {
    if (!given.has(param)) continue
    throw new GatewayError('ROUTE_CONTROL_NOT_ALLOWED', `${param} is chosen by the route of the key`, {
      param,
    })
  }
}

/** `timestamps`, or OpenAI's `timestamp_granularities[]` which says the same. */
function readTimestamps(reader: FieldReader): TranscriptionOptions['timestamps'] {
  const timestamps = reader.string('timestamps', { oneOf: TIMESTAMPS })
  const granularities = reader.stringList('timestamp_granularities', { oneOf: GRANULARITIES, maxItems: 2 })
  if (timestamps !== null || granularities === null) return timestamps
  const [first = null, ...others] = new Set(granularities)
  return others.length > 0 ? 'both' : first
}

function readKeyterms(reader: FieldReader): readonly string[] {
  const bounds = { maxItems: KEYTERMS_MAX, maxLength: KEYTERM_LENGTH_MAX }
  const keyterms = reader.stringList('keyterms', bounds) ?? []
  const vocabulary = reader.stringList('custom_vocabulary', bounds) ?? []
  for (const [name, terms] of Object.entries({ keyterms, custom_vocabulary: vocabulary })) {
    if (terms.some((term) => term.trim() === '')) throw invalid(name, `${name} holds an empty term`)
  }
  return [...new Set([...keyterms, ...vocabulary])]
}

/** `true` stands for personal data; false and an empty list for nothing. */
function readRedaction(reader: FieldReader): readonly Redaction[] {
  const redaction = reader.booleanOrList('redaction', { oneOf: REDACTIONS, maxItems: REDACTIONS.length })
  if (typeof redaction === 'boolean') return redaction ? ['pii'] : []
  return redaction ?? []
}
