import type { IncomingMessage } from 'node:http'
import { connect as startTls, type TLSSocket } from 'node:tls'
import type { RawData, WebSocket } from 'ws'
import type {
  LiveFrame,
  OpenSocket,
  SocketEnd,
  SocketHandshake,
  SocketListener,
  SocketOptions,
  UpstreamSocket,
} from '../../contracts/live.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'
import type { Failure, UpstreamReply } from '../../contracts/upstream.ts'
import { toldCode } from './ask-host.ts'
import type { InnerHost } from './connections.ts'
import { type EgressProxy, secureOptions, targetOf } from './egress-proxy.ts'
import { TO_HOST } from './host-lookup.ts'

/** Largest message of a provider, bytes. */
const MESSAGE_BYTES_MAX = 1024 * 1024
/** Most that is read of a refusal, and for how long. */
const REFUSAL_BYTES_MAX = 64 * 1024
const REFUSAL_MS = 2_000
/** How long a provider may take to close in return. */
const CLOSING_MS = 5_000
/** Close code of a connection that ended without a close frame (RFC 6455, section 7.1.5). */
const NO_CLOSE_FRAME = 1006

/**
 * Opens sockets to providers, without compression: audio does not shrink.
 *
 * @param inner a host that is this process itself
 */
export function createSocketOpener(
  inner: InnerHost | undefined,
  egress?: EgressProxy,
  clock: Clock = systemClock,
): OpenSocket {
  return (handshake, listener, options) => {
    const socket = new ProviderSocket(listener, clock)
    const ways = [innerAddress(handshake, inner), wayThrough(egress, handshake, options)] as const
    void Promise.all([...ways, loadClient()]).then(
      ([url, way, { WebSocket: Client }]) => socket.connect(Client, url, handshake, { ...options, ...way }),
      (cause) => socket.fail('connect', `no connection${toldCode(cause)}`),
    )
    return socket
  }
}

/** Options of the client that has its connection made through the proxy. */
async function wayThrough(
  egress: EgressProxy | undefined,
  { url }: SocketHandshake,
  { handshakeMs }: SocketOptions,
): Promise<Way> {
  const to = new URL(url)
  const target = targetOf(to)
  if (to.protocol !== 'wss:' || !egress?.leadsTo(target)) return {}
  const socket = await egress.open(target, handshakeMs)
  return { createConnection: () => startTls({ socket, ...secureOptions(target) }) }
}

interface Way {
  readonly createConnection?: () => TLSSocket
}

/** Most nodes never open a socket: the client is loaded with the first one. */
const loadClient = () => import('ws')

async function innerAddress({ url }: SocketHandshake, inner: InnerHost | undefined): Promise<string> {
  const address = new URL(url)
  if (address.hostname !== inner?.name) return url
  address.host = `127.0.0.1:${await inner.port()}`
  return address.href
}

/** `readyState` of a socket that takes messages. */
const OPEN = 1

/** One socket, from its handshake to its end, of which the listener hears once. */
class ProviderSocket implements UpstreamSocket {
  readonly #listener: SocketListener
  readonly #clock: Clock
  #socket: WebSocket | null = null
  #isOver = false
  #wasOpen = false
  #cut: Timer | null = null

  constructor(listener: SocketListener, clock: Clock) {
    this.#listener = listener
    this.#clock = clock
  }

  get bufferedBytes(): number {
    return this.#socket?.bufferedAmount ?? 0
  }

  connect(
    Client: typeof WebSocket,
    url: string,
    { protocols, headers }: SocketHandshake,
    { createConnection, ...options }: SocketOptions & Way,
  ): void {
    if (this.#isOver) return void createConnection?.().destroy()
    let socket: WebSocket
    try {
      socket = new Client(url, [...protocols], {
        headers: { ...options.headers, ...headers },
        handshakeTimeout: options.handshakeMs,
        maxPayload: MESSAGE_BYTES_MAX,
        perMessageDeflate: false,
        followRedirects: false,
        ...TO_HOST,
        ...(createConnection === undefined ? {} : { createConnection }),
      })
    } catch {
      return void this.fail('connect', 'the address or the headers cannot be sent')
    }
    this.#socket = socket
    socket.on('open', () => {
      this.#wasOpen = true
      if (!this.#isOver) this.#listener.onOpen()
    })
    socket.on('message', (data, isBinary) => this.#isOver || this.#listener.onFrame(frameOf(data, isBinary)))
    socket.on('unexpected-response', (request, response) => {
      void readRefusal(response, this.#clock).then((reply) => {
        this.#end({ kind: 'refused', reply })
        request.destroy()
      })
    })
    let cause: unknown = null
    // A close follows every error.
    socket.on('error', (error) => {
      cause = error
    })
    socket.on('close', (code, reason) => {
      if (code !== NO_CLOSE_FRAME) this.#end({ kind: 'closed', code, reason: reason.toString('utf8') })
      else if (this.#wasOpen) this.fail('ambiguous', 'the connection broke')
      else this.fail('connect', `no connection${toldCode(cause)}`)
    })
  }

  send(frame: LiveFrame): void {
    const socket = this.#socket
    if (this.#isOver || socket?.readyState !== OPEN) return
    // Bytes of others are copied while they are masked.
    socket.send(frame)
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  close(): void {
    const socket = this.#socket
    if (socket === null) return void this.destroy()
    socket.close(1000)
    this.#cut ??= this.#clock.after(CLOSING_MS, () => socket.terminate()).unref()
  }

  destroy(): void {
    this.#isOver = true
    this.#release()
    this.#socket?.terminate()
  }

  fail(kind: Failure['kind'], reason: string): void {
    const failure = { kind, status: null, reason, retryAfterMs: null, providerMessage: null }
    this.#end({ kind: 'failed', failure })
  }

  #end(end: SocketEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release()
    this.#listener.onEnd(end)
  }

  #release(): void {
    this.#cut?.close()
    this.#cut = null
  }
}

function frameOf(data: RawData, isBinary: boolean): LiveFrame {
  // `ws` hands out one Buffer for a message, whatever pieces it came in.
  const bytes = data as Buffer
  return isBinary ? bytes : bytes.toString('utf8')
}

/** Reads an answer that refuses a handshake, as far as that is of use. */
async function readRefusal(response: IncomingMessage, clock: Clock): Promise<UpstreamReply> {
  const body: Buffer[] = []
  let left = REFUSAL_BYTES_MAX
  const late = clock.after(REFUSAL_MS, () => response.destroy())
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      body.push(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) break
    }
  } catch {
    // The status is what matters.
  } finally {
    late.close()
  }
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(response.headers))
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value
  return { status: response.statusCode ?? 0, headers, body }
}
