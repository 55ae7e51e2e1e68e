import type { LiveAudio, LiveCall } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { LiveFrame } from '../../contracts/live.ts'
import type { LiveTranscription } from '../../contracts/provider.ts'
import { defineLive, type LiveWire } from './define-live.ts'
import type { Received } from './live.ts'
import { failureInside, NOTHING, socketUrl, textOnly, UNREADABLE } from './live.ts'
import { UTTERANCE_ANSWER_MS, Utterances } from './live-utterances.ts'
import { appendFrame } from './openai/live.ts'
import { bearerHeaders, type ExtraHeaders } from './openai/wire.ts'

const AUDIO: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }

/**
 * Live transcription of vLLM: `GET /realtime` as a WebSocket. Only the names of its events are OpenAI's: the model
 * stands at the top of `session.update`, `commit` begins an utterance and `commit` with `final` ends it. What comes
 * until its transcript is there, the server throws away.
 * vllm-project/vllm vllm/frontend/entrypoints/speech_to_text/realtime/connection.py
 */
export function vllmLive(extra: ExtraHeaders): LiveTranscription {
  return defineLive({
    unsupported: ({ options }) => textOnly(options),
    handshake(_call, target) {
      const { accept: _accept, ...headers } = bearerHeaders(target, extra)
      return { url: socketUrl(target, '/realtime'), headers, audio: AUDIO }
    },
    answersWithinMs: UTTERANCE_ANSWER_MS,
    hint: () => null,
    wire: (call, { model }) => new VllmWire(call, model),
  })
}

const BEGIN = ['{"type":"input_audio_buffer.commit"}']
const FINISH = ['{"type":"input_audio_buffer.commit","final":true}']

/** Codes of what the server was sent. */
const OF_REQUEST: ReadonlySet<unknown> = new Set([
  'invalid_json',
  'invalid_event',
  'unknown_event',
  'invalid_audio',
])

class VllmWire extends Utterances implements LiveWire {
  readonly #update: string
  #isReady = false
  #ending = false

  constructor({ live }: LiveCall, model: string) {
    super(AUDIO, live, { begin: BEGIN, finish: FINISH, append: appendFrame })
    this.#update = JSON.stringify({ type: 'session.update', model })
  }

  override finalize(): readonly LiveFrame[] {
    const frames = super.finalize()
    // A frame that changes nothing says that an answer is to come.
    return frames.length > 0 ? frames : [this.#update]
  }

  override end(): readonly LiveFrame[] {
    this.#ending = true
    return super.end()
  }

  read(message: JsonObject): Received {
    const failure = this.hear()
    if (failure !== null) return { events: [failure] }
    const { type, delta, text } = message
    switch (type) {
      case 'session.created':
        if (this.#isReady) return NOTHING
        this.#isReady = true
        return { events: [{ kind: 'ready' }], reply: [this.#update, ...BEGIN] }
      case 'transcription.delta':
        if (typeof delta !== 'string') return UNREADABLE
        return delta === '' ? NOTHING : { events: [this.write(this.text + delta)] }
      case 'transcription.done':
        return this.done(typeof text === 'string' ? text : this.text)
      case 'error':
        return this.#error(message)
      default:
        return NOTHING
    }
  }

  /** A server that was given no audio at all has nothing to finish. */
  #error({ error, code }: JsonObject): Received {
    if (this.#ending && this.isEmpty) return this.over()
    const said = { message: typeof error === 'string' ? error : '', code }
    const failure = failureInside({ error: said }, OF_REQUEST.has(code) ? 400 : 500)
    return { events: [{ kind: 'failed', failure }] }
  }
}
