import type { LiveEntry } from '../../../contracts/live.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { LiveMessage } from '../../live/messages.ts'
import { seconds } from '../../live/transcript.ts'
import { timestamp } from '../json-reply.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import { BEHIND_BYTES } from '../socket-messages.ts'
import { DEEPGRAM_SOCKET, modelId } from './door.ts'
import { ListeningSocket } from './live-socket.ts'
import { type ListenOptions, readListenOptions } from './options.ts'
import { deepgramWord, meanConfidence, UNKNOWN_CONFIDENCE } from './words.ts'

export const listen = socketEndpoint({
  ...DEEPGRAM_SOCKET,
  path: '/deepgram/v1/listen',
  id: 'deepgramListen',
  summary: 'Live transcription over a WebSocket',
  description:
    'Deepgram’s streaming protocol v1, with its options as query parameters. The key goes as `Authorization: Token`, ' +
    'or in a browser with the subprotocols `token, <key>`.',
  parameters: ['Purpose', 'Require'],
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED'],
  open: (call) => new ListenSocket(call, readListenOptions(call.exchange, call.context.principal)),
})

type Final = Extract<LiveMessage, { readonly type: 'final' }>

/** One caller's WebSocket in the messages of version 1. */
class ListenSocket extends ListeningSocket {
  readonly #options: ListenOptions
  readonly #created: string
  /** In every result: the request, and the entry that heard it. */
  #origin = this.#originOf({ provider: '', model: '' })
  /** The last final, until it is known whether an utterance ends with it. */
  #held: Final | null = null
  /** The entry says which of its finals end an utterance. */
  #tellsEnds = false

  /** @throws GatewayError as `LiveSessions.select` */
  constructor(call: SocketCall, options: ListenOptions) {
    super(call, options)
    this.#created = timestamp(call.deps.services.clock.wallNow())
    this.#options = options
  }

  send(message: LiveMessage): void {
    switch (message.type) {
      case 'ready':
        this.#origin = this.#originOf(message)
        return
      case 'switched':
        this.#flush()
        this.#origin = this.#originOf(message.to)
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
          this.say({
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

  protected override last(): void {
    this.#flush()
  }

  protected control({ type }: Readonly<Record<string, unknown>>): void {
    switch (type) {
      case 'KeepAlive':
        return void this.session.keepAlive()
      case 'Finalize':
        return void this.session.finalize(null)
      case 'CloseStream':
        return void this.finish()
      default:
        throw invalidField('type', MUST.beOneOf(['KeepAlive', 'Finalize', 'CloseStream']))
    }
  }

  #partial({ channel, start, text }: Extract<LiveMessage, { readonly type: 'partial' }>): void {
    if (text === '' || this.bufferedBytes > BEHIND_BYTES) return
    const duration = Math.max(0, seconds(this.session.audioSeconds - start))
    const alternative = { transcript: text, confidence: UNKNOWN_CONFIDENCE, words: [] }
    const at = { start, duration, is_final: false, speech_final: false, from_finalize: false }
    this.#results(channel, at, alternative)
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
        words: words.map(deepgramWord),
      },
    )
    if (!isEnd || !this.#options.utteranceEnd) return
    this.say({ type: 'UtteranceEnd', channel: this.#index(channel), last_word_end: words.at(-1)?.end ?? end })
  }

  #results(channel: number, facts: object, alternative: object): void {
    this.say({
      type: 'Results',
      channel_index: this.#index(channel),
      ...facts,
      channel: { alternatives: [alternative] },
      metadata: this.#origin,
    })
  }

  #originOf({ model, provider }: LiveEntry) {
    const info = { name: model, version: '', arch: provider }
    return { request_id: this.requestId, model_info: info, model_uuid: modelId(model) }
  }

  #metadata(): void {
    this.#flush()
    this.say({
      type: 'Metadata',
      transaction_key: 'deprecated',
      request_id: this.requestId,
      sha256: '',
      created: this.#created,
      duration: seconds(this.session.audioSeconds),
      channels: this.#options.channels,
    })
  }

  #index(channel: number): readonly [number, number] {
    return [channel, this.#options.channels]
  }
}
