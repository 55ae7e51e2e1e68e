import type { LiveAudio, LiveCall } from '../contracts/calls.ts'
import type { JsonObject } from '../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveStepper } from '../contracts/live.ts'
import type { LiveTranscription } from '../contracts/provider.ts'
import type { Failure } from '../contracts/upstream.ts'
import { classify } from './failure.ts'
import {
  broken,
  bytesPerSecond,
  type CommitPace,
  closeFailure,
  commitPace,
  FINALIZING_MAX,
  failureInside,
  isCommitDue,
  LiveLog,
  NO_FRAMES,
  NOTHING,
  objectIn,
  type Received,
  socketUrl,
  TEXT_MAX,
  textOnly,
  UNREADABLE,
} from './live.ts'
import { appendFrame } from './openai/live.ts'
import { type ExtraHeaders, headersOf } from './openai/wire.ts'

const AUDIO: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }

/**
 * Live transcription of vLLM: `GET /realtime` as a WebSocket. Only the names of its events are OpenAI's: the model
 * stands at the top of `session.update`, `commit` begins an utterance and `commit` with `final` ends it.
 * vllm-project/vllm vllm/frontend/entrypoints/speech_to_text/realtime/connection.py
 */
export function vllmLive(extra: ExtraHeaders): LiveTranscription {
  return {
    unsupported: ({ options }) => textOnly(options),
    handshake(_call, target) {
      const { accept: _accept, ...headers } = headersOf(target, extra)
      return { url: socketUrl(target, '/realtime'), protocols: [], headers, audio: AUDIO }
    },
    refused: classify,
    connect: (call, { model }) => new VllmStepper(call, model),
  }
}

const BEGIN = '{"type":"input_audio_buffer.commit"}'
const FINISH = '{"type":"input_audio_buffer.commit","final":true}'
/** Most audio that is kept while the provider finishes an utterance, seconds. */
const HELD_SECONDS = 30

/**
 * What comes while an utterance is finished would be thrown away by the server: it is held back until its transcript is
 * here, and then begins the next one.
 */
class VllmStepper implements LiveStepper {
  readonly #model: string
  readonly #pace: CommitPace
  readonly #log = new LiveLog(AUDIO)
  #isReady = false
  /** Where the utterance began, and where it ends once it is being finished, seconds. */
  #from = 0
  #until: number | null = null
  #text = ''
  /** Seconds that were sent when text came last. */
  #written = 0
  #held: Buffer[] = []
  #heldBytes = 0
  #isOverfull = false
  /** Seconds that were sent before each `finalize` that has had no answer. */
  readonly #finalizing: number[] = []
  #ending = false
  #ended = false

  constructor({ live }: LiveCall, model: string) {
    this.#model = model
    this.#pace = commitPace(live)
  }

  opened(): readonly LiveFrame[] {
    return NO_FRAMES
  }

  audio(bytes: Uint8Array): readonly LiveFrame[] {
    if (bytes.byteLength === 0) return NO_FRAMES
    this.#log.count(bytes)
    if (this.#until !== null) {
      this.#hold(bytes)
      return NO_FRAMES
    }
    const due = isCommitDue(this.#pace, {
      sent: this.#log.sent,
      committed: this.#from,
      written: this.#written,
    })
    return due ? [appendFrame(bytes), ...this.#finish()] : [appendFrame(bytes)]
  }

  finalize(): readonly LiveFrame[] {
    const isSettled = this.#log.sent <= this.#log.settled
    if (isSettled || this.#finalizing.length >= FINALIZING_MAX) return NO_FRAMES
    this.#finalizing.push(this.#log.sent)
    // While an utterance is being finished, the next one will be as well; until then there is nothing to be said.
    return this.#until === null ? this.#finish() : [sessionUpdate(this.#model)]
  }

  keepAlive(): readonly LiveFrame[] {
    return NO_FRAMES
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    return this.#until === null ? this.#finish() : NO_FRAMES
  }

  received(frame: LiveFrame): Received {
    const message = objectIn(frame)
    if (message === null) return UNREADABLE
    if (this.#isOverfull) return { events: [OVERFULL] }
    switch (message.type) {
      case 'session.created':
        if (this.#isReady) return NOTHING
        this.#isReady = true
        return { events: [{ kind: 'ready' }], reply: [sessionUpdate(this.#model), BEGIN] }
      case 'transcription.delta':
        return this.#delta(message)
      case 'transcription.done':
        return this.#done(message)
      case 'error':
        return this.#error(message)
      default:
        return NOTHING
    }
  }

  closed(code: number, reason: string): Failure | null {
    return this.#ended ? null : closeFailure(code, reason)
  }

  #delta({ delta }: JsonObject): Received {
    if (typeof delta !== 'string') return UNREADABLE
    if (delta === '') return NOTHING
    this.#text = (this.#text + delta).slice(0, TEXT_MAX)
    this.#written = this.#log.sent
    return { events: [this.#log.partial(this.#from, this.#text.trim())] }
  }

  #done({ text: whole }: JsonObject): Received {
    const text = (typeof whole === 'string' ? whole : this.#text).trim()
    const end = this.#until ?? this.#log.sent
    const told = text === '' ? this.#log.partial(end, '') : this.#log.final({ start: this.#from, end, text })
    const events: LiveEvent[] = [told, ...this.#log.settle(end)]
    while (this.#finalizing[0] !== undefined && this.#finalizing[0] <= end) {
      this.#finalizing.shift()
      events.push({ kind: 'finalized' })
    }
    const isLast = this.#ending && this.#heldBytes === 0
    this.#ended ||= isLast
    if (isLast) return { events: [...events, { kind: 'ended' }] }
    return { events, reply: this.#next(end) }
  }

  /** Begins the next utterance with what was held back. */
  #next(from: number): readonly LiveFrame[] {
    const frames = [BEGIN, ...this.#held.map(appendFrame)]
    this.#from = from
    this.#until = null
    this.#text = ''
    this.#held = []
    this.#heldBytes = 0
    const isAsked = this.#ending || this.#finalizing.length > 0
    return isAsked ? [...frames, ...this.#finish()] : frames
  }

  /** A server that was given no audio at all has nothing to finish. */
  #error({ error, code }: JsonObject): Received {
    if (this.#ending && this.#log.sent <= this.#from) {
      this.#ended = true
      return { events: [{ kind: 'ended' }] }
    }
    const said = { message: typeof error === 'string' ? error : '', code }
    return {
      events: [
        { kind: 'failed', failure: failureInside({ error: said }, OF_REQUEST.has(String(code)) ? 400 : 500) },
      ],
    }
  }

  #finish(): readonly LiveFrame[] {
    this.#until = this.#log.sent
    return [FINISH]
  }

  #hold(bytes: Uint8Array): void {
    if (this.#heldBytes + bytes.byteLength > HELD_SECONDS * bytesPerSecond(AUDIO)) this.#isOverfull = true
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
/** Codes of what the server was sent. */
const OF_REQUEST: ReadonlySet<string> = new Set([
  'invalid_json',
  'invalid_event',
  'unknown_event',
  'invalid_audio',
])

function sessionUpdate(model: string): string {
  return JSON.stringify({ type: 'session.update', model })
}
