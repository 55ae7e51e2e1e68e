import type { SpeechCall } from '../../../contracts/calls.ts'
import type { LiveFrame, SocketHandshake, SpeechEvent, SpeechStepper } from '../../../contracts/live.ts'
import type { LiveSpeech, Target } from '../../../contracts/provider.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import { speechMediaType } from '../../media/speech-form.ts'
import { classify } from '../failure.ts'
import { closeFailure, failureInside, objectIn, socketUrl } from '../live.ts'
import { unsupportedField } from '../unsupported.ts'
import { DEFAULT_FORMAT, DEFAULT_VOICE, nativeFormat, unsupported } from './speech.ts'
import { elevenlabsHeaders, unlogged } from './wire.ts'

/** The longest that it can be told to wait for text, seconds; 20 unless it is told. */
const INACTIVITY_SECONDS = 180

/**
 * `GET /v1/text-to-speech/{voice_id}/multi-stream-input` as a WebSocket: JSON frames, audio in base64. Of the two
 * sockets this is the one that says where a text ends in the audio: each sentence is a context of its own, which is
 * flushed and closed at once and ends with `isFinal`. `stream-input` ends once, with the connection.
 * elevenlabs-js 2.73.0 serialization/types/WebsocketTtsClientMessageMulti.js, WebsocketTtsServerMessageMulti.js
 */
export const liveSpeech: LiveSpeech = {
  unsupported(call, { model }) {
    const issue = unsupported(call)
    if (issue !== null) return issue
    if (model.startsWith('eleven_v3')) return unsupportedField('model', 'it is not spoken over a WebSocket')
    if (call.seed !== null) return unsupportedField('seed', 'no message of the WebSocket has one')
    // A wav head has the length of its samples, which is not known yet.
    const isMade = /^(?:mp3|pcm|ulaw|alaw)_/.test(nativeFormat(call) ?? '')
    return isMade ? null : unsupportedField('response_format', 'the WebSocket makes mp3, pcm, ulaw and alaw')
  },
  handshake,
  refused: classify,
  connect: (call) => new ContextStepper(call),
  mediaType: (call) => speechMediaType(nativeFormat(call) ?? DEFAULT_FORMAT),
  idleMs: INACTIVITY_SECONDS * 1000,
  // A sixth ends the connection with `max_active_conversations`.
  sentencesMax: 5,
}

function handshake(call: SpeechCall, target: Target): SocketHandshake {
  const voice = encodeURIComponent(call.voice ?? DEFAULT_VOICE)
  const query = new URLSearchParams({
    model_id: target.model,
    output_format: nativeFormat(call) ?? DEFAULT_FORMAT,
    inactivity_timeout: String(INACTIVITY_SECONDS),
    ...unlogged(target),
  })
  return {
    url: socketUrl(target, `/v1/text-to-speech/${voice}/multi-stream-input?${query}`),
    protocols: [],
    headers: elevenlabsHeaders(target),
  }
}

/** Name of a context: that of its sentence. */
const CONTEXT = /^s(\d{1,9})$/

class ContextStepper implements SpeechStepper {
  readonly #settings: object
  /** Sentences that are not spoken yet. */
  readonly #open = new Set<number>()

  constructor({ speed }: SpeechCall) {
    this.#settings = speed === null ? {} : { voice_settings: { speed } }
  }

  speak(sentence: number, text: string): readonly LiveFrame[] {
    const context = { context_id: `s${sentence}` }
    this.#open.add(sentence)
    return [
      // A context begins with a space, and its text has to end with one.
      { text: ' ', ...this.#settings, ...context },
      { text: `${text} `, ...context, flush: true },
      { ...context, close_context: true },
    ].map((message) => JSON.stringify(message))
  }

  end(): readonly LiveFrame[] {
    return ['{"close_socket":true}']
  }

  received(frame: LiveFrame): readonly SpeechEvent[] {
    const message = objectIn(frame)
    if (message === null) return []
    const { contextId, audio, isFinal, error, message: said } = message
    if (typeof error === 'string') return [{ kind: 'failed', failure: speechFailure(error, said) }]
    const named = typeof contextId === 'string' ? CONTEXT.exec(contextId)?.[1] : undefined
    const sentence = named === undefined ? Number.NaN : Number(named)
    if (!this.#open.has(sentence)) return []
    const events: SpeechEvent[] = []
    const bytes = typeof audio === 'string' ? Buffer.from(audio, 'base64') : null
    if (bytes !== null && bytes.length > 0) events.push({ kind: 'audio', sentence, bytes })
    if (isFinal === true) {
      this.#open.delete(sentence)
      events.push({ kind: 'spoken', sentence })
    }
    return events
  }

  closed(code: number, reason: string): Failure {
    return closeFailure(code, reason)
  }
}

/** Errors that blame what was sent. */
const OF_REQUEST: ReadonlySet<string> = new Set([
  'invalid_input_message',
  'invalid_request',
  'voice_not_found',
])

function speechFailure(code: string, said: unknown): Failure {
  const message = typeof said === 'string' ? said : code
  return failureInside({ error: { code, message } }, OF_REQUEST.has(code) ? 400 : 500)
}
