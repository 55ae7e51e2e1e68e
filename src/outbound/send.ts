import { Agent, buildConnector, type Dispatcher } from 'undici'
import type { AudioReader } from '../contracts/audio.ts'
import type { OpenStream, Send, SendOptions, UpstreamReply, UpstreamRequest } from '../contracts/upstream.ts'
import { type Dispatched, ReplyTooLarge, readHeaders, Sending } from './sending.ts'
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
  const collected = collect(agent, sending.dispatch, sending.dispatched, options.onHeld)
  sending.watch(collected.abort)
  try {
    return await collected.reply
  } catch (cause) {
    throw sending.errorOf(cause)
  } finally {
    sending.unwatch()
    await sending.bodyLeft
  }
}

/** Largest answer of a provider, bytes. */
const REPLY_BYTES_MAX = 64 * 1024 * 1024

/** An answer on its way, and how to give it up. */
interface Collected {
  readonly reply: Promise<UpstreamReply>
  /** Ends the request with `reason`, wherever it is; its connection is not used again. */
  readonly abort: (reason: Error) => void
}

/**
 * Sends a request and collects the whole answer. By undici's handler instead of its streams, which take a third of the
 * CPU time of a small call.
 *
 * @param dispatched what is told of it
 * @param onHeld told of every chunk that is kept, bytes
 */
function collect(
  agent: Agent,
  options: Dispatcher.DispatchOptions,
  dispatched: Dispatched,
  onHeld: (bytes: number) => void,
): Collected {
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamReply>()
  const body: Uint8Array[] = []
  let bytes = 0
  let status = 0
  let headers: Record<string, string> = {}

  agent.dispatch(options, {
    onRequestStart: (controller) => dispatched.start(controller),
    onResponseStart(_, statusCode, received) {
      status = statusCode
      headers = readHeaders(status, received)
    },
    onResponseData(receiving, chunk) {
      bytes += chunk.length
      if (bytes > REPLY_BYTES_MAX) {
        receiving.abort(new ReplyTooLarge())
        return
      }
      onHeld(chunk.length)
      body.push(chunk)
    },
    onResponseEnd: () => resolve({ status, headers, body }),
    onResponseError: (_, error) => reject(error),
  })

  return {
    reply: promise,
    abort(reason) {
      dispatched.abort(reason)
      reject(reason)
    },
  }
}
