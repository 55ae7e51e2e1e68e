import type { LiveCall, LiveEncoding, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake } from '../../../contracts/live.ts'
import type { LiveTranscription, Target, Unsupported } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply } from '../../../contracts/upstream.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { classify } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { LiveLog, socketUrl, UNREADABLE } from '../live.ts'
import { fractionOf, secondsOf } from '../numbers.ts'
import { wantsSpeakers } from '../transcript-needs.ts'
import { lackedFeatures } from '../unsupported.ts'
import { readWord } from './transcript.ts'
import { hintOf, MULTI, MULTILINGUAL, optionsQuery, redactsIn, unsupportedKeyterms } from './transcription.ts'

/** https://developers.deepgram.com/docs/encoding */
export const ENCODINGS: Readonly<Record<LiveEncoding, string>> = {
  pcm_s16le: 'linear16',
  mulaw: 'mulaw',
  alaw: 'alaw',
}

/** Ten seconds without a frame close the connection; every 3 to 5 a `KeepAlive` is advised. */
export const KEEP_ALIVE_MS = 4_000
/** Interim results come about every second, in silence too. */
const ANSWER_MS = 5_000

/** Where a server speaks this protocol, below the base URL, and what goes with the handshake. */
interface ListenTerms {
  readonly path: string
  readonly headers: (target: Target) => Record<string, string>
  /** Options beside those of the call; absent: none. */
  readonly options?: (target: Target) => Readonly<Record<string, string>>
}

/**
 * `GET /v1/listen` as a WebSocket: options in the query, audio as binary frames.
 * https://developers.deepgram.com/reference/speech-to-text/listen-streaming; @deepgram/sdk 5.13.0, listen/resources/v1
 */
export function liveOperation(terms: ListenTerms): LiveTranscription {
  return defineLive({
    unsupported,
    handshake: (call, target) => handshake(call, target, terms),
    refused,
    hint: ({ options }) => hintOf(options),
    wire: (call, target) => new DeepgramWire(call, target),
    readyWhenOpen: true,
    keepAliveMs: KEEP_ALIVE_MS,
    answersWithinMs: ANSWER_MS,
  })
}

/** Live it redacts English only, and where it detects English by itself, no one knows what it missed. */
function unsupported({ options }: LiveCall, { model }: Target): Unsupported | null {
  const { keyterms, language, redaction, detect_language: detect } = options
  const code = language === null || detect ? null : languageCode(language)
  if (!redactsIn(code, redaction))
    return lackedFeatures(['redaction'], code === null ? {} : { language: code })
  return unsupportedKeyterms(keyterms, model)
}

function handshake(
  { options, live: terms }: LiveCall,
  target: Target,
  { path, headers, options: extra }: ListenTerms,
): Omit<LiveHandshake, 'protocols'> {
  const { encoding, sampleRate, channels: given } = terms.audio
  const channels = options.multichannel ? given : 1
  const query = optionsQuery(options, target.model)
  // It detects no language live: without any it would take all for English.
  if (!query.has('language') && MULTILINGUAL.test(target.model)) query.set('language', MULTI)
  query.set('encoding', ENCODINGS[encoding])
  query.set('sample_rate', String(sampleRate))
  query.set('channels', String(channels))
  // Also for who does not read them: they tell that it is there.
  query.set('interim_results', 'true')
  query.set('vad_events', 'true')
  const { endpointingMs } = terms
  if (terms.commit === 'manual') query.set('endpointing', 'false')
  else if (endpointingMs !== null) query.set('endpointing', String(endpointingMs))
  for (const [name, value] of Object.entries(extra?.(target) ?? {})) query.set(name, value)
  return {
    url: socketUrl(target, `${path}?${query}`),
    headers: headers(target),
    audio: { encoding, sampleRate, channels },
  }
}

/** A refusal says why in a header, and not always in its body. */
function refused(reply: UpstreamReply): Failure {
  const { 'dg-error': said } = reply.headers
  const hasBody = reply.body.some(({ byteLength }) => byteLength > 0)
  return classify(
    hasBody || said === undefined
      ? reply
      : { status: reply.status, headers: reply.headers, body: [Buffer.from(said.slice(0, 4096))] },
  )
}

const KEEP_ALIVE = ['{"type":"KeepAlive"}']
const FINALIZE = ['{"type":"Finalize"}']
const CLOSE_STREAM = ['{"type":"CloseStream"}']

class DeepgramWire implements LiveWire {
  readonly #options: LiveCall['options']
  readonly log: LiveLog
  /** Language of what does not say it; null: not known. */
  readonly #language: string | null
  /** Up to where each channel has its final results, seconds. */
  readonly #until: number[]
  /** Seconds that were sent before each `Finalize` that has had no answer. */
  readonly #finalizing: number[] = []
  #ending = false
  #ended = false

