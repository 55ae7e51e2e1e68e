import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { type Clock, sleep, type Timer } from '../../contracts/time.ts'
import { type FaultRules, type Faults, ordersOf } from '../faults.ts'
import { Refusal } from '../http.ts'
import * as deepgram from './deepgram.ts'
import * as openai from './openai.ts'
import { type LiveProtocol, type LiveRecord, LiveSession } from './session.ts'

/** Where the log of calls keeps what becomes known of a session. */
interface SessionCall {
  model: string | null
  status: number | null
  /** Reads what was received so far. */
  received: (() => { sha256: string; bytes: number }) | null
  live: LiveRecord | null
}

interface Handshake {
  readonly request: IncomingMessage
  readonly socket: Socket
  readonly head: Buffer
  readonly call: SessionCall
}

interface Vendor {
  readonly messageMaxBytes: number
  readonly sessionMs: number
  /** The subprotocol to answer with; null: none. */
  chooseProtocol(offered: ReadonlySet<string>): string | null
  /**
   * @returns what speaks with the session
   * @throws Refusal or ListenRefusal
   */
  accept(
    query: URLSearchParams,
    request: IncomingMessage,
    call: SessionCall,
  ): (session: LiveSession) => LiveProtocol
  /** Turns a fault into a refusal of the vendor's. */
  refuse(status: number, code: string | null): Refusal | deepgram.ListenRefusal
}

const BETA_PROTOCOL = 'openai-beta.realtime-v1'

const VENDORS: Readonly<Record<string, Vendor>> = {
  '/v1/realtime': {
    messageMaxBytes: openai.MESSAGE_MAX_BYTES,
    sessionMs: openai.SESSION_MS,
    chooseProtocol: (offered) => (offered.has('realtime') ? 'realtime' : null),
    accept(query, request, call) {
      call.model = query.get('model')
      const isBeta =
        request.headers['openai-beta'] !== undefined ||
        (request.headers['sec-websocket-protocol'] ?? '').includes(BETA_PROTOCOL)
      const refusal = openai.queryRefusal(query, isBeta)
      return (session) =>
        new openai.OpenAiRealtime(session, refusal, (model) => {
          call.model = model
        })
    },
    refuse: (status, code) => new Refusal(status, `The sandbox was told to fail with ${status}.`, { code }),
  },
  '/v1/listen': {
    messageMaxBytes: deepgram.MESSAGE_MAX_BYTES,
    sessionMs: deepgram.SESSION_MS,
    chooseProtocol: (offered) => ['token', 'bearer'].find((name) => offered.has(name)) ?? null,
    accept(query, _, call) {
      const options = deepgram.readListenOptions(query)
      call.model = options.model
      return (session) => new deepgram.DeepgramListen(session, options)
    },
    refuse: (status, code) =>
      new deepgram.ListenRefusal(
        status,
        code ?? STATUS_CODES[status] ?? 'ERROR',
        `The sandbox was told to fail with ${status}.`,
      ),
  },
}

const TICK_MS = 100

/** The live sessions of a sandbox: WebSockets in the protocols of OpenAI and Deepgram. */
export class LiveSessions {
  readonly #rules: FaultRules
  readonly #sockets = new Set<Socket>()
  readonly #sessions = new Set<LiveSession>()
  readonly #servers = new Map<Vendor, WebSocketServer>()
  readonly #clock: Clock
  #timer: Timer | null = null

  constructor(rules: FaultRules, clock: Clock) {
    this.#rules = rules
    this.#clock = clock
  }

  /** Answers a request for an upgrade, as ordered. */
  async upgrade(handshake: Handshake): Promise<void> {
    const { request, socket, call } = handshake
    const gone = new AbortController()
    this.#sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => {
      this.#sockets.delete(socket)
      gone.abort()
    })
    try {
      const { path, query, orders } = ordersOf(request.headers, request.url ?? '')
      const faults = this.#rules.read(orders)
      if (faults.live.refuse) return void socket.resetAndDestroy()
      if (faults.delayMs > 0) await sleep(this.#clock, faults.delayMs, { signal: gone.signal })
      if (faults.hang) return void (await once(gone.signal, 'abort'))
      const vendor = Object.hasOwn(VENDORS, path) ? VENDORS[path] : undefined
      if (vendor === undefined) throw new Refusal(404, `Invalid URL (GET ${path})`, { code: 'unknown_url' })
      if (faults.status !== null) {
        const headers = faults.retryAfter === null ? {} : { 'retry-after': faults.retryAfter }
        return void this.#refuse(handshake, vendor.refuse(faults.status, faults.code), headers)
      }
      this.#accept(handshake, vendor, vendor.accept(query, request, call), faults)
    } catch (error) {
      if (gone.signal.aborted) return
      const isKnown = error instanceof Refusal || error instanceof deepgram.ListenRefusal
      this.#refuse(handshake, isKnown ? error : new Refusal(500, 'The server had an error.'))
    }
  }

  /** Breaks every connection. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#timer?.close()
    this.#timer = null
  }

  #accept(
    { request, socket, head, call }: Handshake,
    vendor: Vendor,
    protocolOf: (session: LiveSession) => LiveProtocol,
    faults: Faults,
  ): void {
    this.#serverOf(vendor).handleUpgrade(request, socket, head, (ws: WebSocket) => {
      const session = new LiveSession(ws, socket, faults, { sessionMs: vendor.sessionMs, clock: this.#clock })
      call.status = 101
      call.live = session.record
      call.received = () => ({ sha256: session.sha256, bytes: session.bytes })
      this.#sessions.add(session)
      socket.once('close', () => this.#sessions.delete(session))
      this.#timer ??= this.#clock.every(TICK_MS, () => this.#tick()).unref()
      session.start(protocolOf(session))
    })
    // A handshake that is no WebSocket's is answered by the server itself.
    call.status ??= 400
  }

  #serverOf(vendor: Vendor): WebSocketServer {
    const known = this.#servers.get(vendor)
    if (known !== undefined) return known
    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: vendor.messageMaxBytes,
      handleProtocols: (offered) => vendor.chooseProtocol(offered) ?? false,
    })
    this.#servers.set(vendor, server)
    return server
  }

  #tick(): void {
    for (const session of this.#sessions) session.tick()
  }

  #refuse(
    { socket, call }: Handshake,
    refusal: Refusal | deepgram.ListenRefusal,
    extra: Readonly<Record<string, string>> = {},
  ): void {
    call.status = refusal.status
    const body = JSON.stringify(refusal.body)
    const own = refusal instanceof Refusal ? {} : refusal.headers
    const headers = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'x-request-id': `req_${randomBytes(16).toString('hex')}`,
      connection: 'close',
      ...own,
      ...extra,
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    const status = `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? 'Error'}`
    // A client that keeps its side open would keep the socket.
    socket.once('finish', () => socket.destroy())
    socket.end(`${[status, ...lines].join('\r\n')}\r\n\r\n${body}`)
  }
}
