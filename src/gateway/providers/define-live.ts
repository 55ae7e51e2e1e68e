import type { LiveCall } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake, LiveStepper } from '../../contracts/live.ts'
import type { LiveTranscription, Target } from '../../contracts/provider.ts'
import type { Failure } from '../../contracts/upstream.ts'
import { classify } from './failure.ts'
import type { LanguageHint } from './language.ts'
import type { LiveLog, Received } from './live.ts'
import { closeFailure, FINALIZING_MAX, NO_FRAMES, NOTHING, objectIn, UNREADABLE } from './live.ts'

/** One connection in the words of a vendor: the steps that differ from protocol to protocol. */
export interface LiveWire {
  /** Counts the audio; the kit counts it before `send`. */
  readonly log: LiveLog
  /** Calls of `finalize` that wait for their answer. */
  readonly waiting: number
  /** Nothing is missing if the provider closes now. */
  readonly isWhole: boolean
  /** Frames before any audio; absent: none. */
  opened?(): readonly LiveFrame[]
  /** Frames of audio, which is not empty; absent: the bytes themselves. */
  send?(bytes: Uint8Array): readonly LiveFrame[]
  /** Asks for what was sent to be settled; called if something is not. */
  finalize(): readonly LiveFrame[]
  /** Absent: the provider needs nothing to keep a connection. */
  keepAlive?(): readonly LiveFrame[]
  end(): readonly LiveFrame[]
  read(message: JsonObject): Received | readonly LiveEvent[]
  /** Meaning of a close that was not asked for; absent: by `closeFailure`. */
  failureOf?(code: number, reason: string): Failure
}

export interface LiveProtocol extends Omit<LiveTranscription, 'handshake' | 'refused' | 'connect'> {
  handshake(call: LiveCall, target: Target): Omit<LiveHandshake, 'protocols'>
  /** Absent: by `classify`. */
  readonly refused?: LiveTranscription['refused']
  /** The language as it is sent, with warnings if it cannot be; null: no hint of it is taken. */
  readonly hint: (call: LiveCall, target: Target) => LanguageHint | null
  /** Its JSON comes in binary frames. */
  readonly readsBytes?: true
  readonly wire: (call: LiveCall, target: Target) => LiveWire
}

/** Makes the operation of a protocol, with all that protocols share. */
export function defineLive(protocol: LiveProtocol): LiveTranscription {
  const { handshake, refused = classify, hint, readsBytes = false, wire, ...rest } = protocol
  return {
    ...rest,
    refused,
    handshake: (call, target) => ({ ...handshake(call, target), protocols: [] }),
    connect: (call, target) =>
      new WireStepper(wire(call, target), readsBytes, hint(call, target)?.warnings ?? []),
  }
}

class WireStepper implements LiveStepper {
  readonly #wire: LiveWire
  readonly #readsBytes: boolean
  /** Hints that could not be sent, until the first message is answered with them. */
  #warnings: readonly string[]

  constructor(wire: LiveWire, readsBytes: boolean, warnings: readonly string[]) {
    this.#wire = wire
    this.#readsBytes = readsBytes
    this.#warnings = warnings
  }

  opened(): readonly LiveFrame[] {
    return this.#wire.opened?.() ?? NO_FRAMES
  }

  audio(bytes: Uint8Array): readonly LiveFrame[] {
    // An empty frame closes the stream of some.
    if (bytes.byteLength === 0) return NO_FRAMES
    this.#wire.log.count(bytes)
    return this.#wire.send === undefined ? [bytes] : this.#wire.send(bytes)
  }

  finalize(): readonly LiveFrame[] | null {
    const { log, waiting } = this.#wire
    if (log.sent <= log.settled) return NO_FRAMES
    return waiting < FINALIZING_MAX ? this.#wire.finalize() : null
  }

  keepAlive(): readonly LiveFrame[] {
    return this.#wire.keepAlive?.() ?? NO_FRAMES
  }

  end(): readonly LiveFrame[] {
    return this.#wire.end()
  }

  received(frame: LiveFrame): Received {
    const text = this.#readsBytes && typeof frame !== 'string' ? Buffer.from(frame).toString() : frame
    const message = objectIn(text)
    const received = message === null ? UNREADABLE : this.#read(message)
    if (this.#warnings.length === 0) return received
    const warningEvents = this.#warnings.map((warning): LiveEvent => ({ kind: 'warning', text: warning }))
    this.#warnings = []
    return { ...received, events: [...received.events, ...warningEvents] }
  }

  /** A message that its provider's wire cannot read ends no other session. */
  #read(message: JsonObject): Received {
    try {
      return receivedOf(this.#wire.read(message))
    } catch {
      return UNREADABLE
    }
  }

  closed(code: number, reason: string): Failure | null {
    if (this.#wire.isWhole) return null
    return this.#wire.failureOf?.(code, reason) ?? closeFailure(code, reason)
  }
}

function receivedOf(read: Received | readonly LiveEvent[]): Received {
  if (!('events' in read)) return read.length === 0 ? NOTHING : { events: read }
  return read
}
