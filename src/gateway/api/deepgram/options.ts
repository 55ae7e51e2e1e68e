import { type LiveEncoding, type LiveTerms, REDACTIONS } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { queryValues, readBoolean } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import { SEVERAL_LANGUAGES } from '../../providers/language.ts'
import type { DoorOptions, FieldValue } from '../door-options.ts'
import { DemandingFlag, doorSelectors, fixed, formOf, isOn, OptionReader, warned } from '../door-options.ts'
import { readLiveCall } from '../native/live-call.ts'

/** A session that a handshake asks for. */
export interface AskedSession {
  readonly call: LiveRequest['call']
  readonly live: LiveTerms
  readonly warnings: readonly string[]
}

/** Options of Deepgram's that become the session's, in the order of its reference. */
export interface ListenOptions extends AskedSession {
  /** Results whose channel is told: each channel has its own, or all have one. */
  readonly channels: number
  readonly utteranceEnd: boolean
  readonly vadEvents: boolean
  readonly languages: boolean
}

const ENCODINGS: Readonly<Record<string, LiveEncoding>> = {
  linear16: 'pcm_s16le',
  mulaw: 'mulaw',
  alaw: 'alaw',
}

/** Options that change nothing of a transcript: names for the vendor's statistics, and what is always done. */
const WITHOUT_EFFECT: DoorOptions = {
  ...Object.fromEntries(
    ['version', 'tag', 'extra', 'no_delay', 'punctuate', 'errors'].map((name) => [name, fixed('no effect')]),
  ),
  // Asked for by LiveKit's agents unless they are told otherwise.
  filler_words: warned('whether they are written, the entry decides'),
}
const GROUPS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(REDACTIONS.map((name) => [name, name])),
  true: 'pii',
}

/**
 * Reads the query of a handshake. An option whose effect the caller would miss is refused, as Deepgram refuses what it
 * does not know.
 *
 * @throws GatewayError INVALID_REQUEST naming the option, and as `readLiveCall`
 */
export function readListenOptions(exchange: Exchange, principal: Principal): ListenOptions {
  const query = new OptionReader(queryValues(exchange.query), WITHOUT_EFFECT)
  const format = formatIn(query)
  const endpointing = query.text('endpointing')
  const model = query.text('model')
  const shared = sharedFields(query)
  const { multichannel, detect_language: languages } = shared
  const fields = formOf({
    ...shared,
    ...format,
    channels: query.text('channels'),
    interim: query.flag('interim_results') ?? false,
    // True is the default; false leaves it to the entry, which has to end a segment somewhere.
    endpointing_ms: endpointing === null || readBoolean(endpointing) !== null ? null : bounded(endpointing),
    // Every transcript of this protocol has them.
    timestamps: 'word',
  })
  const unkept = OPT_OUT.in(query)
  const utteranceEnd = isOn(query.text('utterance_end_ms'))
  const vadEvents = query.flag('vad_events') ?? false
  const warnings = query.settle('live transcription here has no such option')
  const call = readLiveCall(exchange, fields)
  const { live } = call.payload
  return {
    call: { ...call, selectors: doorSelectors(call.selectors, principal, model, unkept) },
    live,
    channels: multichannel ? live.audio.channels : 1,
    ...{ utteranceEnd, vadEvents, languages, warnings },
  }
}

/** Fields of the format of raw audio. @throws GatewayError INVALID_REQUEST */
export function formatIn(query: OptionReader) {
  const encoding = ENCODINGS[query.text('encoding') ?? '']
  if (encoding === undefined)
    throw invalidField('encoding', `${MUST.beOneOf(Object.keys(ENCODINGS))}; containers are not taken live`)
  return { encoding, sample_rate: query.required('sample_rate') }
}

/**
 * The request is kept no longer than it takes, and no model is trained with it.
 * https://developers.deepgram.com/trust-security/your-data
 */
export const OPT_OUT = new DemandingFlag('mip_opt_out', true, { retention: 'zero', training: 'never' })

/** Fields of a transcription, out of the options that live audio and files have in common. */
export function sharedFields(query: OptionReader) {
  // English is the default. Of two options for one field both are read, since one that is not is refused.
  const language = query.text('language') ?? 'en'
  return {
    language,
    detect_language: language === SEVERAL_LANGUAGES,
    diarization: [query.flag('diarize'), isOn(query.text('diarize_model'))].includes(true),
    multichannel: query.flag('multichannel') ?? false,
    smart_formatting: [query.flag('smart_format'), query.flag('numerals')].includes(true),
    profanity_filter: query.flag('profanity_filter') ?? false,
    redaction: redactionOf(query.list('redact')),
    keyterms: [...query.list('keyterm'), ...query.list('keywords').map(withoutBoost)],
    purpose: query.text('purpose'),
    response_profile: query.text('response_profile'),
    require: query.text('require'),
  } satisfies Readonly<Record<string, FieldValue>>
}

/** Deepgram takes shorter silences than any other vendor. */
function bounded(endpointing: string): string {
  return /^\d$/.test(endpointing) ? '10' : endpointing
}

function redactionOf(groups: readonly string[]): readonly string[] {
  return groups.flatMap((given) => {
    if (given === 'false') return []
    const group = GROUPS[given]
    if (group === undefined) throw invalidField('redact', MUST.beOneOf(Object.keys(GROUPS)))
    return [group]
  })
}

/** `lark:2`: how much a keyword is favoured is not passed on. */
export function withoutBoost(keyword: string): string {
  return keyword.replace(/:-?[\d.]+$/, '')
}
