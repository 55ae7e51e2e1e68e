import type { LiveAudio, LiveCall } from '../contracts/calls.ts'
import type { JsonObject } from '../contracts/json.ts'
import type { LiveFrame, LiveStepper } from '../contracts/live.ts'
import type { LiveTranscription } from '../contracts/provider.ts'
import type { Failure } from '../contracts/upstream.ts'
import { classify } from './failure.ts'
import {
  closeFailure,
  failureInside,
  NO_FRAMES,
  NOTHING,
  objectIn,
  type Received,
  socketUrl,
  textOnly,
  UNREADABLE,
} from './live.ts'
import { UTTERANCE_ANSWER_MS, Utterances } from './live-utterances.ts'
import { appendFrame } from './openai/live.ts'
import { type ExtraHeaders, headersOf } from './openai/wire.ts'

const AUDIO: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }

/**
 * Live transcription of vLLM: `GET /realtime` as a WebSocket. Only the names of its events are OpenAI's: the model
 * stands at the top of `session.update`, `commit` begins an utterance and `commit` with `final` ends it. What comes
 * until its transcript is there, the server throws away.
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
    answersWithinMs: UTTERANCE_ANSWER_MS,
    connect: (call, { model }) => new VllmStepper(call, model),
  }
}

const BEGIN = ['{"type":"input_audio_buffer.commit"}']
const FINISH = ['{"type":"input_audio_buffer.commit","final":true}']

/** Codes of what the server was sent. */
const OF_REQUEST: ReadonlySet<string> = new Set([
  'invalid_json',
  'invalid_event',
  'unknown_event',
  'invalid_audio',
])

class VllmStepper implements LiveStepper {
  readonly #update: string
  readonly #utterances: Utterances
  #isReady = false
  #ending = false

  constructor({ live }: LiveCall, model: string) {
    this.#update = JSON.stringify({ type: 'session.update', model })
    this.#utterances = new Utterances(AUDIO, live, { begin: BEGIN, finish: FINISH, append: appendFrame })
  }

  opened(): readonly LiveFrame[] {
    return NO_FRAMES
  }

  audio(bytes: Uint8Array): readonly LiveFrame[] {
    return this.#utterances.audio(bytes)
  }

  finalize(): readonly LiveFrame[] {
    const frames = this.#utterances.finalize()
    // A frame that changes nothing says that an answer is to come.
    return frames === null ? NO_FRAMES : frames.length > 0 ? frames : [this.#update]
  }

  keepAlive(): readonly LiveFrame[] {
    return NO_FRAMES
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    return this.#utterances.end()
  }

  received(frame: LiveFrame): Received {
    const message = objectIn(frame)
    if (message === null) return UNREADABLE
    this.#utterances.hear()
    const { failure } = this.#utterances
    if (failure !== null) return { events: [failure] }
    const { type, delta, text } = message
    switch (type) {
      case 'session.created':
        if (this.#isReady) return NOTHING
        this.#isReady = true
        return { events: [{ kind: 'ready' }], reply: [this.#update, ...BEGIN] }
      case 'transcription.delta':
        if (typeof delta !== 'string') return UNREADABLE
        return delta === '' ? NOTHING : { events: [this.#utterances.write(this.#utterances.text + delta)] }
      case 'transcription.done':
        return this.#utterances.done(typeof text === 'string' ? text : this.#utterances.text)
      case 'error':
        return this.#error(message)
      default:
        return NOTHING
    }
  }

  closed(code: number, reason: string): Failure | null {
    return this.#utterances.isOver ? null : closeFailure(code, reason)
  }

  /** A server that was given no audio at all has nothing to finish. */
  #error({ error, code }: JsonObject): Received {
    if (this.#ending && this.#utterances.isEmpty) return this.#utterances.over()
    const said = { message: typeof error === 'string' ? error : '', code }
    const failure = failureInside({ error: said }, OF_REQUEST.has(String(code)) ? 400 : 500)
    return { events: [{ kind: 'failed', failure }] }
  }
}
