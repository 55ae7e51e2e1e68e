import { type ErrorExtra, GatewayError } from '../errors.ts'
import type { Selectors } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { FieldReader, type Fields } from '../inbound/form.ts'
import { REDACTIONS, type Redaction, TRANSCRIPT_FORMATS, type TranscriptionOptions } from '../schema/calls.ts'
import { readSelectors } from './selectors.ts'

/** Fields that would choose a provider, a model or a route: the key's route does that. */
const ROUTE_CONTROL = ['provider', 'model', 'models', 'route', 'route_id', 'fallbacks', 'strategy'] as const

const GRANULARITIES = ['word', 'segment', 'both'] as const
const MODES = ['batch', 'async', 'realtime'] as const

const PROMPT_LENGTH_MAX = 8_192
const KEYTERMS_MAX = 1_000
const KEYTERM_LENGTH_MAX = 256

export interface TranscriptionRequest {
  readonly options: TranscriptionOptions
  readonly selectors: Selectors
  readonly warnings: readonly string[]
}

/**
 * The options of a transcription or translation, out of JSON, form fields or query parameters alike.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, ROUTE_CONTROL_NOT_ALLOWED
 */
export function readTranscriptionRequest(exchange: Exchange, fields: Fields): TranscriptionRequest {
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
    redaction: readRedaction(fields, reader),
    seed: reader.integer('seed', { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
  }
  if (reader.boolean('stream') === true)
    throw invalid('stream', 'transcripts are not streamed by this server yet')
  if (options.mode === 'async') throw invalid('mode', 'durable jobs are not offered by this server yet')
  const selectors = readSelectors(exchange, reader)
  const warnings = reader.unknown().map((name) => `${name}: unknown field, ignored`)
  return { options, selectors, warnings }
}

function invalid(param: string, message: string, extra: ErrorExtra = {}): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { ...extra, param })
}

function refuseRouteControl(fields: Fields): void {
  const given = new FieldReader(fields)
  const audio = fields.kind === 'json' ? fields.value.audio : undefined
  for (const name of ROUTE_CONTROL) {
    const nested = typeof audio === 'object' && audio !== null && Object.hasOwn(audio, name)
    if (!given.has(name) && !nested) continue
    const param = nested ? `audio.${name}` : name
    throw new GatewayError('ROUTE_CONTROL_NOT_ALLOWED', `${param} is chosen by the route of the key`, {
      param,
    })
  }
}

/** `timestamps`, or OpenAI's `timestamp_granularities[]` which says the same. */
function readTimestamps(reader: FieldReader): TranscriptionOptions['timestamps'] {
  const timestamps = reader.string('timestamps', { oneOf: GRANULARITIES })
  const granularities = reader.stringList('timestamp_granularities', { maxItems: 2, maxLength: 16 }) ?? []
  for (const granularity of granularities) {
    if (granularity !== 'word' && granularity !== 'segment') {
      throw invalid('timestamp_granularities', 'timestamp_granularities takes word and segment')
    }
  }
  if (timestamps !== null) return timestamps
  if (granularities.includes('word')) return granularities.includes('segment') ? 'both' : 'word'
  return granularities.includes('segment') ? 'segment' : null
}

function readKeyterms(reader: FieldReader): readonly string[] {
  const bounds = { maxItems: KEYTERMS_MAX, maxLength: KEYTERM_LENGTH_MAX }
  const keyterms = reader.stringList('keyterms', bounds) ?? []
  const vocabulary = reader.stringList('custom_vocabulary', bounds) ?? []
  return [...new Set([...keyterms, ...vocabulary])]
}

/** `true` stands for personal data; false and an empty list for nothing. */
function readRedaction(fields: Fields, reader: FieldReader): readonly Redaction[] {
  const json = fields.kind === 'json' ? fields.value.redaction : undefined
  if (typeof json === 'boolean') return reader.boolean('redaction') === true ? ['pii'] : []
  const kinds = reader.stringList('redaction', { maxItems: 4, maxLength: 16 }) ?? []
  const [only] = kinds
  if (kinds.length === 1 && (only === 'true' || only === '1')) return ['pii']
  if (kinds.length === 1 && (only === 'false' || only === '0')) return []
  return kinds.map((kind) => {
    const known = REDACTIONS.find((redaction) => redaction === kind)
    if (known === undefined)
      throw invalid('redaction', `redaction takes true or a list of ${REDACTIONS.join(', ')}`)
    return known
  })
}
