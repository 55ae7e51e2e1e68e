import type { LiveAudio, LiveTerms, Segment, TranscriptionOptions, Word } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { LiveEvent, LiveFrame } from '../../contracts/live.ts'
import { bytesPerSecond } from '../../contracts/live-audio.ts'
import type { Target, Unsupported } from '../../contracts/provider.ts'
import { toMilliseconds } from '../../contracts/seconds.ts'
import type { Failure } from '../../contracts/upstream.ts'
import { classifyInside } from './failure.ts'
import { MEANING_OF_CLOSE } from './failure-table.ts'
import { parseObject } from './json.ts'
import { groupWords } from './segments.ts'
import { wantsSegments, wantsSpeakers, wantsWords } from './transcript-needs.ts'
import { lackedFeatures } from './unsupported.ts'

export const NO_FRAMES: readonly LiveFrame[] = Object.freeze([])

/** The meaning of a frame, and the answer to it. */
export interface Received {
  readonly events: readonly LiveEvent[]
  readonly reply?: readonly LiveFrame[]
}

/** Longest text of one partial or final, UTF-16 units: an hour of fast speech has about as many. */
export const TEXT_MAX = 100_000
/** Most words of one final. */
const WORDS_MAX = 10_000
/** How far text may begin behind the audio that was sent, since times are not exact, seconds. */
const BEYOND_SECONDS = 1
/** How far it may begin before the end of what was told, and be new. */
const BEFORE_SECONDS = 0.05
/** Most names of speakers of one connection. */
const SPEAKERS_MAX = 256

/**
 * Refuses all that a protocol of nothing but text has no place for.
 *
 * @param takesKeyterms whether it has one for keyterms
 */
export function textOnly(options: TranscriptionOptions, takesKeyterms = false): Unsupported | null {
  return lackedFeatures([
    wantsWords(options) && 'word_timestamps',
    wantsSegments(options) && 'segment_timestamps',
    wantsSpeakers(options) && 'diarization',
    options.keyterms.length > 0 && !takesKeyterms && 'keyterms',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'multichannel',
  ])
}

/** Address of a socket: that of the target, by `ws:` or `wss:`. */
export function socketUrl({ baseUrl }: Target, path: string): string {
  return `${baseUrl.replace(/^http/, 'ws')}${path}`
}

/** At least so much silence. */
export function silence(audio: LiveAudio, seconds: number): Uint8Array {
  const samples = Math.ceil((seconds * bytesPerSecond(audio)) / 2) * 2
  // Zero in both of the companded formats.
  const zero = audio.encoding === 'mulaw' ? 0xff : audio.encoding === 'alaw' ? 0xd5 : 0
  return new Uint8Array(samples).fill(zero)
}

/** Audio as base64. */
export function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

/** A frame as a JSON object; null when it is none. */
export function objectIn(frame: LiveFrame): JsonObject | null {
  return typeof frame === 'string' ? parseObject(frame) : null
}

/** A frame that cannot be read is passed over: the protocol's next ones say what became of the audio. */
export const UNREADABLE: Received = Object.freeze({
  events: Object.freeze([
    Object.freeze({ kind: 'warning', text: 'the provider sent a message that cannot be read' } as const),
  ]),
})

const NO_EVENTS: readonly LiveEvent[] = Object.freeze([])
export const NOTHING: Received = Object.freeze({ events: NO_EVENTS })

/** Something said for good, as the provider gives it. Times are seconds of this connection. */
export interface Said {
  readonly channel?: number
  readonly start: number
  readonly end: number
  readonly text: string
  readonly words?: readonly Omit<Word, 'channel'>[]
  readonly speaker?: string
  readonly confidence?: number | null
  readonly language?: string | null
  readonly languageConfidence?: number | null
}

const MISPLACED: LiveEvent = Object.freeze({ kind: 'misplaced' })

/**
 * Counts the audio of a connection, and holds what its provider says to what can be: times that do not go back, on no
 * channel, and not beyond what was sent; nothing that was told before; texts of a bounded length.
 */
export class LiveLog {
  readonly #bytesPerSecond: number
  readonly #channels: number
  #bytes = 0
  #settled = 0
  /** End of the last final of each channel, seconds, and the same for the messages before this one. */
  readonly #ends: number[]
  readonly #finalCounts: number[]
  /** Text of the last final of each channel. */
  readonly #texts: string[] = []
  /** The last text was misplaced: its provider cannot say up to where it has heard. */
  #isLost = false
  readonly #speakers = new Set<string>()

  constructor(audio: LiveAudio) {
    this.#bytesPerSecond = bytesPerSecond(audio)
    this.#channels = audio.channels
    this.#ends = Array.from({ length: audio.channels }, () => 0)
    this.#finalCounts = [...this.#ends]
  }

