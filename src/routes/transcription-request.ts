import { GatewayError } from '../errors.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { FieldReader, type Fields } from '../inbound/form.ts'
import { invalidField, MUST } from '../inbound/refusals.ts'
import type { Redaction, TranscriptionOptions } from '../schema/calls.ts'
import type { Selectors } from '../schema/selectors.ts'
import { ROUTE_CONTROL, readSelectors } from './selectors.ts'
import { TRANSCRIPTION_FIELDS } from './transcription-fields.ts'
import { typedFields } from './typed-fields.ts'
import { unknownFields } from './unknown-fields.ts'

const read = typedFields(TRANSCRIPTION_FIELDS)

/** Read before the other fields are. */
const AUDIO_MEMBERS = ['audio.base64', 'audio.data', 'audio.url', 'audio.media_type', 'audio.filename']

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
    language: read(reader, 'language'),
    prompt: read(reader, 'prompt'),
    response_format: read(reader, 'response_format') ?? 'json',
    mode: read(reader, 'mode') ?? 'batch',
    diarization: read(reader, 'diarization') ?? false,
    speaker_count_hint: read(reader, 'speaker_count_hint'),
    timestamps: readTimestamps(reader),
    keyterms: readKeyterms(reader),
    smart_formatting: read(reader, 'smart_formatting') ?? false,
    detect_language: read(reader, 'detect_language') ?? false,
    profanity_filter: read(reader, 'profanity_filter') ?? false,
    multichannel: read(reader, 'multichannel') ?? false,
    redaction: readRedaction(reader),
    seed: read(reader, 'seed'),
  }
  const stream = read(reader, 'stream') ?? false
  const isAsync = options.mode === 'async'
  if (isAsync && !offers.jobs)
    throw invalidField('mode', 'must not be `async` here; only /v1/transcription answers with a job')
  if (stream && isAsync) throw invalidField('stream', 'must be left out; a job is not streamed')
  if (stream && !offers.stream) throw invalidField('stream', `must be left out; ${STREAMLESS}`)
  const selectors = readSelectors(exchange, reader)
  const known = reader
    .known()
    .filter((name) => !/\[/.test(name) && !ROUTE_CONTROL.has(name.replace(/^audio\./, '')))
  const warnings = unknownFields(reader.unknown(), [...known, ...AUDIO_MEMBERS])
  return { options, stream, selectors, warnings }
}

function refuseRouteControl(fields: Fields): void {
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

/** `true` stands for personal data; false and an empty list for nothing. */
function readRedaction(reader: FieldReader): readonly Redaction[] {
  const redaction = read(reader, 'redaction')
  if (typeof redaction === 'boolean') return redaction ? ['pii'] : []
  return redaction ?? []
}
