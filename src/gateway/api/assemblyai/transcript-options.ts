import type { Principal } from '../../../contracts/catalog.ts'
import type { JobDoor } from '../../../contracts/jobs.ts'
import type { Exchange } from '../../edge/exchange.ts'
import type { Fields } from '../../edge/form.ts'
import { isObject } from '../../edge/json-body.ts'
import { invalid, invalidField, MUST } from '../../edge/refusals.ts'
import { kindsFor } from '../../providers/assemblyai/redaction.ts'
import type { AskedCallback } from '../callbacks.ts'
import { type DoorOptions, hint, kept, OptionReader, refused, warned } from '../door-options.ts'
import { readDoorTranscription } from '../door-transcription.ts'
import type { TranscriptionRequest } from '../native/transcription-request.ts'
import { ASSEMBLYAI } from './door.ts'

const NO_ANALYSIS = 'transcripts are not analysed here'
const COVERED = 'must name only policies that `pii`, `phi`, `pci` or `numbers` cover'
const WHOLE = 'the whole audio is transcribed'

/** Every option of `POST /v2/transcript`, in the order of AssemblyAI's reference. */
export const TRANSCRIPT_OPTIONS: DoorOptions = {
  audio_url: kept('what an upload answered, or a URL under the rules of audio by URL'),
  audio_end_at: refused(WHOLE),
  audio_start_from: refused(WHOLE),
  auto_chapters: refused(NO_ANALYSIS),
  auto_highlights: refused(NO_ANALYSIS),
  boost_param: warned('how much a word is favoured is not passed on'),
  content_safety: refused(NO_ANALYSIS),
  content_safety_confidence: refused(NO_ANALYSIS),
  custom_spelling: refused('what was said is written'),
  custom_topics: refused(NO_ANALYSIS),
  disfluencies: refused('whether they are written, the entry decides'),
  domain: warned('the route of the key decides which model it is'),
  dual_channel: kept('as `multichannel`'),
  entity_detection: refused(NO_ANALYSIS),
  filter_profanity: hint('passed on to entries that have it'),
  format_text: hint('formats numbers and dates at entries that do'),
  iab_categories: refused(NO_ANALYSIS),
  keyterms_prompt: kept('words to listen for; required of every entry'),
  keyterms_prompt_options: warned('how words are listened for, the entry decides'),
  language_code: hint('default: `en`, unless it is detected'),
  language_codes: refused('name one language as `language_code`, or have it detected'),
  language_confidence_threshold: refused('there is a transcript however sure its language is'),
  language_detection: hint('asks the entry to detect the language'),
  language_detection_options: warned('which languages are expected is not passed on'),
  multichannel: kept('required of every entry'),
  prompt: hint('passed on to entries that take one'),
  punctuate: kept('transcripts have punctuation: `false` is refused'),
  redact_pii: kept('required of every entry'),
  redact_pii_audio: refused('no audio is made'),
  redact_pii_audio_options: refused('no audio is made'),
  redact_pii_audio_quality: refused('no audio is made'),
  redact_pii_policies: kept(
    'as the kinds `pii`, `phi`, `pci` and `numbers` that cover them: more may be redacted, never less',
  ),
  redact_pii_return_unredacted: refused('there is no other transcript'),
  redact_pii_sub: warned('what stands instead, the entry decides'),
  remove_audio_tags: refused('whether sounds are written, the entry decides'),
  sentiment_analysis: refused(NO_ANALYSIS),
  speaker_labels: kept('required of every entry'),
  speaker_options: warned('bounds of the number of speakers are not passed on'),
  speakers_expected: hint('passed on to entries that take it'),
  speech_model: kept('names a purpose of the workspace; any other name is ignored'),
  speech_models: kept('the same: the first that names a purpose'),
  speech_threshold: refused('there is a transcript however little is said'),
  speech_understanding: refused(NO_ANALYSIS),
  summarization: refused(NO_ANALYSIS),
  summary_model: refused(NO_ANALYSIS),
  summary_type: refused(NO_ANALYSIS),
  temperature: warned('the entry decides'),
  topics: refused(NO_ANALYSIS),
  webhook_auth_header_name: kept('a header of the request to `webhook_url`'),
  webhook_auth_header_value: kept('its value, which is stored encrypted'),
  webhook_url: kept(
    'an https URL, which may have credentials: told when the transcript is completed, or will never be',
  ),
  word_boost: kept('as `keyterms_prompt`'),
}