  /** Seconds of audio that were sent. */
  get sent(): number {
    return this.#bytes / this.#bytesPerSecond
  }

  get settled(): number {
    return this.#settled
  }

  count(bytes: Uint8Array): void {
    this.#bytes += bytes.byteLength
  }

  /** Whether the audio has such a channel. */
  has(channel: unknown): channel is number {
    return Number.isInteger(channel) && (channel as number) >= 0 && (channel as number) < this.#channels
  }

  /** Names of speakers are kept by the session, so that there must not be any number of them. */
  speaker(name: unknown): string | undefined {
    const given = typeof name === 'number' && Number.isSafeInteger(name) ? String(name) : name
    if (typeof given !== 'string' || given === '' || given.length > 64) return undefined
    if (this.#speakers.size >= SPEAKERS_MAX && !this.#speakers.has(given)) return undefined
    this.#speakers.add(given)
    return given
  }

  /** @param end up to where the text is of the audio; undefined: the provider does not say */
  partial(start: number, text: string, channel = 0, end?: number): LiveEvent {
    return {
      kind: 'partial',
      channel,
      start: this.#within(start, this.#ends[channel] ?? 0),
      text: text.slice(0, TEXT_MAX),
      ...(end === undefined ? {} : { end: this.#within(end, 0) }),
    }
  }

  /**
   * Tells what is said for good. Words of which most lies in what was told before are left out, and so are those that
   * begin where no audio was sent: `misplaced` says so.
   */
  final(said: Said): readonly LiveEvent[] {
    const { channel = 0, words = [] } = said
    const finalCount = this.#finalCounts[channel] ?? 0
    const kept: Omit<Word, 'channel'>[] = []
    let isMisplaced = words.length === 0 && this.isBeyond(said.start)
    for (const word of words.length > WORDS_MAX ? words.slice(0, WORDS_MAX) : words) {
      if ((word.start + word.end) / 2 < finalCount) continue
      if (this.isBeyond(word.start)) isMisplaced = true
      else kept.push(word)
    }
    if (isMisplaced) this.#isLost = true
    const isNothing = words.length === 0 ? isMisplaced : kept.length === 0
    if (isNothing || this.#isRepeated(said, finalCount)) return isMisplaced ? [MISPLACED] : NO_EVENTS
    this.#isLost = isMisplaced
    const final = this.#place(said, kept)
    return isMisplaced ? [final, MISPLACED] : [final]
  }

  /** The same in segments of its words. Its confidence is that of a text without any. */
  finals({ words = [], start, end, confidence = null, ...said }: Said): readonly LiveEvent[] {
    if (words.length === 0) return this.final({ ...said, start, end, confidence })
    return groupWords(words, said.text).flatMap(({ segment, words: group }) =>
      this.final({ ...said, ...segment, words: group }),
    )
  }

  /** Whether no audio that was sent can be meant. */
  isBeyond(seconds: number): boolean {
    return seconds > this.sent + BEYOND_SECONDS
  }

  /** Whether the last final comes again, more or less at its place, or what has no times of words before its end. */
  #isRepeated({ channel = 0, start, end, text, words = [] }: Said, finalCount: number): boolean {
    if (!(start < finalCount - BEFORE_SECONDS && (start + end) / 2 < finalCount)) return false
    return text === this.#texts[channel] || (words.length === 0 && end <= finalCount)
  }

  /** @param kept the words that are told, which are put in order; fewer than were said: the text is theirs */
  #place(
    { channel = 0, start, end, text, words = [], ...said }: Said,
    kept: Omit<Word, 'channel'>[],
  ): LiveEvent {
    const { speaker, confidence = null, language = null, languageConfidence = null } = said
    const before = this.#ends[channel] ?? 0
    const placed: Omit<Word, 'channel'>[] = []
    let last = before
    for (const word of kept.sort((a, b) => a.start - b.start)) {
      const from = this.#within(word.start, last)
      const to = this.#within(word.end, from)
      placed.push({ ...word, start: from, end: to })
      last = to
    }
    const isPart = kept.length < words.length
    const first = placed[0]?.start ?? Number.POSITIVE_INFINITY
    const from = isPart ? first : Math.min(this.#within(start, before), first)
    // A session takes what ends where the one before did for a repetition.
    const to = Math.max(isPart ? last : this.#within(end, from), last, before + 0.001)
    this.#ends[channel] = toMilliseconds(Math.max(last, placed.length > 0 ? 0 : to))
    this.#texts[channel] = text
    const segment: Omit<Segment, 'id' | 'channel'> = {
      start: from,
      end: toMilliseconds(to),
      text: (isPart ? placed.map(({ word }) => word).join(' ') : text).slice(0, TEXT_MAX),
      ...(speaker === undefined ? {} : { speaker }),
      ...(confidence === null ? {} : { confidence }),
    }
    return { kind: 'final', channel, segment, words: placed, language, languageConfidence }
  }

  /** That all audio before is settled, where that is news, and can be. */
  settle(seconds: number): readonly LiveEvent[] {
    if (this.#isLost || this.isBeyond(seconds)) return NO_EVENTS
    for (const [channel, end] of this.#ends.entries()) this.#finalCounts[channel] = end
    const at = this.#within(seconds, 0)
    if (at <= this.#settled) return NO_EVENTS
    this.#settled = at
    return [{ kind: 'settled', seconds: at }]
  }

  speechStarted(seconds: number, channel = 0): LiveEvent {
    return { kind: 'speech_started', seconds: this.#within(seconds, 0), channel }
  }

  utteranceEnd(seconds: number, channel = 0): LiveEvent {
    return { kind: 'utterance_end', seconds: this.#within(seconds, 0), channel }
  }

  #within(seconds: number, least: number): number {
    return toMilliseconds(Math.max(least, Math.min(this.sent, Number.isFinite(seconds) ? seconds : 0)))
  }
}

/** When the session commits audio, where the provider does not find the ends of utterances itself. Seconds. */
export interface CommitPace {
  /** Longest audio without a commit. */
  readonly step: number
  /** Audio behind the last piece of text that ends an utterance. */
  readonly pause: number
}

/**
 * Audio that is not committed is not settled, and a session does not keep more than half a minute. The caller's own
 * commits are given more time.
 */
const STEP_SECONDS = { auto: 20, manual: 25 } as const
/** Silence behind the last piece of text that ends an utterance, as long as the text may be behind the audio. */
const PAUSE_SECONDS = 1.2
const LAG_SECONDS = 0.7
/** Shortest utterance that a pause ends. */
const UTTERANCE_MIN_SECONDS = 1

export function commitPace({ commit, endpointingMs }: LiveTerms): CommitPace {
  const pause = endpointingMs === null ? PAUSE_SECONDS : endpointingMs / 1000 + LAG_SECONDS
  return { step: STEP_SECONDS[commit], pause: commit === 'auto' ? pause : Number.POSITIVE_INFINITY }
}

/** @param at seconds that were sent, that were sent before the last commit, and before the last piece of text */
export function isCommitDue(
  { step, pause }: CommitPace,
  {
    sent,
    committed,
    written,
  }: { readonly sent: number; readonly committed: number; readonly written: number },
): boolean {
  const length = sent - committed
  if (length >= step) return true
  return written > committed && length >= UTTERANCE_MIN_SECONDS && sent - written >= pause
}

/** Most calls of `finalize` that wait for their answer; the next one is passed on once there are fewer. */
export const FINALIZING_MAX = 64

/**
 * The meaning of an error that a provider sends as a message. One that it blames on the request without saying what is
 * wrong with it leads to the next entry: the words of a session are ours, not the caller's.
 *
 * @param body with the error in one of the usual shapes
 * @param status that the same error would have as an answer
 */
export function failureInside(body: JsonObject, status = 500): Failure {
  const failure = classifyInside(body, { status, headers: {} })
  const isUnclear = failure.kind === 'caller' && failure.rejection?.reason === 'other'
  return { ...failure, status: null, ...(isUnclear ? { kind: 'limit' } : {}) }
}

/** A failure of the connection itself. */
export function broken(reason: string, kind: Failure['kind'] = 'server'): Failure {
  return { kind, status: null, reason, retryAfterMs: null, providerMessage: null }
}

/**
 * The meaning of a close that was not asked for. A code of the provider's within the reason, such as Deepgram's
 * `NET-0001`, tells more than the code of the frame.
 */
export function closeFailure(code: number, reason: string): Failure {
  const said = /^[\w-]{1,64}/.exec(reason)?.[0]
  const coded = said === undefined ? undefined : MEANING_OF_CLOSE.get(said)
  const { kind, reason: why } = coded ?? MEANING_OF_CLOSE.get(code) ?? ({ kind: 'server' } as const)
  return {
    ...broken(`the provider closed the connection with ${code}`, kind),
    // A reason beside a refused key may repeat it.
    providerMessage: reason === '' || kind === 'credential' ? null : reason.slice(0, 123),
    ...(kind === 'limit' || kind === 'caller' ? { rejection: { reason: why ?? 'other', param: null } } : {}),
  }
}
