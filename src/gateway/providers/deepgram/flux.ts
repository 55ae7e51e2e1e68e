import type { LiveAudio, LiveCall, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake } from '../../../contracts/live.ts'
import type { LiveTranscription, Target, Unsupported } from '../../../contracts/provider.ts'
import { AddedSilence } from '../added-silence.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { objectsIn } from '../json.ts'
import { type LanguageHint, languageCode, languageHint } from '../language.ts'
import { failureInside, LiveLog, NOTHING, type Received, socketUrl, UNREADABLE } from '../live.ts'
import { secondsOf } from '../numbers.ts'
import { wantsSpeakers } from '../transcript-needs.ts'
import { lackedFeatures } from '../unsupported.ts'
import { ENCODINGS, KEEP_ALIVE_MS, ROUNDING } from './live.ts'
import { readWord } from './transcript.ts'
import { redactsIn } from './transcription.ts'
import { deepgramHeaders, optOut } from './wire.ts'

/**
 * Models that tell turns, at `GET /v2/listen` as a WebSocket: options in the query, audio as binary frames, and
 * `TurnInfo` about every quarter of a second. https://developers.deepgram.com/reference/speech-to-text/listen-flux;
 * @deepgram/sdk 5.13.0, listen/resources/v2
 */
const flux = defineLive({
  unsupported: ({ options }) => unsupported(options),
  handshake,
  hint: hintOf,
  wire: (call, target) => new FluxWire(call, target),
})

function isFlux(model: string): boolean {
  return model.startsWith('flux-')
}

/** The live transcription of Deepgram's other models, with that of these. */
export function withFlux(others: LiveTranscription): LiveTranscription {
  const of = ({ model }: Target) => (isFlux(model) ? flux : others)
  return {
    ...others,
    unsupported: (call, target) => of(target).unsupported?.(call, target) ?? null,
    handshake: (call, target) => of(target).handshake(call, target),
    connect: (call, target) => of(target).connect(call, target),
    tellsTurns: isFlux,
  }
}

/** Numbers are the only redaction that it takes; https://developers.deepgram.com/changelog/2026/6/24 */
function unsupported(options: LiveCall['options']): Unsupported | null {
  const { redaction, language, detect_language: detect, multichannel } = options
  const lacked = redaction.filter((kind) => kind !== 'numbers')
  const code = language === null || detect ? null : languageCode(language)
  const isForeign = !redactsIn(code, redaction)
  return lackedFeatures(
    [
      wantsSpeakers(options) && 'diarization',
      multichannel && 'multichannel',
      (lacked.length > 0 || isForeign) && 'redaction',
    ],
    { redactions: lacked, ...(isForeign && code !== null ? { language: code } : {}) },
  )
}

/** https://developers.deepgram.com/docs/flux/language-prompting */
const MULTILINGUAL = 'flux-general-multi'
const LANGUAGES: readonly string[] = ['en', 'es', 'fr', 'de', 'hi', 'ru', 'pt', 'ja', 'it', 'nl']

/** Only the model of several languages takes a hint; the other one hears English. */
function hintOf({ options }: LiveCall, { model }: Target): LanguageHint {
  const known = model === MULTILINGUAL ? LANGUAGES : ['en']
  return languageHint(options, (code) => (known.includes(code) ? code : null))
}

/** Hz; https://developers.deepgram.com/changelog/2025/10/16 */
const RATES: readonly number[] = [8000, 16_000, 24_000, 44_100, 48_000]

function liveAudioFor({ live: { audio } }: LiveCall): LiveAudio {
  return RATES.includes(audio.sampleRate)
    ? { ...audio, channels: 1 }
    : { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }
}

/**
 * Bounds of the silence that ends a turn whatever the model thinks of it, ms, and what ends one where the caller does.
 * https://developers.deepgram.com/docs/flux/configuration, /docs/flux/own-turn-detection
 */
const TIMEOUT_MS = { least: 500, most: 60_000, manual: 30_000 } as const

