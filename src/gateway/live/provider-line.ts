import type { LiveCall } from '../../contracts/calls.ts'
import type {
  LiveEvent,
  LiveFrame,
  LiveStepper,
  SocketEnd,
  SocketListener,
  UpstreamSocket,
} from '../../contracts/live.ts'
import { bytesPerSecond } from '../../contracts/live-audio.ts'
import type { LiveTranscription } from '../../contracts/provider.ts'
import type { Failure } from '../../contracts/upstream.ts'
import type { Attempt } from '../call/attempt/failover.ts'
import { traceContextOf } from '../call/attempt/operation.ts'
import type { ActiveCall } from '../call/context/services.ts'
import { adapt, targetOf } from '../call/select/eligibility.ts'
import { type Converter, converter } from '../media/pcm.ts'

/** A provider that has not read this much of its audio has stopped reading, seconds. */
const UNREAD_SECONDS = 5

/** The protocol of a provider over its socket: what is to be said becomes frames, and frames become events. */
export class ProviderLine {
  /** Hints that the entry lacks. */
  readonly warnings: readonly string[]
  readonly #live: LiveTranscription
  readonly #stepper: LiveStepper
  readonly #converter: Converter | null
  readonly #socket: UpstreamSocket
  readonly #unreadMax: number
  #sentMs = 0

  /** Opens the socket. @param listener is told of the socket; it hands frames over to `received` */
  constructor(
    { services, context, call }: ActiveCall<'transcription'>,
    { candidate: { entry }, placed }: Attempt,
    handshakeMs: number,
    listener: SocketListener,
  ) {
    const live = services.providers.get(entry.provider.kind)?.live
    if (live === undefined) throw new Error(`${entry.provider.kind} does not transcribe live`)
    const { payload, warnings } = adapt(call, entry)
    const target = targetOf(entry, placed)
    const handshake = live.handshake(payload as LiveCall, target)
    this.warnings = warnings
    this.#live = live
    this.#stepper = live.connect(payload as LiveCall, target)
    this.#converter = converter((payload as LiveCall).live.audio, handshake.audio)
    // Base64 is a third longer than what it says.
    this.#unreadMax = UNREAD_SECONDS * bytesPerSecond(handshake.audio) * (4 / 3)
    const headers = traceContextOf(context) ?? {}
    this.#socket = services.openSocket(handshake, listener, { handshakeMs, headers })
  }

  /** Its provider has stopped reading. */
  get isStuck(): boolean {
    return this.#socket.bufferedBytes > this.#unreadMax
  }

  /** In which time the provider says something whenever it hears sound, ms; undefined: it need not. */
  get answersWithinMs(): number | undefined {
    return this.#live.answersWithinMs
  }

  /** @returns whether it takes audio from now on, without saying so */
  opened(): boolean {
    this.#send(this.#stepper.opened())
    return this.#live.readyWhenOpen === true
  }

  /** It takes audio: it is kept alive from now on. */
  ready(nowMs: number): void {
    this.#sentMs = nowMs
  }

  /** Answers what is to be answered at once. @returns everything else that a frame says */
  received(frame: LiveFrame): readonly LiveEvent[] {
    const { events, reply } = this.#stepper.received(frame)
    if (reply !== undefined) this.#send(reply)
    return events
  }

  sendAudio(bytes: Uint8Array, nowMs: number): void {
    this.#sentMs = nowMs
    this.#send(this.#stepper.audio(this.#converter === null ? bytes : this.#converter(bytes)))
  }

  /** @returns `nothing`: there is nothing to settle, or no way to ask; `later`: the provider cannot be asked yet */
  finalize(): 'asked' | 'nothing' | 'later' {
    const frames = this.#stepper.finalize()
    if (frames === null) return 'later'
    this.#send(frames)
    return frames.length > 0 ? 'asked' : 'nothing'
  }

  /** Says that no more audio comes. */
  end(): void {
    this.#send(this.#stepper.end())
  }

  /** Says that the caller is still there, where nothing was sent for a while. */
  keepAlive(nowMs: number): void {
    const { keepAliveMs } = this.#live
    if (keepAliveMs === undefined || nowMs - this.#sentMs < keepAliveMs) return
    this.#sentMs = nowMs
    this.#send(this.#stepper.keepAlive())
  }

  close(): void {
    this.#socket.close()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** Why the socket is no more; null: the provider has said all. */
  failureOf(end: SocketEnd): Failure | null {
    if (end.kind === 'refused') return this.#live.refused(end.reply)
    return end.kind === 'failed' ? end.failure : this.#stepper.closed(end.code, end.reason)
  }

  #send(frames: readonly LiveFrame[]): void {
    for (const frame of frames) this.#socket.send(frame)
  }
}
