import type { LiveAudio } from '../../contracts/calls.ts'
import { bytesPerSecond, frameBytes } from '../../contracts/live-audio.ts'
import type { Clock } from '../../contracts/time.ts'
import type { LiveConnection } from './connection.ts'
import type { SessionMoney } from './money.ts'
import { AudioRing, type RingMemory } from './ring.ts'

/**
 * Audio is sent on in pieces of this length at least, and of less than twice as much: every frame costs the same,
 * however short it is, and what is left of a caller's own piece would wait for the next one. Where a piece ends is
 * decided by what came, not by when: a stall would otherwise move the ends of all later ones, and each text with them.
 */
const CHUNK_SECONDS = 0.1
/** Samples louder than this, of 32,768, are sound. */
export const SOUND = 500

/** A place that is settled because the caller asked for it. */
export interface Finalized {
  readonly id: string | null
}

/** A place up to which the caller asks for everything to be settled. */
interface FinalizeMark extends Finalized {
  readonly place: number
  isSent: boolean
  /** The provider was asked to settle nothing, and answers nothing. */
  isEmpty: boolean
}

/** Audio that waits to be settled. */
export interface Unsettled {
  readonly place: number
  readonly bytes: Uint8Array
  /** Bytes from its place on that are to be settled now; null: more may come first. */
  readonly due: number | null
}

/**
 * The caller's audio on its way to a provider: what is kept of it until it is settled, how far it was sent, and where
 * it is to be settled on demand. Places are bytes of the caller's audio, times seconds of it.
 */
export class LiveFeed {
  readonly bytesPerSecond: number
  readonly frameBytes: number
  readonly #audio: LiveAudio
  readonly #ring: AudioRing
  readonly #marks: FinalizeMark[] = []
  readonly #chunkBytes: number
  /** The end of the last whole piece that came. */
  #wholeEnd = 0
  #settled = 0
  #lost = 0
  readonly #clock: Clock
  /** When the caller had sent all; null: more may come. */
  endedMs: number | null = null
  /** When audio came for the last time, on the node's clock. */
  pushedMs: number
  /** When sound was sent on for the last time, on the same clock. */
  soundSentMs = 0

  constructor(audio: LiveAudio, memory: RingMemory, reachSeconds: number, clock: Clock) {
    this.#clock = clock
    this.pushedMs = clock.now()
    this.#audio = audio
    this.bytesPerSecond = bytesPerSecond(audio)
    this.frameBytes = frameBytes(audio)
    this.#ring = new AudioRing(memory, reachSeconds * this.bytesPerSecond)
    this.#chunkBytes = Math.round(CHUNK_SECONDS * audio.sampleRate) * this.frameBytes
  }

  /** Seconds of audio that came. */
  get seconds(): number {
    return this.#ring.end / this.bytesPerSecond
  }

  /** Seconds that are transcribed for good. */
  get settledSeconds(): number {
    return this.#settled / this.bytesPerSecond
  }

