import type { LiveAudio, LiveTerms } from '../../contracts/calls.ts'
import type { LiveEvent, LiveFrame } from '../../contracts/live.ts'
import { bytesPerSecond } from '../../contracts/live-audio.ts'
import type { CommitPace, Received } from './live.ts'
import { broken, commitPace, isCommitDue, LiveLog, NO_FRAMES, TEXT_MAX } from './live.ts'

/** Frames in which a protocol speaks of utterances. */
export interface UtteranceFrames {
  readonly begin: readonly LiveFrame[]
  readonly finish: readonly LiveFrame[]
  append(bytes: Uint8Array): LiveFrame
}

/** Audio without any message behind which an utterance is ended: a provider that is there answers that. */
const QUIET_SECONDS = 4
/** That, and time for the transcript. */
export const UTTERANCE_ANSWER_MS = 10_000
/** Most audio that is kept while the provider finishes an utterance, seconds. */
const HELD_SECONDS = 30

/**
 * Audio as one utterance after the other, for protocols that transcribe one at a time: the session ends it behind a
 * pause in its text, and what comes until its transcript is here is held back and begins the next one.
 */
export class Utterances {
  readonly log: LiveLog
  readonly #audio: LiveAudio
  readonly #pace: CommitPace
  readonly #frames: UtteranceFrames
  /** Where the utterance began, and where it ends once it is being finished, seconds. */
  #from = 0
  #until: number | null = null
  #text = ''
  /** Seconds that were sent when its text changed last. */
  #written = 0
  /** Seconds that were sent when the provider said something last. */
  #heard = 0
  #held: Buffer[] = []
  #heldBytes = 0
  #isOverfull = false
  /** Seconds that were sent before each `finalize` that has had no answer. */
  readonly #finalizing: number[] = []
  #ending = false
  #ended = false

  constructor(audio: LiveAudio, terms: LiveTerms, frames: UtteranceFrames) {
    this.log = new LiveLog(audio)
    this.#audio = audio
    this.#pace = commitPace(terms)
    this.#frames = frames
  }

  /** All is transcribed, and nothing more comes. */
  get isWhole(): boolean {
    return this.#ended
  }

  /** The provider was told the end of an utterance and has not transcribed it yet. */
  get isFinishing(): boolean {
    return this.#until !== null
  }

  /** No audio was sent since the last transcript. */
  get isEmpty(): boolean {
    return this.log.sent <= this.#from
  }

  get text(): string {
    return this.#text
  }

  /** Calls of `finalize` that wait for their answer. */
  get waiting(): number {
    return this.#finalizing.length
  }

  /**
   * The provider has said something.
   *
   * @returns a failure if more is held back than a provider that works would let come together; null: all is well
   */
  hear(): LiveEvent | null {
    this.#heard = this.log.sent
    return this.#isOverfull ? OVERFULL : null
  }

  /** Takes audio that is counted already. */
  send(bytes: Uint8Array): readonly LiveFrame[] {
    if (this.#until !== null) {
      this.#hold(bytes)
      return NO_FRAMES
    }
    const { sent } = this.log
    const frame = this.#frames.append(bytes)
    const isQuiet = this.#text === '' && sent - Math.max(this.#heard, this.#from) >= QUIET_SECONDS
    const isDue = isCommitDue(this.#pace, { sent, committed: this.#from, written: this.#written })
    return isQuiet || isDue ? [frame, ...this.#finish()] : [frame]
  }

  /** @returns empty when an answer is to come without another frame */
  finalize(): readonly LiveFrame[] {
    this.#finalizing.push(this.log.sent)
    // While an utterance is being finished, the next one will be as well.
    return this.#until === null ? this.#finish() : NO_FRAMES
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    return this.#until === null ? this.#finish() : NO_FRAMES
  }

  /** Takes the text of the utterance so far. */
  write(text: string): LiveEvent {
    const given = text.slice(0, TEXT_MAX)
    if (given !== this.#text) this.#written = this.log.sent
    this.#text = given
    return this.log.partial(this.#from, given.trim())
  }

  /** The utterance is transcribed. */
  done(transcript: string): Received {
    const text = transcript.trim()
    const end = this.#until ?? this.log.sent
    const lastEvents =
      text === '' ? [this.log.partial(end, '')] : this.log.final({ start: this.#from, end, text })
    const events: LiveEvent[] = [...lastEvents, ...this.log.settle(end)]
    if (text !== '') events.push(this.log.utteranceEnd(end))
    while (this.#finalizing[0] !== undefined && this.#finalizing[0] <= end) {
      this.#finalizing.shift()
      events.push({ kind: 'finalized' })
    }
    this.#ended ||= this.#ending && this.#heldBytes === 0
    if (this.#ended) return { events: [...events, { kind: 'ended' }] }
    return { events, reply: this.#next(end) }
  }

  /** The audio has ended, and the provider has nothing to say of it. */
  over(): Received {
    this.#ended = true
    return { events: [{ kind: 'ended' }] }
  }

  /** Begins the next utterance with what was held back. */
  #next(from: number): readonly LiveFrame[] {
    const frames = [...this.#frames.begin, ...this.#held.map((bytes) => this.#frames.append(bytes))]
    this.#from = from
    this.#until = null
    this.#text = ''
    this.#held = []
    this.#heldBytes = 0
    const isAsked = this.#ending || this.#finalizing.length > 0
    return isAsked ? [...frames, ...this.#finish()] : frames
  }

  #finish(): readonly LiveFrame[] {
    this.#until = this.log.sent
    return this.#frames.finish
  }

  #hold(bytes: Uint8Array): void {
    if (this.#heldBytes + bytes.byteLength > HELD_SECONDS * bytesPerSecond(this.#audio))
      this.#isOverfull = true
    else {
      this.#held.push(Buffer.from(bytes))
      this.#heldBytes += bytes.byteLength
    }
  }
}

const OVERFULL: LiveEvent = {
  kind: 'failed',
  failure: broken('the provider does not finish what it began to transcribe'),
}
