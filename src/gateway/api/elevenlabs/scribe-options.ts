import { REDACTIONS } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { type Fields, queryValues } from '../../edge/form.ts'
import { isObject } from '../../edge/json-body.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { AskedCallback } from '../callbacks.ts'
import { type DoorOptions, fixed, hint, kept, OptionReader, refused, warned } from '../door-options.ts'
import { readDoorTranscription } from '../door-transcription.ts'
import type { TranscriptionRequest } from '../native/transcription-request.ts'
import { ELEVENLABS, LOGGING } from './door.ts'
import type { ScribeEventView, ScribeView } from './transcript.ts'

/** Every field of `POST /v1/speech-to-text` beside its audio, in the order of ElevenLabs' reference. */
export const SCRIBE_OPTIONS: DoorOptions = {
  token: refused('a key goes as `xi-api-key`'),
  enable_logging: LOGGING.option,
  model_id: kept('names a purpose of the workspace; any other name is ignored'),
  language_code: hint('ISO 639; without it the language is detected'),
  transcript_edit: refused('transcripts are not edited here'),
  tag_audio_events: hint(
    '`true`: sounds such as laughter, by entries of the kind `elevenlabs`; unasked only what was said is written',
  ),
  num_speakers: hint('passed on to entries that take it'),
  timestamps_granularity: kept(
    '`word`, the default, is required; `character` too, of entries of the kind `elevenlabs`; `none`: no words',
  ),
  diarize: kept('required of every entry'),
  diarization_threshold: warned('the entry decides how speakers are separated'),
  additional_formats: refused('ask for `srt` or `vtt` at `POST /v1/transcription`'),
  file_format: fixed('read from the audio itself; `pcm_s16le_16`, which has no head, is refused'),
  webhook: kept(
    'the transcript goes to the webhook of the workspace, by a durable job; refused where there is none',
  ),
  webhook_id: warned('a workspace has one webhook'),
  webhook_metadata: kept('comes back in the event; beside `webhook`'),
  temperature: warned('not passed on'),
  seed: kept('as `seed` at `/v1/transcription`'),
  use_multi_channel: kept('required of every entry'),
  multichannel_output_style: kept('`separate`, the default, or `combined`'),
  entity_detection: refused('entities are not told; beside `entity_redaction` it has no effect'),
  no_verbatim: refused('whether filler words are written, the entry decides'),
  use_speaker_library: refused('speakers are told apart, not known'),
  detect_speaker_roles: refused('speakers are told apart, not known'),
  entity_redaction: kept('`pii`, `phi`, `pci`, `numbers`; required of every entry'),
  entity_redaction_mode: warned('the entry decides what replaces an entity'),
  keyterms: kept('words to listen for; required of every entry'),
}

export interface ScribeRequest extends TranscriptionRequest {
  readonly view: ScribeView
  /** Absent: it is answered at once. */
  readonly callback?: AskedCallback
}

/**
 * Reads the fields of a form, and the two that the query has.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, and as `readTranscriptionRequest`
 */
export function readScribeOptions(exchange: Exchange, fields: Fields, principal: Principal): ScribeRequest {
  const sent = new Map(queryValues(exchange.query).values)
  if (fields.kind === 'form')
    for (const [name, values] of fields.values)
      sent.set(name, [...(sent.get(name) ?? []), ...(AS_JSON.has(name) ? values.flatMap(unwrapped) : values)])
  const form = new OptionReader({ kind: 'form', values: sent }, SCRIBE_OPTIONS)
  const model = form.required('model_id')
  const language = form.text('language_code')
  const granularity = form.word('timestamps_granularity', ['word', 'none', 'character'])
  const multichannel = form.flag('use_multi_channel') ?? false
  const style = form.word('multichannel_output_style', ['separate', 'combined'])
  const redaction = form.list('entity_redaction')
  const unknown = redaction.find((group) => !REDACTIONS.some((known) => known === group))
  if (unknown !== undefined) throw invalidField('entity_redaction', MUST.beOneOf(REDACTIONS))
  if (redaction.length > 0) form.list('entity_detection')
  form.word('file_format', ['other'])
  const isAnnounced = form.flag('webhook') ?? false
  const metadata = metadataIn(form, isAnnounced)
  const unkept = LOGGING.in(form)
  const own = {
    ...{ language, detect_language: language === null, multichannel, redaction },
    // The text of a channel is that of its segments.
    timestamps: multichannel ? 'both' : granularity === 'none' ? null : 'word',
    diarization: form.flag('diarize') ?? false,
    speaker_count_hint: form.text('num_speakers'),
    keyterms: form.list('keyterms'),
    seed: form.text('seed'),
    purpose: form.text('purpose'),
    response_profile: form.text('response_profile'),
    require: form.text('require'),
    mode: isAnnounced ? 'async' : null,
  }
  const tagged = form.flag('tag_audio_events') ?? false
  const warnings = form.settleKindly()
  const given = { fields: own, model, demands: unkept, warnings, jobs: true }
  const { options, ...request } = readDoorTranscription(exchange, principal, given)
  const channels = !multichannel ? 'one' : style === 'combined' ? 'combined' : 'separate'
  const view: ScribeView = { timed: granularity !== 'none', channels }
  return {
    ...request,
    options: {
      ...options,
      ...(tagged ? { audio_events: true } : {}),
      ...(granularity === 'character' ? { character_times: true } : {}),
    },
    view,
    ...(isAnnounced ? { callback: callbackOf({ ...view, metadata }) } : {}),
  }
}

function callbackOf(view: ScribeEventView): AskedCallback {
  return { door: ELEVENLABS.door.name, param: 'webhook', url: null, method: 'POST', headers: {}, view }
}

/** ElevenLabs has the same bounds. */
const METADATA_BYTES_MAX = 16 * 1024
const METADATA_LEVELS_MAX = 2

/** Fields that the client of Python's writes as JSON, and as `null` where they are left out. */
const AS_JSON = new Set(['additional_formats', 'entity_detection', 'entity_redaction', 'webhook_metadata'])

/** The texts of a list, nothing of null, and any other value as it is. */
function unwrapped(text: string): readonly string[] {
  const value = parsedOption(text)
  if (value === null) return []
  return Array.isArray(value) ? value.map(String) : [typeof value === 'string' ? value : text]
}

/** @throws GatewayError INVALID_REQUEST, also for what belongs to a webhook where none is asked for */
function metadataIn(form: OptionReader, isAnnounced: boolean): unknown {
  if (!isAnnounced && form.has('webhook_metadata'))
    throw invalidField('webhook_metadata', MUST.beLeftOut('there is no `webhook: true`'))
  const text = form.text('webhook_metadata')
  if (text === null) return null
  const value = Buffer.byteLength(text) > METADATA_BYTES_MAX ? null : parsedOption(text)
  if (!isObject(value) || !isWithin(METADATA_LEVELS_MAX, value))
    throw invalidField('webhook_metadata', 'must be a JSON object of at most 2 levels and 16 KiB')
  return value
}

/** Undefined: it is no JSON. */
function parsedOption(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** True where objects and lists are nested no deeper. */
function isWithin(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((one) => isWithin(levels - 1, one))
}
