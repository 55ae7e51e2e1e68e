import { Agent, buildConnector, type Dispatcher } from 'undici'
import type { AudioReader } from '../contracts/audio.ts'
import type { OpenStream, Send, SendOptions, UpstreamReply, UpstreamRequest } from '../contracts/upstream.ts'
import { ReplyTooLarge, readHeaders, Sending } from './sending.ts'
import { openStream } from './stream.ts'

/** Longest wait for a connection, TLS included. */
const CONNECT_TIMEOUT_MS = 5_000

/** Idle connections are given up before the usual 5 s of front ends, so that none is reused while it closes. */
const KEEP_ALIVE_MS = 4_000

interface Sender {
  readonly send: Send
  readonly open: OpenStream
  close(): Promise<void>
}

/** A host that is this process itself: no resolver knows it, and its port is found when it is first dialled. */
interface InnerHost {
  readonly name: string
  port(): Promise<number>
}

/** Sends requests to providers over pooled HTTP/1.1 connections, one request on a connection at a time. */
export function createSender(options: { reader: AudioReader; inner?: InnerHost }): Sender {
  const agent = new Agent({
    connect: connectorTo(options.inner),
    connections: null,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  })
  return {
    send: (request, sendOptions) => send(agent, options.reader, request, sendOptions),
    open: (request, openOptions) => openStream(agent, options.reader, request, openOptions),
    close: () => agent.destroy(),
  }
}

/** Dials as undici does, but for the inner host, which is on the loopback. */
function connectorTo(inner: InnerHost | undefined): buildConnector.connector {
  const dial = buildConnector({ timeout: CONNECT_TIMEOUT_MS })
  if (inner === undefined) return dial
  return (target, callback) => {
    if (target.hostname !== inner.name) return dial(target, callback)
    inner.port().then(
      (port) => dial({ ...target, hostname: '127.0.0.1', port: String(port) }, callback),
      (error: Error) => callback(error, null),
    )
  }
}

async function send(
  agent: Agent,
  reader: AudioReader,
  request: UpstreamRequest,
  options: SendOptions,
): Promise<UpstreamReply> {
  const sending = new Sending(reader, request, options)
  const answer = new WholeAnswer(sending, options.onHeld)
  agent.dispatch(sending.dispatch, answer)
  sending.watch(answer)
  try {
    return await answer.whole.promise
  } catch (cause) {
    throw sending.errorOf(cause)
  } finally {
    sending.unwatch()
    if (sending.bodyLeft !== null) await sending.bodyLeft
  }
}

/** Largest answer of a provider, bytes. */
const REPLY_BYTES_MAX = 64 * 1024 * 1024

/**
 * Collects an answer whole. By undici's handler instead of its streams, which take a third of the CPU time of a small
 * call.
 */
class WholeAnswer implements Dispatcher.DispatchHandler {
  readonly whole = Promise.withResolvers<UpstreamReply>()
  readonly #sending: Sending
  readonly #onHeld: SendOptions['onHeld']
  readonly #body: Uint8Array[] = []
  #bytes = 0
  #status = 0
  #headers: Record<string, string> = {}

  constructor(sending: Sending, onHeld: SendOptions['onHeld']) {
    this.#sending = sending
    this.#onHeld = onHeld
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#sending.dispatched.start(controller)
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    this.#status = status
    this.#headers = readHeaders(status, headers)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > REPLY_BYTES_MAX) {
      controller.abort(new ReplyTooLarge())
      return
    }
    this.#onHeld(chunk.length)
    this.#body.push(chunk)
  }

  onResponseEnd(): void {
    this.whole.resolve({ status: this.#status, headers: this.#headers, body: this.#body })
  }

  onResponseError(_: unknown, cause: Error): void {
    this.whole.reject(cause)
  }

  abort(reason: Error): void {
    this.#sending.dispatched.abort(reason)
    this.whole.reject(reason)
  }
}
