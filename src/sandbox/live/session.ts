import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type { RawData, WebSocket } from 'ws'
import type { Clock } from '../../contracts/time.ts'
import type { Faults } from '../faults.ts'
import { type AudioFormat, bytesPerSecond, frameBytes } from './samples.ts'

/** The record of a live session, for tests to look at. */
export interface LiveRecord {
  audio_seconds: number
  /** Messages of audio. */
  frames: number
  /** Messages sent. */
  messages: number
  /** Words told as final. */
  words: number
  /** Most seconds of audio that were there before their time at 1.25 times real time. */
  lead_seconds: number
  /** Null while the session is open. */
  end: { readonly by: 'client' | 'sandbox'; readonly code: number; readonly reason: string } | null
}

/** One side of a vendor's protocol: what it makes of messages. */
export interface LiveProtocol {
  opened(): void
  message(bytes: Buffer, isBinary: boolean): void
  /** @param idleMs how long nothing has come that keeps the session */
  tick?(idleMs: number): void
  /** The session has been open for as long as it may be. */
  expired(): void
}

/** Speed that providers take audio at, of real time, and how far ahead of it audio may be, seconds. */
const REPLAY_SPEED = 1.25
const LEAD_MAX_SECONDS = 3
/** Answers that a client has not read; over it the client is gone. */
const UNREAD_MAX_BYTES = 16 * 1024 * 1024
const CLOSE_TIMEOUT_MS = 2000

/** A socket of a live session, with the faults that were ordered for it. */
export class LiveSession {
  readonly faults: Faults
  readonly record: LiveRecord = {
    audio_seconds: 0,
    frames: 0,
    messages: 0,
    words: 0,
    lead_seconds: 0,
    end: null,
  }
  readonly #ws: WebSocket
  readonly #socket: Socket
  readonly clock: Clock
  readonly #endsMs: number
  readonly #pace = new AudioPace()
  readonly #sha256 = createHash('sha256')
  #protocol: LiveProtocol | null = null
  #bytes = 0
  #silent: boolean
  #over = false
  #activeMs: number
  #readMs: number
  /** Faults that are still to come, soonest first. */
  #due: { readonly ms: number; readonly fire: () => void }[]

  /** @param options.sessionMs longest time that the vendor keeps a session open, if no other is ordered */
  constructor(
    ws: WebSocket,
    socket: Socket,
    faults: Faults,
    { sessionMs, clock }: { readonly sessionMs: number; readonly clock: Clock },
  ) {
    this.clock = clock
    const nowMs = clock.now()
    this.#activeMs = nowMs
    this.#readMs = nowMs
    this.#ws = ws
    this.#socket = socket
    this.faults = faults
    const { live } = faults
    this.#endsMs = nowMs + (live.sessionMs ?? sessionMs)
    this.#silent = live.silentAfterMs === 0
    this.#due = [
      { ms: live.silentAfterMs, fire: () => this.#hush() },
      { ms: live.stallAfterMs, fire: () => ws.pause() },
      { ms: live.closeAfterMs, fire: () => this.close(live.closeCode, 'The sandbox was told to close.') },
      { ms: live.resetAfterMs, fire: () => this.reset() },
    ]
      .flatMap(({ ms, fire }) => (ms === null ? [] : [{ ms, fire }]))
      .sort((a, b) => a.ms - b.ms)
  }

  start(protocol: LiveProtocol): void {
    this.#protocol = protocol
    this.#ws.on('message', (data, isBinary) => this.#message(data, isBinary))
    this.#ws.on('close', (code, reason) => this.#closed('client', code, reason.toString()))
    // The close that follows says the same.
    this.#ws.on('error', () => undefined)
    protocol.opened()
    this.#meet(0)
  }