  constructor({ options, live: { audio } }: LiveCall, { model }: Target) {
    const { language } = hintOf(options)
    this.#language = language !== null ? languageCode(language) : MULTILINGUAL.test(model) ? null : 'en'
    const channels = options.multichannel ? audio.channels : 1
    this.#options = options
    this.log = new LiveLog({ ...audio, channels })
    this.#until = Array.from({ length: channels }, () => 0)
  }

  /** It takes audio when the socket is open, and says nothing before there is any. */
  opened(): readonly LiveFrame[] {
    return KEEP_ALIVE
  }

  get waiting(): number {
    return this.#finalizing.length
  }

  /** It closes after the summary; without one, what was not final may be lost. */
  get isWhole(): boolean {
    return this.#ended || (this.#ending && this.log.settled >= this.log.sent - ROUNDING)
  }

  finalize(): readonly LiveFrame[] {
    this.#finalizing.push(this.log.sent)
    return FINALIZE
  }

  keepAlive(): readonly LiveFrame[] {
    return KEEP_ALIVE
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    return CLOSE_STREAM
  }

  read(message: JsonObject): readonly LiveEvent[] {
    switch (message.type) {
      case 'Results':
        return this.#results(message)
      case 'SpeechStarted':
        return this.#speechStarted(message)
      case 'Metadata':
        return this.#metadata()
      default:
        return []
    }
  }

  #results(message: JsonObject): readonly LiveEvent[] {
    const [channel] = Array.isArray(message.channel_index) ? (message.channel_index as unknown[]) : [0]
    const [start, length] = [secondsOf(message.start), secondsOf(message.duration)]
    const [best] = objectsIn(asObject(message.channel)?.alternatives)
    if (!this.log.has(channel) || start === null || length === null) return UNREADABLE.events
    if (best === undefined || typeof best.transcript !== 'string') return UNREADABLE.events
    const text = best.transcript.trim()
    if (message.is_final !== true) {
      // That interim results are redacted, its pages do not say.
      if (this.#options.redaction.length > 0) return []
      if (text === '') return [this.log.partial(start, '', channel)]
      const [first] = objectsIn(best.words)
      return [this.log.partial(secondsOf(first?.start) ?? start, text, channel, start + length)]
    }
    return [
      ...this.#finals(best, text, channel, start, start + length),
      ...this.#settle(channel, start + length, message.from_finalize === true),
      ...(message.speech_final === true ? [this.log.utteranceEnd(start + length, channel)] : []),
    ]
  }

  #finals(best: JsonObject, text: string, channel: number, start: number, end: number): readonly LiveEvent[] {
    if (text === '') return [this.log.partial(start, '', channel)]
    const items = objectsIn(best.words)
    const words = items.flatMap((item) => readWord(item, 0, { ...this.#options, multichannel: false }))
    const [heard] = Array.isArray(best.languages) ? (best.languages as unknown[]) : []
    const language = typeof heard === 'string' ? languageCode(heard) : this.#language
    const named = words.map((word): Word => {
      const { speaker: given, ...rest } = word
      const speaker = wantsSpeakers(this.#options) ? this.log.speaker(given) : undefined
      return speaker === undefined ? rest : { ...rest, speaker }
    })
    const confidence = fractionOf(best.confidence)
    return this.log.finals({ channel, start, end, text, words: named, language, confidence })
  }

  /** Words that are final on every channel are settled; all that was sent before a `Finalize` when it is answered. */
  #settle(channel: number, until: number, isAnswer: boolean): LiveEvent[] {
    if (!this.log.isBeyond(until))
      this.#until[channel] = Math.max(this.#until[channel] ?? 0, Math.min(this.log.sent, until))
    const settled = [...this.log.settle(Math.min(...this.#until))]
    // Where little was buffered, no result is marked as the answer.
    const answered = (at: number) => this.log.settled >= at - ROUNDING
    let isMarked = isAnswer && this.#until.length === 1
    while (this.#finalizing[0] !== undefined && (isMarked || answered(this.#finalizing[0]))) {
      settled.push(...this.log.settle(this.#finalizing[0]), { kind: 'finalized' })
      this.#finalizing.shift()
      isMarked = false
    }
    return settled
  }

  #speechStarted({ channel, timestamp }: JsonObject): readonly LiveEvent[] {
    const [at] = Array.isArray(channel) ? (channel as unknown[]) : [0]
    const seconds = secondsOf(timestamp)
    return this.log.has(at) && seconds !== null ? [this.log.speechStarted(seconds, at)] : []
  }

  /** The summary comes last, and once. */
  #metadata(): readonly LiveEvent[] {
    if (!this.#ending || this.#ended) return []
    this.#ended = true
    const finalized = this.#finalizing.splice(0).map((): LiveEvent => ({ kind: 'finalized' }))
    return [...this.log.settle(this.log.sent), ...finalized, { kind: 'ended' }]
  }
}

/** Times come rounded to hundredths, and the last samples of a frame may be left for the next one. */
export const ROUNDING = 0.03