function handshake(call: LiveCall, target: Target): Omit<LiveHandshake, 'protocols'> {
  const { options, live: terms } = call
  const { encoding, sampleRate, channels } = liveAudioFor(call)
  const query = new URLSearchParams({
    model: target.model,
    encoding: ENCODINGS[encoding],
    sample_rate: String(sampleRate),
  })
  const { language } = hintOf(call, target)
  if (language !== null && target.model === MULTILINGUAL) query.set('language_hint', language)
  if (options.smart_formatting) query.set('numerals', 'true')
  if (options.profanity_filter) query.set('profanity_filter', 'true')
  for (const kind of options.redaction) query.append('redact', kind)
  for (const term of options.keyterms) query.append('keyterm', term)
  const { endpointingMs } = terms
  if (terms.commit === 'manual') {
    // It then ends no turn by itself, but behind a long silence.
    query.set('eot_threshold', '1.0')
    query.set('eot_timeout_ms', String(TIMEOUT_MS.manual))
  } else if (endpointingMs !== null) {
    const given = Math.min(Math.max(endpointingMs, TIMEOUT_MS.least), TIMEOUT_MS.most)
    query.set('eot_timeout_ms', String(given))
  }
  for (const [name, value] of Object.entries(optOut(target))) query.set(name, value)
  return {
    url: socketUrl(target, `/v2/listen?${query}`),
    headers: deepgramHeaders(target),
    audio: { encoding, sampleRate, channels },
  }
}

/** Audio of one `TurnInfo` is about as long; https://developers.deepgram.com/docs/flux/state */
const UPDATE_SECONDS = 0.25
/** Silence behind which all audio before it is certainly transcribed. */
const PADDING_SECONDS = 2 * UPDATE_SECONDS
/** As much of silence may be the beginning of a turn that is not told yet. */
const BEGINNING_SECONDS = 1

const FORCE_END_TURN = ['{"type":"ForceEndTurn"}']
const CLOSE_STREAM = '{"type":"CloseStream"}'

/** A turn so far. Times are the provider's. */
interface Turn {
  readonly text: string
  readonly words: readonly Word[]
  readonly from: number
  readonly until: number
  readonly language: string | null
}

/**
 * It is told of silence by audio alone: there is no `KeepAlive`. Neither does it say that all is transcribed, so that a
 * little silence is sent behind what has to be, until it has heard that.
 */
class FluxWire implements LiveWire {
  readonly #options: LiveCall['options']
  readonly log: LiveLog
  readonly #added: AddedSilence
  /** Language of what does not say it; null: not known. */
  readonly #language: string | null
  /** Each `finalize` without an answer: seconds of the caller's audio before it, and of all audio. */
  readonly #finalizing: { readonly place: number; readonly sent: number }[] = []
  #isOpen = false
  /** The end of the turn was asked for. */
  #isForced = false
  #partial = ''
  /** Seconds of all audio before the end; null: more comes. */
  #ending: number | null = null
  #ended = false

  constructor(call: LiveCall, { model }: Target) {
    const audio = liveAudioFor(call)
    this.#options = call.options
    this.log = new LiveLog(audio)
    this.#added = new AddedSilence(audio)
    this.#language = model === MULTILINGUAL ? null : 'en'
  }

  get waiting(): number {
    return this.#finalizing.length
  }

  get isWhole(): boolean {
    return this.#ended || (this.#ending !== null && !this.#isOpen && this.#isSettled)
  }

  finalize(): readonly LiveFrame[] {
    this.#finalizing.push({ place: this.log.sent, sent: this.#sent })
    return [this.#silence(PADDING_SECONDS)]
  }

  /** A pause of the caller's is silence, and ends a turn as such; without a turn a little of it will do. */
  keepAlive(): readonly LiveFrame[] {
    return [this.#silence(this.#isOpen ? KEEP_ALIVE_MS / 1000 : UPDATE_SECONDS)]
  }

  /** Nothing of a turn is final that is open then: the last that is told of it counts. /docs/flux/close-stream */
  end(): readonly LiveFrame[] {
    this.#ending = this.#sent
    return this.#isSettled ? [CLOSE_STREAM] : [this.#silence(PADDING_SECONDS), CLOSE_STREAM]
  }

  read(message: JsonObject): Received {
    if (message.type === 'TurnInfo') return this.#turnInfo(message)
    return message.type === 'Error' ? { events: [failedEvent(message)] } : NOTHING
  }

  /** Seconds of all audio, silence of ours as well. */
  get #sent(): number {
    return this.log.sent + this.#added.seconds
  }

  get #isSettled(): boolean {
    return this.log.settled >= this.log.sent - ROUNDING
  }

