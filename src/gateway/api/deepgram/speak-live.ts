import { invalid, invalidField, MUST } from '../../edge/refusals.ts'
import type { SpeechMessage, SpeechSink } from '../../live/speech-messages.ts'
import type { SpeechSession } from '../../live/speech-session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { fixed, type OptionReader } from '../door-options.ts'
import { warningHeaders } from '../fact-headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import { readMessage } from '../socket-messages.ts'
import { DEEPGRAM_SOCKET, modelId } from './door.ts'
import { DeepgramSocket } from './live-socket.ts'
import { formatsOf, PCM_HERTZ, readSpeak, SPEAK_OPTIONS, type SpeakTerms, speakRequest } from './speak.ts'

/** Audio goes out as bare samples: https://developers.deepgram.com/docs/tts-media-output-settings */
const AS_IT_IS_MADE: SpeakTerms = {
  options: { ...SPEAK_OPTIONS, errors: fixed('no effect') },
  formatsIn(query: OptionReader) {
    const encoding = query.word('encoding', ['linear16', 'mulaw', 'alaw'])
    const container = query.word('container', ['none'])
    return formatsOf(encoding, container, query.number('sample_rate'))
  },
}

/** Takes the place of the sentences that are not known yet. */
const ANY_TEXT = 'a'

export const speakLive = socketEndpoint({
  ...DEEPGRAM_SOCKET,
  path: '/deepgram/v1/speak',
  id: 'deepgramSpeakLive',
  summary: 'Speak text over a WebSocket while it is written',
  description:
    'Deepgram’s streaming protocol v1, with its options as query parameters. The key goes as `Authorization: Token`, ' +
    'or in a browser with the subprotocols `token, <key>`.',
  parameters: ['Purpose', 'Require'],
  errors: CALL_ERRORS,
  open: (call) => new SpeakSocket(call),
})

/** One caller's WebSocket in Deepgram's messages. */
class SpeakSocket extends DeepgramSocket<SpeechSession> implements SpeechSink {
  readonly headers: Readonly<Record<string, string>>
  protected readonly session: SpeechSession
  /** Its clients play each message by itself: one that ended within a sample would be noise from there on. */
  readonly #frames: WholeFrames
  /** The model that the caller was told of last. */
  #model: string | null = null
  /** Number of the next answer to a `Flush` or a `Clear`. */
  #sequence = 0

  /** @throws GatewayError as `LiveSessions.selectSpeech`, and for options that are wrong */
  constructor(call: SocketCall) {
    super(call)
    const { exchange, context, admitted } = call
    const { live } = call.deps
    const body = speakRequest.read({ text: ANY_TEXT }, exchange)
    const asked = readSpeak(exchange, body, context.principal, AS_IT_IS_MADE)
    const selection = live.selectSpeech(context, asked)
    const encoding = asked.payload.response_format?.startsWith('pcm') ? 'pcm_s16le' : 'mulaw'
    this.#frames = new WholeFrames({ encoding, sampleRate: PCM_HERTZ, channels: 1 })
    this.headers = warningHeaders([...asked.warnings, ...selection.warnings])
    const silent = { admitted, mayBeSilent: true }
    this.session = live.openSpeech({ context, call: asked, selection, sink: this, ...silent })
  }

  protected take(message: Uint8Array, isBinary: boolean): void {
    // Messages after the end are ignored, as on the way in.
    if (this.isEnding) return
    this.checkSize(message)
    if (isBinary) throw invalid('text comes in text messages; binary ones are not for callers')
    this.#handleMessage(readMessage(message))
  }

  onDrain(): void {
    this.session.drained()
  }

  send(message: SpeechMessage): void {
    switch (message.type) {
      case 'ready':
        return void this.#metadata(message.model)
      case 'spoken':
        this.#frames.clear()
        return void this.#metadata(message.model)
      case 'flushed':
        return void this.#answer('Flushed')
      case 'going_away':
        return void this.#warn(
          message.reason === 'operator'
            ? 'an operator ends the session'
            : `the session ends in ${message.seconds} s; open another one`,
        )
      default:
        return
    }
  }

  audio(bytes: Uint8Array): void {
    const whole = this.#frames.take(bytes)
    if (whole.length > 0) this.say(whole)
  }

  #handleMessage({ type, text }: Record<string, unknown>): void {
    switch (type) {
      case 'Speak':
        if (typeof text !== 'string') throw invalidField('text', 'must be a string')
        return void this.session.text(text)
      case 'Flush':
        return void this.session.flush(null)
      case 'Clear':
        this.session.clear()
        this.#frames.clear()
        return void this.#answer('Cleared')
      case 'Close':
        return void this.finish()
      default:
        throw invalidField('type', MUST.beOneOf(['Speak', 'Flush', 'Clear', 'Close']))
    }
  }

  /** Told at the beginning, and when another model has spoken. */
  #metadata(model: string): void {
    if (this.#model === model) return
    this.#model = model
    this.say({
      type: 'Metadata',
      request_id: this.requestId,
      model_name: model,
      model_version: '',
      model_uuid: modelId(model),
    })
  }

  #answer(type: 'Flushed' | 'Cleared'): void {
    this.say({ type, sequence_id: this.#sequence })
    this.#sequence += 1
  }

  /** In the members of Deepgram's reference, and in those that LiveKit's agents and its library of Go read. */
  #warn(text: string): void {
    const code = 'GOING_AWAY'
    this.say({ type: 'Warning', description: text, code, warn_msg: text, warn_code: code })
  }
}
