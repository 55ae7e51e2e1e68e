import { type GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import type { ClientSocket, ClientSocketListener } from '../../edge/client-socket.ts'
import { invalid, invalidField, MUST } from '../../edge/refusals.ts'
import type { SpeechMessage, SpeechSink } from '../../live/speech-messages.ts'
import type { SpeechSession } from '../../live/speech-session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { fixed, type OptionReader } from '../door-options.ts'
import { warningHeaders } from '../fact-headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import { CLOSE, checkMessageSize, nodeStops, readMessage, unaskedClose } from '../socket-messages.ts'
import { closeFor, DEEPGRAM_SOCKET, modelId, vendorId } from './door.ts'
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
class SpeakSocket implements ClientSocketListener, SpeechSink {
  readonly headers: Readonly<Record<string, string>>
  readonly #call: SocketCall
  readonly #session: SpeechSession
  /** Its clients play each message by itself: one that ended within a sample would be noise from there on. */
  readonly #frames: WholeFrames
  #socket: ClientSocket | null = null
  /** The model that the caller was told of last. */
  #model: string | null = null
  /** Number of the next answer to a `Flush` or a `Clear`. */
  #sequence = 0
  #isEnding = false
  #isOver = false

  /** @throws GatewayError as `LiveSessions.selectSpeech`, and for options that are wrong */
  constructor(call: SocketCall) {
    const { exchange, context, admitted } = call
    const { live } = call.deps
    this.#call = call
    const body = speakRequest.read({ text: ANY_TEXT }, exchange)
    const asked = readSpeak(exchange, body, context.principal, AS_IT_IS_MADE)
    const selection = live.selectSpeech(context, asked)
    const encoding = asked.payload.response_format?.startsWith('pcm') ? 'pcm_s16le' : 'mulaw'
    this.#frames = new WholeFrames({ encoding, sampleRate: PCM_HERTZ, channels: 1 })
    this.headers = warningHeaders([...asked.warnings, ...selection.warnings])
    this.#session = live.openSpeech({
      context,
      call: asked,
      selection,
      sink: this,
      admitted,
      mayBeSilent: true,
    })
  }

  get bufferedBytes(): number {
    return this.#socket?.bufferedBytes ?? 0
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    void this.#session.start()
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    // Messages after the end are ignored, as on the way in.
    if (this.#isOver || this.#isEnding) return
    try {
      const { live_max_message_bytes: most } = this.#call.deps.services.snapshot().limits
      checkMessageSize(message, most, 'live_max_message_bytes')
      if (isBinary) throw invalid('text comes in text messages; binary ones are not for callers')
      this.#handleMessage(readMessage(message))
    } catch (thrown) {
      this.#session.fail(toGatewayError(thrown))
    }
  }

  onDrain(): void {
    this.#session.drained()
  }

  onClose(): void {
    this.#isOver = true
    this.#session.leave()
  }

  onStopping(): void {
    this.#session.fail(nodeStops())
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
    if (this.#isOver) return
    const whole = this.#frames.take(bytes)
    if (whole.length > 0) this.#socket?.send(whole)
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    if (error !== null) {
      this.#call.context.failure ??= error
      return void this.#socket?.close(...closeFor(error))
    }
    if (this.#isEnding) this.#socket?.close(CLOSE.normal, '')
    else this.#socket?.close(...unaskedClose(this.#session.facts().ended))
  }

  #handleMessage({ type, text }: Record<string, unknown>): void {
    switch (type) {
      case 'Speak':
        if (typeof text !== 'string') throw invalidField('text', 'must be a string')
        return void this.#session.text(text)
      case 'Flush':
        return void this.#session.flush(null)
      case 'Clear':
        this.#session.clear()
        this.#frames.clear()
        return void this.#answer('Cleared')
      case 'Close':
        this.#isEnding = true
        return void this.#session.end()
      default:
        throw invalidField('type', MUST.beOneOf(['Speak', 'Flush', 'Clear', 'Close']))
    }
  }

  /** Told at the beginning, and when another model has spoken. */
  #metadata(model: string): void {
    if (this.#model === model) return
    this.#model = model
    this.#say({
      type: 'Metadata',
      request_id: vendorId(this.#call.exchange.requestId),
      model_name: model,
      model_version: '',
      model_uuid: modelId(model),
    })
  }

  #answer(type: 'Flushed' | 'Cleared'): void {
    this.#say({ type, sequence_id: this.#sequence })
    this.#sequence += 1
  }

  /** In the members of Deepgram's reference, and in those that LiveKit's agents and its library of Go read. */
  #warn(text: string): void {
    const code = 'GOING_AWAY'
    this.#say({ type: 'Warning', description: text, code, warn_msg: text, warn_code: code })
  }

  #say(message: object): void {
    if (!this.#isOver) this.#socket?.send(JSON.stringify(message))
  }
}