export interface TranscriptSubmission {
  readonly request: TranscriptionRequest
  readonly door: JobDoor
  /** Null: its end is told to the webhook of the workspace. */
  readonly callback: AskedCallback | null
}

/**
 * Reads the body of `POST /v2/transcript`.
 *
 * @throws GatewayError INVALID_REQUEST naming the option, and as `readTranscriptionRequest`
 */
export function readTranscriptOptions(
  exchange: Exchange,
  body: unknown,
  principal: Principal,
): TranscriptSubmission {
  if (!isObject(body)) throw invalid('the body must be an object')
  const reader = new OptionReader(optionValues(body), TRANSCRIPT_OPTIONS)
  const audioUrl = reader.required('audio_url')
  const multichannel = [reader.flag('multichannel'), reader.flag('dual_channel')].includes(true)
  const detects = reader.flag('language_detection') ?? false
  const language = reader.text('language_code')?.replace('_', '-') ?? null
  const models = [...reader.list('speech_models'), ...reader.list('speech_model')]
  if (reader.flag('punctuate') === false)
    throw invalidField('punctuate', MUST.beLeftOut('transcripts have punctuation'))
  const fields = {
    language: detects ? language : (language ?? 'en'),
    detect_language: detects,
    prompt: reader.text('prompt'),
    diarization: reader.flag('speaker_labels'),
    speaker_count_hint: reader.number('speakers_expected'),
    // Every transcript of this protocol has times of words.
    timestamps: 'word',
    keyterms: [...reader.list('keyterms_prompt'), ...reader.list('word_boost')],
    smart_formatting: reader.flag('format_text'),
    profanity_filter: reader.flag('filter_profanity'),
    multichannel,
    redaction: redactionIn(reader),
  }
  const callback = callbackIn(reader)
  const warnings = reader.settleKindly()
  const model = models.find((name) => principal.purposes.some(({ purpose }) => purpose === name)) ?? null
  const request = readDoorTranscription(exchange, principal, { fields, model, warnings })
  return { request, door: { audioUrl, models }, callback }
}

/** A token, as names of headers are (RFC 9110, section 5.6.2). */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,128}$/
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,2046}[\x21-\x7e])?$/
/** Headers that say how a request is to be read, or where it goes. */
const OWN_HEADERS =
  /^(?:host|connection|keep-alive|te|trailer|upgrade|expect|(?:proxy|content|transfer|accept|x-lk)-.*)$/

function callbackIn(reader: OptionReader): AskedCallback | null {
  const url = reader.text('webhook_url')
  const name = reader.text('webhook_auth_header_name')?.toLowerCase() ?? null
  const value = reader.text('webhook_auth_header_value')
  if (name !== null && (!HEADER_NAME.test(name) || OWN_HEADERS.test(name)))
    throw invalidField('webhook_auth_header_name', 'must be the name of a header that is free to use')
  if (value !== null && !HEADER_VALUE.test(value))
    throw invalidField('webhook_auth_header_value', 'must be visible ASCII of at most 2048 characters')
  if (name === null && value !== null) throw invalidField('webhook_auth_header_name', MUST.beGiven)
  if (name !== null && value === null) throw invalidField('webhook_auth_header_value', MUST.beGiven)
  if (url === null) {
    if (name === null) return null
    throw invalidField('webhook_auth_header_name', MUST.beLeftOut('there is no `webhook_url`'))
  }
  const headers = name === null || value === null ? {} : { [name]: value }
  return { door: ASSEMBLYAI.door.name, param: 'webhook_url', url, method: 'POST', headers, view: null }
}

function redactionIn(reader: OptionReader): readonly string[] {
  const policies = reader.list('redact_pii_policies')
  const isRedacted = reader.flag('redact_pii') ?? false
  if (!isRedacted) return []
  if (policies.length === 0) return ['pii']
  const kinds = kindsFor(policies)
  if (kinds === null) throw invalidField('redact_pii_policies', COVERED)
  return kinds
}

/** Members of JSON as an `OptionReader` takes them: text each, several of a list, and none of what is null. */
function optionValues(body: Readonly<Record<string, unknown>>): Extract<Fields, { readonly kind: 'form' }> {
  const values = Object.entries(body).flatMap(([name, value]): (readonly [string, readonly string[]])[] => {
    if (value === null || value === undefined) return []
    return [[name, (Array.isArray(value) ? value : [value]).map(textOfValue)]]
  })
  return { kind: 'form', values: new Map(values) }
}

function textOfValue(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
