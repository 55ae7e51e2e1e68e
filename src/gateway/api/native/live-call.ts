import { Type } from 'typebox'
import { LIVE_ENCODINGS, type LiveCall, type LiveTerms } from '../../../contracts/calls.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { FieldReader, type Fields, withoutFields } from '../../edge/form.ts'
import { invalidField } from '../../edge/refusals.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import { SLICE_SECONDS } from '../../live/money.ts'
import { SAMPLE_RATES } from '../../media/pcm.ts'
import { typedFields } from '../fields.ts'
import { optional } from '../json-request.ts'
import { readTranscriptionRequest } from './transcription-request.ts'

const CHANNELS_MAX = 8

/** Fields of a live session beside those of every transcription. */
export const LIVE_FIELDS = {
  encoding: optional(Type.Enum([...LIVE_ENCODINGS]), 'of the samples; default: pcm_s16le'),
  sample_rate: optional(
    Type.Integer({ minimum: SAMPLE_RATES[0], maximum: SAMPLE_RATES.at(-1)! }),
    `Hz, one of ${SAMPLE_RATES.join(', ')}; default: 16000`,
  ),
  channels: optional(Type.Integer({ minimum: 1, maximum: CHANNELS_MAX }), 'interleaved; default: 1'),
  interim: optional(Type.Boolean(), 'whether unfinished text is sent; default: true'),
  endpointing_ms: optional(
    Type.Integer({ minimum: 10, maximum: 5_000 }),
    "silence that ends an utterance; default: the provider's",
  ),
  commit: optional(
    Type.Enum(['auto', 'manual']),
    'manual: an utterance ends where the message `finalize` says so; default: auto',
  ),
}

const readLive = typedFields(LIVE_FIELDS)
const LIVE_NAMES = [...Object.keys(LIVE_FIELDS), 'errors']

/**
 * Reads the fields of a live session.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, ROUTE_CONTROL_NOT_ALLOWED
 */
export function readLiveCall(exchange: Exchange, fields: Fields): LiveRequest['call'] {
  const reader = new FieldReader(fields)
  const terms = readTerms(reader)
  const request = readTranscriptionRequest(exchange, withoutFields(fields, LIVE_NAMES), 'transcription')
  if (request.options.mode === 'async') throw invalidField('mode', 'must be `realtime` here, or left out')
  if (request.stream) throw invalidField('stream', 'must be left out; a live session streams anyway')
  if (request.options.max_cost_usd !== undefined)
    throw invalidField('max_cost_usd', 'must be left out; how long a live session will be is not known')
  const { selectors } = request
  const isKept = request.options.skip_silence === true
  const warnings = isKept ? [...request.warnings, SILENCE_KEPT] : request.warnings
  return { operation: 'transcription', payload: livePayload(request.options, terms), selectors, warnings }
}

const SILENCE_KEPT = 'skip_silence: left out, live audio is heard as it comes'

/** A call of a live session, whose audio is the first slice of it. */
export function livePayload(options: LiveCall['options'], live: LiveTerms): LiveCall {
  return {
    options: { ...options, mode: 'realtime' },
    live,
    audio: {
      source: { kind: 'memory', blocks: [] },
      ...{ offset: 0, length: 0, decodedBytes: 0, encoding: 'identity', canonical: true },
      ...{ mediaType: null, filename: null, format: 'wav' },
      durationSeconds: SLICE_SECONDS,
      channels: live.audio.channels,
    },
  }
}

/**
 * Checks a format that the audio itself tells: what any other format can be made of it is held to.
 *
 * @throws GatewayError INVALID_REQUEST
 */
export function checkAudio({ sampleRate, channels }: LiveTerms['audio']): void {
  if (!SAMPLE_RATES.some((rate) => rate === sampleRate))
    throw invalidField('audio', `must have one of these sample rates: ${SAMPLE_RATES.join(', ')}`)
  if (channels > CHANNELS_MAX) throw invalidField('audio', `must have at most ${CHANNELS_MAX} channels`)
}

function readTerms(reader: FieldReader): LiveTerms {
  const sampleRate = readLive(reader, 'sample_rate') ?? 16_000
  if (!SAMPLE_RATES.some((rate) => rate === sampleRate))
    throw invalidField('sample_rate', `must be one of ${SAMPLE_RATES.join(', ')}`)
  return {
    audio: {
      encoding: readLive(reader, 'encoding') ?? 'pcm_s16le',
      sampleRate,
      channels: readLive(reader, 'channels') ?? 1,
    },
    interim: readLive(reader, 'interim') ?? true,
    endpointingMs: readLive(reader, 'endpointing_ms'),
    commit: readLive(reader, 'commit') ?? 'auto',
  }
}
