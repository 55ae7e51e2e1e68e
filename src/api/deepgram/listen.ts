import type { LiveEntry } from '../../contracts/live.ts'
import { type GatewayError, toGatewayError } from '../../errors.ts'
import type { ClientSocket, ClientSocketListener } from '../../inbound/client-socket.ts'
import { invalidField, MUST } from '../../inbound/refusals.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { seconds } from '../../live/transcript.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { warningHeaders } from '../fact-headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import {
  BEHIND_BYTES,
  CLOSE,
  checkMessageSize,
  nodeStops,
  readMessage,
  unaskedClose,
} from '../socket-messages.ts'
import { closeFor, DEEPGRAM_SOCKET } from './door.ts'
import { type ListenOptions, readListenOptions } from './options.ts'
import { meanConfidence, UNKNOWN_CONFIDENCE, wordOf } from './words.ts'

export const listen = socketEndpoint({
  ...DEEPGRAM_SOCKET,
  path: '/deepgram/v1/listen',
  id: 'deepgramListen',
  summary: 'Live transcription over a WebSocket',
  description:
    'Deepgram’s streaming protocol v1, with its options as query parameters. The key goes as `Authorization: Token`, ' +
    'or in a browser with the subprotocols `token, <key>`.',
  parameters: ['Purpose', 'Require'],
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED', 'REQUIRED_FEATURE_UNAVAILABLE'],
  open: (call) => new ListenSocket(call, readListenOptions(call.exchange, call.context.principal)),
})

type Final = Extract<LiveMessage, { readonly type: 'final' }>

/** One caller's WebSocket in Deepgram's messages. */
class ListenSocket implements ClientSocketListener, LiveSink {
  readonly headers: Readonly<Record<string, string>>
  readonly #call: SocketCall
  readonly #options: ListenOptions
  readonly #session: LiveSession
  readonly #frames: WholeFrames
  readonly #created = new Date().toISOString()
  #socket: ClientSocket | null = null
  #entry: LiveEntry = { provider: '', model: '' }
  /** The last final, until it is known whether an utterance ends with it. */
  #held: Final | null = null
  /** The entry says which of its finals end an utterance. */
  #tellsEnds = false
  #isEnding = false
  #isOver = false

  /** @throws GatewayError as `LiveSessions.select` */
  constructor(call: SocketCall, options: ListenOptions) {
    const { dependencies, context, admitted } = call
    this.#call = call
    this.#options = options
    this.headers = warningHeaders(options.warnings)
    this.#frames = new WholeFrames(options.live.audio)
    const selection = dependencies.live.select(context, options.call)
    this.#session = dependencies.live.open({ context, call: options.call, selection, sink: this, admitted })
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    void this.#session.start()
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    try {
      const { live_max_message_bytes: most } = this.#call.dependencies.services.snapshot().limits
      checkMessageSize(message, most, 'live_max_message_bytes')
      if (!isBinary) this.#control(message)
      else if (message.length === 0) this.#end()
      else this.#audio(message)
    } catch (thrown) {
      this.#session.fail(toGatewayError(thrown))
    }
  }

  onClose(): void {
    this.#isOver = true
    this.#session.leave()
  }

  onStopping(): void {
    this.#session.fail(nodeStops())
  }

  send(message: LiveMessage): void {
    switch (message.type) {
      case 'ready':
        this.#entry = { provider: message.provider, model: message.model }
        return
      case 'switched':
        this.#flush()
        this.#entry = message.to
        this.#tellsEnds = false
        return
      case 'partial':
        return void this.#partial(message)
      case 'final':
        return void this.#final(message)
      case 'utterance_end':
        return void this.#utteranceEnd(message.channel)
      case 'finalized':
        return void this.#finalized(message.settled_seconds)
      case 'speech_started':
        if (this.#options.vadEvents)
          this.#say({
            type: 'SpeechStarted',
            channel: this.#index(message.channel),
            timestamp: message.at_seconds,
          })
        return
      case 'done':
        return void this.#metadata()
      default:
        return
    }
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#flush()
    this.#isOver = true
    if (error !== null) {
      this.#call.context.failure ??= error
      return void this.#socket?.close(...closeFor(error))
    }
    if (this.#isEnding) this.#socket?.close(CLOSE.normal, '')
    else this.#socket?.close(...unaskedClose(this.#session.facts().ended))
  }