  /** Seconds that are kept to be transcribed for good. */
  get unsettledSeconds(): number {
    return (this.#ring.end - Math.max(this.#settled, this.#ring.start)) / this.bytesPerSecond
  }

  /** Seconds that could not be sent any more. */
  get lostSeconds(): number {
    return this.#lost / this.bytesPerSecond
  }

  /** Seconds that came and were sent to no provider yet. */
  unsentSeconds(connection: LiveConnection | null): number {
    const sent = connection === null ? this.#settled : connection.place
    return Math.max(0, this.#ring.end - Math.max(sent, this.#ring.start)) / this.bytesPerSecond
  }

  push(bytes: Uint8Array, nowMs: number): void {
    this.pushedMs = nowMs
    this.#ring.push(bytes)
    if (this.#ring.end - this.#wholeEnd >= this.#chunkBytes) this.#wholeEnd = this.#ring.end
  }

  /** The caller is there, and sends no audio for now. */
  touch(): void {
    this.pushedMs = this.#clock.now()
  }

  /** The caller has sent all. */
  end(nowMs: number): void {
    this.endedMs = nowMs
  }

  /** Marks what came so far as to be settled. */
  mark(id: string | null): void {
    this.#wholeEnd = this.#ring.end
    this.#marks.push({ id, place: this.#wholeEnd, isSent: false, isEmpty: false })
  }

  /**
   * Sends what may be sent now.
   *
   * @param onFinalized told of marks for which there was nothing to settle
   * @returns whether more is due in a moment: the provider takes no more now, the money for it is not there yet, or a
   *          piece is short and nothing may follow it
   */
  send(
    connection: LiveConnection,
    money: SessionMoney,
    nowMs: number,
    onFinalized: (finalized: Finalized) => void,
  ): boolean {
    let state = this.#sendChunk(connection, money, nowMs)
    for (; state === 'sent'; state = this.#sendChunk(connection, money, nowMs))
      this.#tellMarks(connection, onFinalized)
    this.#tellMarks(connection, onFinalized)
    if (this.endedMs !== null && connection.place >= this.#ring.end && !connection.isEnding) connection.end()
    return state === 'later' || this.#ring.end > connection.place
  }

  /**
   * A connection begins with the first byte that is not settled and still here.
   *
   * @returns seconds that are sent again, and that are lost
   */
  begin(connection: LiveConnection): { readonly replayed: number; readonly lost: number } {
    const lost = this.#giveUpLost()
    connection.base = this.#settled
    connection.place = this.#settled
    this.soundSentMs = 0
    for (const mark of this.#marks) mark.isSent = false
    return { replayed: this.unsettledSeconds, lost: lost / this.bytesPerSecond }
  }

  /**
   * The unsettled audio, from its first byte that is still here; its bytes are valid until the next call.
   *
   * @param most bytes at most
   * @returns its place, and how much follows it that is to be settled together: up to where the caller asked for it, or
   * to the end of the audio; null: more may come
   */
  unsettled(most: number): Unsettled {
    this.#giveUpLost()
    const place = this.#settled
    const [mark] = this.#marks
    const end = mark?.place ?? (this.endedMs !== null ? this.#ring.end : null)
    return { place, bytes: this.#ring.read(place, most), due: end === null ? null : Math.max(0, end - place) }
  }

  /** Something is to be settled now: the audio is over, or the caller asked for it. */
  get isDue(): boolean {
    return this.endedMs !== null || this.#marks.length > 0
  }

  /** All of it came, and is settled. */
  get isDone(): boolean {
    return this.endedMs !== null && this.#settled >= this.#ring.end
  }

  /** Everything before `place` is settled, by no connection. @returns the marks that are reached */
  settleTo(place: number): readonly Finalized[] {
    this.#settled = Math.max(this.#settled, place)
    this.#ring.drop(this.#settled)
    const open = this.#marks.findIndex((mark) => mark.place > this.#settled)
    return this.#marks.splice(0, open < 0 ? this.#marks.length : open)
  }

  /** Everything before `seconds` of a connection is settled. */
  settle(connection: LiveConnection, seconds: number): void {
    this.#settleAt(connection, connection.base + Math.floor(seconds * this.bytesPerSecond))
  }

  /** The provider has settled what it was asked to. @returns null: it was not asked */
  finalized(connection: LiveConnection): Finalized | null {
    const mark = this.#marks.shift()
    if (mark === undefined) return null
    this.#settleAt(connection, mark.place)
    return mark
  }

  /** The provider has said all. @returns the marks that were open */
  ended(connection: LiveConnection): readonly Finalized[] {
    this.#settleAt(connection, this.#ring.end)
    return this.#marks.splice(0)
  }

  /** Gives the memory back. */
  clear(): void {
    this.#ring.clear()
  }

  #settleAt(connection: LiveConnection, place: number): void {
    const whole = Math.min(connection.place, place - (place % this.frameBytes))
    if (whole <= this.#settled) return
    connection.hasWorked = true
    this.#settled = whole
    this.#ring.drop(whole)
  }

  #sendChunk(connection: LiveConnection, money: SessionMoney, nowMs: number): 'sent' | 'later' | 'empty' {
    this.#skipLost(connection)
    const isMoreToCome = this.#isMoreToCome(nowMs)
    const waiting = (isMoreToCome ? this.#wholeEnd : this.#ring.end) - connection.place
    if (waiting <= 0 || (waiting < this.#chunkBytes && isMoreToCome)) return 'empty'
    const whole = waiting < 2 * this.#chunkBytes ? waiting : this.#chunkBytes
    const limit = Math.min(whole, this.#bytesToMark(connection))
    const length = limit / this.bytesPerSecond
    if (connection.isStuck || money.leftSeconds <= 0 || !connection.mayTake(length, nowMs)) return 'later'
    const bytes = this.#ring.read(connection.place, limit)
    if (isSound(bytes, this.#audio)) this.soundSentMs = nowMs
    connection.sendAudio(bytes, nowMs)
    connection.place += bytes.length
    if (connection.bills === 'audio') money.spend(length)
    return 'sent'
  }

  /** Counts unsettled audio that is no longer here as lost. @returns bytes of it */
  #giveUpLost(): number {
    const lost = Math.max(0, this.#ring.start - this.#settled)
    this.#lost += lost
    this.#settled += lost
    return lost
  }

  /** A piece that is short waits for the rest of it, unless nothing follows. */
  #isMoreToCome(nowMs: number): boolean {
    if (this.endedMs !== null || nowMs - this.pushedMs >= CHUNK_SECONDS * 1000) return false
    return !this.#marks.some(({ isSent }) => !isSent)
  }

  /** Audio that there was no memory for is gone: the provider's time continues after it. */
  #skipLost(connection: LiveConnection): void {
    const lost = this.#ring.start - connection.place
    if (lost <= 0) return
    connection.base += lost
    connection.place += lost
    this.#lost += lost
  }

  /** Audio is cut where the caller asked for it to be settled. */
  #bytesToMark({ place }: LiveConnection): number {
    const next = this.#marks.find((mark) => !mark.isSent && mark.place > place)
    return next === undefined ? Number.POSITIVE_INFINITY : next.place - place
  }

  #tellMarks(connection: LiveConnection, onFinalized: (finalized: Finalized) => void): void {
    for (const mark of this.#marks) {
      if (mark.isSent || mark.place > connection.place) continue
      const asked = connection.finalize()
      // It stays unsent, and so do those after it: each is answered in its turn.
      if (asked === 'later') break
      mark.isSent = true
      mark.isEmpty = asked === 'nothing'
    }
    // Each in its turn: what was asked for before is with the provider still.
    while (this.#marks[0]?.isSent && this.#marks[0].isEmpty) onFinalized(this.finalized(connection)!)
  }
}

/** Whether one sample is loud enough; one in eight is enough to tell. Other encodings than PCM count as sound. */
function isSound(bytes: Uint8Array, { encoding }: LiveAudio): boolean {
  if (encoding !== 'pcm_s16le') return true
  for (let at = 1; at < bytes.length; at += 16)
    if (Math.abs(((bytes[at]! << 24) >> 24) * 256) > SOUND) return true
  return false
}
