import { type LiveEncoding, type LiveTerms, REDACTIONS } from '../../contracts/calls.ts'
import type { Principal } from '../../contracts/catalog.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import { queryValues, readBoolean } from '../../inbound/form.ts'
import { invalidField, MUST } from '../../inbound/refusals.ts'
import type { LiveRequest } from '../../live/parts.ts'
import { readLiveCall } from '../native/live-call.ts'
import { chosenBy } from '../openai/door.ts'

/** Options of Deepgram's that become the session's, in the order of its reference. */
export interface ListenOptions {
  readonly call: LiveRequest['call']
  readonly live: LiveTerms
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
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  ...['version', 'tag', 'extra', 'mip_opt_out', 'no_delay', 'punctuate', 'errors'],
])
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
  const query = new Query(exchange.query)
  const encoding = ENCODINGS[query.text('encoding') ?? '']
  if (encoding === undefined)
    throw invalidField('encoding', `${MUST.beOneOf(Object.keys(ENCODINGS))}; containers are not taken live`)
  const language = query.text('language') ?? 'en'
  const endpointing = query.text('endpointing')
  const model = query.text('model')
  const multichannel = query.flag('multichannel')
  const values = fieldsOf({
    encoding,
    sample_rate: query.text('sample_rate') ?? missing('sample_rate'),
    channels: query.text('channels'),
    interim: query.flag('interim_results'),
    // True is the default; false leaves it to the entry, which has to end a segment somewhere.
    endpointing_ms: endpointing === null || readBoolean(endpointing) !== null ? null : bounded(endpointing),
    ...(language === 'multi' ? { detect_language: true } : { language }),
    // Every transcript of this protocol has them.
    timestamps: 'word',
    diarization: query.flag('diarize') || isOn(query.text('diarize_model')),
    multichannel,
    smart_formatting: query.flag('smart_format') || query.flag('numerals'),
    profanity_filter: query.flag('profanity_filter'),
    redaction: redactionOf(query.list('redact')),
    keyterms: [...query.list('keyterm'), ...query.list('keywords').map(withoutBoost)],
    purpose: query.text('purpose'),
    response_profile: query.text('response_profile'),
  })
  const utteranceEnd = isOn(query.text('utterance_end_ms'))
  const vadEvents = query.flag('vad_events')
  query.refuseOthers()
  const call = readLiveCall(exchange, { kind: 'form', values })
  const { live } = call.payload
  return {
    call: { ...call, selectors: chosenBy(model, call.selectors, principal) },
    live,
    channels: multichannel ? live.audio.channels : 1,
    ...{ utteranceEnd, vadEvents, languages: language === 'multi' },
  }
}

/** Parameters of a query, each read once. */
class Query {
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #known = new Set(WITHOUT_EFFECT)

  constructor(query: string) {
    this.#values = queryValues(query).values
  }

  list(name: string): readonly string[] {
    this.#known.add(name)
    return (this.#values.get(name) ?? []).filter((value) => value !== '')
  }

  text(name: string): string | null {
    return this.list(name)[0] ?? null
  }

  flag(name: string): boolean {
    const text = this.text(name)
    if (text === null) return false
    const value = readBoolean(text)
    if (value === null) throw invalidField(name, MUST.beOneOf(['true', 'false']))
    return value
  }

  /** @throws GatewayError for an option that nobody has asked for and that is not off */
  refuseOthers(): void {
    for (const [name, values] of this.#values)
      if (!this.#known.has(name) && values.some(isOn))
        throw invalidField(name, MUST.beLeftOut('live transcription here has no such option'))
  }
}

function isOn(value: string | null): boolean {
  return value !== null && value !== '' && readBoolean(value) !== false
}

type FieldValue = string | boolean | null | readonly string[]

function fieldsOf(fields: Readonly<Record<string, FieldValue>>): ReadonlyMap<string, readonly string[]> {
  const given = Object.entries(fields).flatMap(([name, value]): (readonly [string, readonly string[]])[] => {
    if (value === null) return []
    // A list is repeated fields: a comma in the only one of them would divide it.
    if (typeof value === 'object') return value.length === 0 ? [] : [[name, [JSON.stringify(value)]]]
    return [[name, [String(value)]]]
  })
  return new Map(given)
}

function missing(name: string): never {
  throw invalidField(name, MUST.beGiven)
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
function withoutBoost(keyword: string): string {
  return keyword.replace(/:-?[\d.]+$/, '')
}