  /** Lower-case hex, of the audio received. */
  get sha256(): string {
    return this.#sha256.copy().digest('hex')
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Nothing is sent and nothing is heard any more. */
  get over(): boolean {
    return this.#over
  }

  /** Hands on what the audio holds, up to each fault that is ordered within it. */
  audio(bytes: Buffer, format: AudioFormat, hear: (bytes: Buffer) => void): void {
    this.keep()
    this.#sha256.update(bytes)
    const [second, frame, before] = [bytesPerSecond(format), frameBytes(format), this.#bytes]
    this.#bytes += bytes.length
    this.record.frames += 1
    this.record.audio_seconds = Number((this.#bytes / second).toFixed(3))
    this.#watchSpeed(bytes.length / second)
    let from = 0
    for (let next = this.#due[0]; next !== undefined && !this.#over; next = this.#due[0]) {
      const at = Math.floor(((next.ms / 1000) * second) / frame) * frame - before
      if (at > bytes.length) break
      hear(bytes.subarray(from, Math.max(from, at)))
      from = Math.max(from, at)
      this.#due.shift()
      next.fire()
    }
    if (!this.#over && from < bytes.length) hear(bytes.subarray(from))
  }

  /** A message that came keeps the session from being ended as idle. */
  keep(): void {
    this.#activeMs = this.clock.now()
  }

  send(message: object): void {
    if (this.#over || this.#silent) return
    this.record.messages += 1
    const text = JSON.stringify(message)
    const { pieceDelayMs } = this.faults
    if (pieceDelayMs > 0) this.clock.after(pieceDelayMs, () => this.#send(text)).unref()
    else this.#send(text)
  }

  /** Counts a word told as final. */
  countFinal(): void {
    if (!this.#over) this.record.words += 1
  }

  /** A character of the word that is under way is told. */
  spelled(): void {
    if (!this.#over && this.record.words + 1 === this.faults.live.resetInWord) this.reset()
  }

  close(code: number, reason: string): void {
    if (this.#over) return
    this.#over = true
    const { pieceDelayMs } = this.faults
    if (pieceDelayMs > 0) this.clock.after(pieceDelayMs, () => this.#close(code, reason)).unref()
    else this.#close(code, reason)
    this.#closed('sandbox', code, reason)
  }

  /** Breaks the connection with a reset. */
  reset(): void {
    this.#over = true
    this.#closed('sandbox', 1006, 'reset')
    this.#socket.resetAndDestroy()
  }

  tick(): void {
    if (this.#over) return
    const nowMs = this.clock.now()
    if (nowMs >= this.#endsMs) this.#protocol?.expired()
    else this.#protocol?.tick?.(nowMs - this.#activeMs)
  }

  #message(data: RawData, isBinary: boolean): void {
    if (this.#over) return
    const bytes = data as Buffer
    this.#readSlowly(bytes.length)
    this.#protocol?.message(bytes, isBinary)
  }

  #hush(): void {
    this.#silent = true
  }

  #meet(ms: number): void {
    while (!this.#over && this.#due[0] !== undefined && this.#due[0].ms <= ms) this.#due.shift()?.fire()
  }

  #readSlowly(bytes: number): void {
    const { readBytesPerSecond } = this.faults
    if (readBytesPerSecond === null) return
    this.#readMs = Math.max(this.#readMs, this.clock.now()) + (bytes / readBytesPerSecond) * 1000
    if (!this.#ws.isPaused) this.#waitToRead()
  }

  #waitToRead(): void {
    const waitMs = this.#readMs - this.clock.now()
    if (waitMs < 1) return void this.#ws.resume()
    this.#ws.pause()
    this.clock.after(waitMs, () => this.#waitToRead()).unref()
  }

  #watchSpeed(seconds: number): void {
    const { maxSpeedPercent } = this.faults.live
    const speed = (maxSpeedPercent ?? REPLAY_SPEED * 100) / 100
    const lead = this.#pace.add(seconds, speed, this.clock.now())
    this.record.lead_seconds = Math.max(this.record.lead_seconds, Number(lead.toFixed(3)))
    if (maxSpeedPercent !== null && lead > LEAD_MAX_SECONDS)
      this.close(1008, `Audio came faster than ${speed} times real time.`)
  }

  #send(text: string): void {
    if (this.#ws.bufferedAmount > UNREAD_MAX_BYTES) this.reset()
    else if (this.#ws.readyState === this.#ws.OPEN) this.#ws.send(text)
  }

  #close(code: number, reason: string): void {
    this.#ws.close(code, reason)
    this.clock.after(CLOSE_TIMEOUT_MS, () => this.#socket.destroy()).unref()
  }

  #closed(by: 'client' | 'sandbox', code: number, reason: string): void {
    this.#over = true
    this.record.end ??= { by, code, reason }
  }
}

/** How far audio is ahead of its time. */
class AudioPace {
  #lastMs = 0
  #lead = 0

  /**
   * @param speed of real time, at which the provider takes audio
   * @returns seconds of audio that are here before their time
   */
  add(seconds: number, speed: number, nowMs: number): number {
    const elapsed = this.#lastMs === 0 ? 0 : (nowMs - this.#lastMs) / 1000
    this.#lastMs = nowMs
    this.#lead = Math.max(0, this.#lead - elapsed * speed) + seconds
    return this.#lead
  }
}
