import type { LiveCall, LiveTerms, TranscriptionOptions } from '../../src/contracts/calls.ts'
import type { LiveEvent, LiveFrame, LiveStepper } from '../../src/contracts/live.ts'
import { bytesPerSecond } from '../../src/contracts/live-audio.ts'
import type { Provider, Target } from '../../src/contracts/provider.ts'
import { transcriptionCall } from './call.ts'

const TERMS: LiveTerms = {
  audio: { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 },
  interim: true,
  endpointingMs: null,
  commit: 'auto',
}

export function liveCall(
  options: Partial<TranscriptionOptions> = {},
  terms: Partial<LiveTerms> = {},
): LiveCall {
  const live = { ...TERMS, ...terms }
  const { payload } = transcriptionCall({
    options: { mode: 'realtime', ...options },
    audio: { durationSeconds: 60, channels: live.audio.channels },
  })
  return { ...payload, live }
}

export function liveTarget(model: string, overrides: Partial<Target> = {}): Target {
  return { model, baseUrl: 'https://api.example.com/v1', credential: 'k', options: {}, ...overrides }
}

/** A connection to a provider as a session drives it, over no socket at all. */
export class LiveRig {
  readonly stepper: LiveStepper
  readonly sent: LiveFrame[] = []
  readonly events: LiveEvent[] = []
  readonly #bytesPerSecond: number

  constructor(provider: Provider, call: LiveCall, target: Target) {
    const { live } = provider
    if (live === undefined) throw new Error(`${provider.kind} has no live transcription`)
    this.stepper = live.connect(call, target)
    this.#bytesPerSecond = bytesPerSecond(live.handshake(call, target).audio)
  }

  open(): this {
    this.sent.push(...this.stepper.opened())
    return this
  }

  /** Sends audio in pieces of 100 ms. */
  audio(seconds: number): this {
    const piece = this.#bytesPerSecond / 10
    for (let at = 0; at < Math.round(seconds * 10); at += 1)
      this.sent.push(...this.stepper.audio(new Uint8Array(piece).fill(at)))
    return this
  }

  /** Passes messages of the provider on; objects as JSON. */
  hear(...frames: (LiveFrame | object)[]): this {
    for (const frame of frames) {
      const isFrame = typeof frame === 'string' || frame instanceof Uint8Array
      const { events, reply = [] } = this.stepper.received(isFrame ? frame : JSON.stringify(frame))
      this.events.push(...events)
      this.sent.push(...reply)
    }
    return this
  }

  finalize(): this {
    this.sent.push(...(this.stepper.finalize() ?? []))
    return this
  }

  end(): this {
    this.sent.push(...this.stepper.end())
    return this
  }

  /** What was sent since it was last asked: JSON as it is, bytes as their number, `append` for audio within JSON. */
  told(): unknown[] {
    return this.sent.splice(0).map((frame) => {
      if (typeof frame !== 'string') return frame.byteLength
      const value: unknown = JSON.parse(frame)
      const audio = frame.length > 300 && /audio/.test(frame.slice(0, 80)) && !frame.includes('"session"')
      return audio ? 'audio' : value
    })
  }

  /** What was heard since it was last asked. */
  heard(): LiveEvent[] {
    return this.events.splice(0)
  }
}