  #control(message: Uint8Array): void {
    switch (readMessage(message).type) {
      case 'KeepAlive':
        return void this.#session.keepAlive()
      case 'Finalize':
        return void this.#session.finalize(null)
      case 'CloseStream':
        return void this.#end()
      default:
        throw invalidField('type', MUST.beOneOf(['KeepAlive', 'Finalize', 'CloseStream']))
    }
  }

  #audio(message: Uint8Array): void {
    // What comes behind the end is for nobody, as at Deepgram.
    if (this.#isEnding) return
    const whole = this.#frames.take(message)
    if (whole.length > 0) this.#session.audio(whole)
  }

  #end(): void {
    this.#isEnding = true
    this.#session.end()
  }

  #partial({ channel, start, text }: Extract<LiveMessage, { readonly type: 'partial' }>): void {
    if (text === '' || (this.#socket?.bufferedBytes ?? 0) > BEHIND_BYTES) return
    const duration = Math.max(0, seconds(this.#session.audioSeconds - start))
    const alternative = { transcript: text, confidence: UNKNOWN_CONFIDENCE, words: [] }
    this.#results(channel, { start, duration, is_final: false, speech_final: false }, alternative)
  }

  #final(message: Final): void {
    // More of the same utterance has come at once.
    if (this.#held !== null) this.#sayFinal(this.#held, false)
    this.#held = message
    // Entries that tell the end of an utterance do so in the message of its last words.
    queueMicrotask(() => {
      if (this.#held === message) this.#flush()
    })
  }

  #flush(): void {
    const held = this.#held
    this.#held = null
    if (held !== null) this.#sayFinal(held, !this.#tellsEnds)
  }

  #utteranceEnd(channel: number): void {
    const held = this.#held
    if (held === null || held.channel !== channel) return
    this.#tellsEnds = true
    this.#held = null
    this.#sayFinal(held, true)
  }

  #finalized(settledSeconds: number): void {
    const held = this.#held
    this.#held = null
    if (held !== null) return void this.#sayFinal(held, true, true)
    const at = { start: settledSeconds, duration: 0, is_final: true, speech_final: true, from_finalize: true }
    const nothing = { transcript: '', confidence: 0, words: [] }
    for (let channel = 0; channel < this.#options.channels; channel += 1) this.#results(channel, at, nothing)
  }

  #sayFinal({ channel, segment, words = [], language }: Final, isEnd: boolean, isAnswer = false): void {
    const { start, end, text, confidence } = segment
    const { languages } = this.#options
    this.#results(
      channel,
      {
        ...{ start, duration: seconds(end - start), is_final: true, speech_final: isEnd },
        from_finalize: isAnswer,
      },
      {
        transcript: text.trim(),
        confidence: confidence ?? meanConfidence(words),
        ...(languages && language !== undefined ? { languages: [language] } : {}),
        words: words.map(wordOf),
      },
    )
    if (!isEnd || !this.#options.utteranceEnd) return
    this.#say({
      type: 'UtteranceEnd',
      channel: this.#index(channel),
      last_word_end: words.at(-1)?.end ?? end,
    })
  }

  #results(channel: number, facts: object, alternative: object): void {
    const { model, provider } = this.#entry
    this.#say({
      type: 'Results',
      channel_index: this.#index(channel),
      ...facts,
      channel: { alternatives: [alternative] },
      metadata: {
        request_id: this.#call.exchange.requestId,
        model_info: { name: model, version: '', arch: provider },
        model_uuid: '',
      },
    })
  }

  #metadata(): void {
    this.#flush()
    this.#say({
      type: 'Metadata',
      transaction_key: 'deprecated',
      request_id: this.#call.exchange.requestId,
      sha256: '',
      created: this.#created,
      duration: seconds(this.#session.audioSeconds),
      channels: this.#options.channels,
    })
  }

  #index(channel: number): readonly [number, number] {
    return [channel, this.#options.channels]
  }

  #say(message: object): void {
    if (!this.#isOver) this.#socket?.send(JSON.stringify(message))
  }
}
