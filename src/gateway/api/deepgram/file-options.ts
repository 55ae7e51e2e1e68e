import type { Principal } from '../../../contracts/catalog.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { type Fields, queryValues } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { AskedCallback } from '../callbacks.ts'
import { type DoorOptions, fixed, hint, isOn, kept, OptionReader, refused, warned } from '../door-options.ts'
import { readDoorTranscription } from '../door-transcription.ts'
import { unknownFields } from '../fields.ts'
import type { TranscriptionRequest } from '../native/transcription-request.ts'
import { DEEPGRAM } from './door.ts'
import { OPT_OUT, sharedFields, withoutBoost } from './options.ts'
import { type ListenView, UTTERANCE_GAP_SECONDS } from './transcript.ts'

const NO_ANALYSIS = 'transcripts are not analysed here'
const READ_FROM_BYTES = 'the format is read from the audio itself'

/** Every option of `POST /v1/listen`, in the order of Deepgram's reference. */
export const LISTEN_OPTIONS: DoorOptions = {
  callback: kept('an https URL, which may have credentials: the answer goes there, by a durable job'),
  callback_method: kept('`POST`, the default, or `PUT`; beside `callback`'),
  extra: kept('told again in `metadata.extra`'),
  sentiment: refused(NO_ANALYSIS),
  summarize: refused(NO_ANALYSIS),
  tag: kept('told again in `metadata.tags`'),
  topics: refused(NO_ANALYSIS),
  custom_topic: refused(NO_ANALYSIS),
  custom_topic_mode: refused(NO_ANALYSIS),
  intents: refused(NO_ANALYSIS),
  custom_intent: refused(NO_ANALYSIS),
  custom_intent_mode: refused(NO_ANALYSIS),
  detect_entities: refused(NO_ANALYSIS),
  detect_language: hint('`true`, or a list of languages, of which only a single one is passed on'),
  diarize: kept('required of every entry'),
  diarize_model: kept('as `diarize`; which version it is, the entry decides'),
  dictation: refused('spoken punctuation stays as it was spoken'),
  encoding: warned(READ_FROM_BYTES),
  sample_rate: warned(READ_FROM_BYTES),
  channels: warned(READ_FROM_BYTES),
  filler_words: refused('whether they are written, the entry decides'),
  keyterm: kept('words to listen for; required of every entry'),
  keywords: kept('the same; how much a word is favoured is not passed on'),
  language: hint(
    'default: `en`; `multi` asks for several in one recording, of which other entries detect one',
  ),
  measurements: refused('units stay as they were spoken'),
  model: kept('names a purpose of the workspace; any other name is ignored'),
  multichannel: kept('required of every entry'),
  numerals: hint('as `smart_format`'),
  paragraphs: kept(
    'made of the times of words: they end where the speaker changes, and with a sentence before 1 s of silence',
  ),
  profanity_filter: hint('passed on to entries that have it'),
  punctuate: fixed('transcripts have punctuation'),
  redact: kept('`pii`, `phi`, `pci`, `numbers`, or `true` for `pii`; required of every entry'),
  replace: refused('what was said is written'),
  search: refused('there is no search by sound'),
  smart_format: hint('formats numbers and dates at entries that do; adds `paragraphs`'),
  utterances: kept(
    'made of the times of words: they end where the speaker changes, and after `utt_split` seconds of silence',
  ),
  utt_split: kept('default: 0.8'),
  version: warned('the route of the key decides which model it is'),
  mip_opt_out: OPT_OUT.option,
}

export interface FileRequest extends TranscriptionRequest {
  readonly view: ListenView
  /** Absent: it is answered at once. */
  readonly callback?: AskedCallback
}

/**
 * Reads the query of a request for a file. The fields of its body are none but the URL, which was taken away.
 *
 * @throws GatewayError INVALID_REQUEST naming the option, and as `readTranscriptionRequest`
 */
export function readFileOptions(exchange: Exchange, fields: Fields, principal: Principal): FileRequest {
  const others = fields.kind === 'json' ? Object.keys(fields.value) : []
  const query = new OptionReader(queryValues(exchange.query), LISTEN_OPTIONS)
  const model = query.text('model')
  const { language, ...shared } = sharedFields(query)
  const view = listenView(query, shared.multichannel)
  const callback = callbackIn(query)
  const detected = detectedIn(query)
  const weighted = query.list('keywords').some((word) => withoutBoost(word) !== word)
  const versioned = /^v\d/.test(query.text('diarize_model') ?? '')
  const unkept = OPT_OUT.in(query)
  const own = [...query.settleKindly(), ...unknownFields(others, ['url'])]
  const whole = { ...view, detectsLanguage: shared.detect_language || detected.detects }
  const request = readDoorTranscription(exchange, principal, {
    fields: {
      ...shared,
      detect_language: whole.detectsLanguage,
      language: detected.detects ? detected.only : language,
      // Every transcript of this protocol has times of words; the text of a channel is that of its segments.
      timestamps: shared.multichannel ? 'both' : 'word',
      mode: callback === null ? null : 'async',
    },
    model,
    demands: unkept,
    warnings: [
      ...own,
      ...detected.warnings,
      ...(weighted ? ['keywords: how much a word is favoured is not passed on'] : []),
      ...(versioned ? ['diarize_model: which version it is, the entry decides'] : []),
    ],
    jobs: true,
  })
  const callbackField = callback === null ? {} : { callback: { ...callback, view: whole } }
  return { ...request, view: whole, ...callbackField }
}

const METHODS = ['POST', 'PUT'] as const

function callbackIn(query: OptionReader): Omit<AskedCallback, 'view'> | null {
  const url = query.text('callback')
  const given = query.text('callback_method')
  const method = METHODS.find((one) => one === (given ?? 'POST').toUpperCase())
  if (method === undefined) throw invalidField('callback_method', MUST.beOneOf(METHODS))
  if (url !== null) return { door: DEEPGRAM.door.name, param: 'callback', url, method, headers: {} }
  if (given !== null) throw invalidField('callback_method', MUST.beLeftOut('there is no `callback`'))
  return null
}

function listenView(query: OptionReader, multichannel: boolean): Omit<ListenView, 'detectsLanguage'> {
  const paragraphs = query.flag('paragraphs') ?? false
  const extra = query.list('extra').map((pair) => {
    const at = pair.indexOf(':')
    if (at < 1) throw invalidField('extra', 'must be a key and a value, with a colon between them')
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  })
  const uttSplit = query.number('utt_split') ?? UTTERANCE_GAP_SECONDS
  if (uttSplit <= 0) throw invalidField('utt_split', MUST.beGreaterThan(0))
  return {
    utterances: query.flag('utterances') ?? false,
    uttSplit,
    paragraphs: paragraphs || query.flag('smart_format') === true,
    multichannel,
    tags: query.list('tag'),
    extra: Object.fromEntries(extra),
  }
}

/** `detect_language` is a flag, or the languages that it may be. */
function detectedIn(query: OptionReader) {
  const given = query.list('detect_language')
  const languages = given.filter((value) => value !== 'true' && isOn(value))
  const [only = null, ...others] = languages
  return {
    detects: given.some(isOn),
    only: others.length === 0 ? only : null,
    warnings: others.length === 0 ? [] : ['detect_language: more than one language cannot be passed on'],
  }
}
