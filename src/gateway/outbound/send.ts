import type { AudioReader } from '../../contracts/audio.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import type {
  OpenStream,
  Send,
  SendOptions,
  UpstreamReply,
  UpstreamRequest,
} from '../../contracts/upstream.ts'
import { readHeaders } from './answer-head.ts'
import { Connections, type InnerHost } from './connections.ts'
import type { EgressProxy } from './egress-proxy.ts'
import { copyOf, ReplyTooLarge, refuseEncoded, Sending } from './sending.ts'
import { openStream } from './stream.ts'

interface Sender {
  readonly send: Send
  readonly open: OpenStream
  close(): Promise<void>
}

/** Sends requests to providers over pooled HTTP/1.1 connections, one request on a connection at a time. */
export function createSender({
  reader,
  inner,
  egress,
  clock = systemClock,
}: {
  readonly reader: AudioReader
  readonly inner?: InnerHost
  readonly egress?: EgressProxy | undefined
  readonly clock?: Clock
}): Sender {
  const connections = new Connections({ clock, inner, egress })
  return {
    send: (request, options) =>
      new Promise((resolve, reject) => {
        new WholeAnswer(connections, reader, request, options, resolve, reject).begin()
      }),
    open: (request, options) => openStream(connections, reader, request, options),
    close: async () => connections.close(),
  }
}

/** Largest answer of a provider, bytes. */
const REPLY_BYTES_MAX = 64 * 1024 * 1024

/** A whole answer, whose headers are made when they are first asked for: most answers are good, and need none. */
class Reply implements UpstreamReply {
  readonly status: number
  readonly body: readonly Uint8Array[]
  readonly #fields: string
  #headers: UpstreamReply['headers'] | null = null

  constructor(status: number, fields: string, body: readonly Uint8Array[]) {
    this.status = status
    this.#fields = fields
    this.body = body
  }

  get headers(): UpstreamReply['headers'] {
    this.#headers ??= readHeaders(this.#fields)
    return this.#headers
  }
}

const NO_CHUNKS: Uint8Array[] = []

class WholeAnswer extends Sending {
  readonly #resolve: (reply: UpstreamReply) => void
  readonly #reject: (reason: unknown) => void
  readonly #options: SendOptions
  #isHeldBack = false
  #body = NO_CHUNKS
  #bytes = 0
  #status = 0
  #fields = ''

  constructor(
    connections: Connections,
    reader: AudioReader,
    request: UpstreamRequest,
    options: SendOptions,
    resolve: (reply: UpstreamReply) => void,
    reject: (reason: unknown) => void,
  ) {
    super(connections, reader, request, options)
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  override onHead(status: number, fields: string, encoding: string): void {
    refuseEncoded(status, encoding)
    this.#status = status
    this.#fields = fields
  }

  override onBody(bytes: Buffer, start: number, end: number): void {
    const chunk = copyOf(bytes, start, end)
    this.#bytes += chunk.length
    if (this.#bytes > REPLY_BYTES_MAX) throw new ReplyTooLarge()
    this.#options.onHeld(chunk.length)
    // Most answers are one chunk, and a list that is pushed to takes room for seventeen.
    if (this.#body === NO_CHUNKS) this.#body = [chunk]
    else if (this.#body.push(chunk) > 1) this.#awaitTurn()
  }

  #awaitTurn(): void {
    const turn = this.#isHeldBack ? null : (this.#options.turn?.(this.signal) ?? null)
    if (turn === null) return
    this.#isHeldBack = true
    this.pause()
    const onTurn = () => {
      this.#isHeldBack = false
      this.resume()
    }
    turn.then(onTurn, (error: Error) => this.abort(error))
  }

  protected override answered(): void {
    const reply = new Reply(this.#status, this.#fields, this.#body)
    const { bodyLeft } = this
    if (bodyLeft === null) this.#resolve(reply)
    else void bodyLeft.then(() => this.#resolve(reply))
  }

  protected override failed(cause: unknown): void {
    const { bodyLeft } = this
    if (bodyLeft === null) this.#reject(this.errorOf(cause))
    else void bodyLeft.then(() => this.#reject(this.errorOf(cause)))
  }
}