  #silence(seconds: number): Uint8Array {
    return this.#added.make(seconds, this.log.sent)
  }

  #turnInfo(message: JsonObject): Received {
    const turn = this.#read(message)
    if (turn === null) return UNREADABLE
    const isStart = message.event === 'StartOfTurn'
    this.#isOpen ||= isStart || turn.text !== ''
    const start = this.#added.placeOf(turn.words[0]?.start ?? turn.from)
    const events: LiveEvent[] = isStart ? [this.log.speechStarted(start)] : []
    const isLast = this.#ending !== null && turn.until >= this.#ending - ROUNDING
    if (message.event === 'EndOfTurn' || (isLast && this.#isOpen)) events.push(...this.#end(turn))
    else if (this.#isOpen) events.push(...this.#unfinished(turn, start))
    else events.push(...this.log.settle(this.#added.placeOf(turn.until) - BEGINNING_SECONDS))
    if (isLast) return { events: [...events, ...this.#over()] }
    const due = this.#finalizing.some(({ sent }) => sent <= turn.until + ROUNDING)
    if (!due) return { events }
    if (!this.#isOpen) return { events: [...events, ...this.#answer(turn.until)] }
    if (this.#isForced) return { events }
    // The audio that was to be settled is transcribed now, and its turn continues.
    this.#isForced = true
    return { events, reply: FORCE_END_TURN }
  }

  #read({ transcript, words, languages, ...message }: JsonObject): Turn | null {
    const from = secondsOf(message.audio_window_start)
    const until = secondsOf(message.audio_window_end)
    if (from === null || until === null || typeof transcript !== 'string') return null
    const [heard] = Array.isArray(languages) ? (languages as unknown[]) : []
    return {
      ...{ text: transcript.trim(), from, until },
      words: objectsIn(words).flatMap((item) => readWord(item, 0, this.#options)),
      language: typeof heard === 'string' ? languageCode(heard) : this.#language,
    }
  }

  #unfinished({ text, until }: Turn, start: number): readonly LiveEvent[] {
    // That updates are redacted, its pages do not say.
    if (text === this.#partial || this.#options.redaction.length > 0) return []
    this.#partial = text
    return [this.log.partial(start, text, 0, this.#added.placeOf(until))]
  }

  #end({ text, words: heard, from, until, language }: Turn): readonly LiveEvent[] {
    this.#isOpen = false
    this.#isForced = false
    this.#partial = ''
    const place = (time: number) => this.#added.placeOf(time)
    const words = heard.map((word) => ({ ...word, start: place(word.start), end: place(word.end) }))
    const end = place(until)
    const finals =
      words.length === 0 && text === ''
        ? [this.log.partial(end, '')]
        : this.log.finals({ start: place(from), end, text, words, language })
    // The next turn may have begun within the last update.
    const settled = Math.max(words.at(-1)?.end ?? 0, end - UPDATE_SECONDS)
    return [...finals, ...this.log.settle(settled), this.log.utteranceEnd(end)]
  }

  /** Answers each `finalize` before a place of all audio. */
  #answer(until: number): readonly LiveEvent[] {
    const events: LiveEvent[] = []
    for (let [asked] = this.#finalizing; asked !== undefined; [asked] = this.#finalizing) {
      if (asked.sent > until + ROUNDING) break
      this.#finalizing.shift()
      events.push(...this.log.settle(asked.place), { kind: 'finalized' })
    }
    return events
  }

  #over(): readonly LiveEvent[] {
    if (this.#ended) return []
    this.#ended = true
    const answers = this.#answer(Number.POSITIVE_INFINITY)
    return [...answers, ...this.log.settle(this.log.sent), { kind: 'ended' }]
  }
}

/** Its errors are all fatal: the provider closes. */
function failedEvent({ code, description }: JsonObject): LiveEvent {
  return { kind: 'failed', failure: failureInside({ error: { code, message: description } }) }
}
