import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import { systemClock } from '../../src/contracts/time.ts'
import { FaultRules, ordersOf } from '../../src/sandbox/faults.ts'
import { type HeardWord, MorseListener, type WordSink } from '../../src/sandbox/live/morse-listener.ts'
import { type AudioFormat, SampleReader } from '../../src/sandbox/live/samples.ts'
import { type LiveProtocol, LiveSession } from '../../src/sandbox/live/session.ts'
import type { Certificate } from './certificates.ts'

/** What a vendor is asked to open a socket with. */
export interface VendorHandshake {
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
}

/**
 * A vendor's live API that speaks the vendor's wire format, hears Morse code in the audio that it is sent, and refuses
 * what the vendor refuses. Each says where its contract is written.
 */
export interface LiveVendor {
  /** Its messages go out as binary frames. */
  readonly binary?: boolean
  /** Most bytes of a message; more ends the connection with 1009. */
  readonly messageMaxBytes: number
  /** @throws VendorRefusal */
  accept(handshake: VendorHandshake): (session: VendorSession) => LiveProtocol
}

/** The vendor answers the handshake with another status than 101. */
export class VendorRefusal extends Error {
  override readonly name = 'VendorRefusal'
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(`refused with ${status}`)
    this.status = status
    this.body = body
  }
}

/** One connection to a vendor, and what became of it. */
export class VendorSession {
  readonly live: LiveSession
  readonly handshake: VendorHandshake
  /** What was refused, in the vendor's words: empty where the client keeps to the contract. */
  readonly refused: string[] = []
  readonly openedMs = performance.now()
  closedMs: number | null = null

  constructor(live: LiveSession, handshake: VendorHandshake) {
    this.live = live
    this.handshake = handshake
  }

  /** How long the socket was open. */
  get openSeconds(): number {
    return ((this.closedMs ?? performance.now()) - this.openedMs) / 1000
  }

  send(message: object): void {
    this.live.send(message)
  }

  /** Tells the client what is wrong, and leaves the session open. */
  complain(what: string, message: object): void {
    this.refused.push(what)
    this.send(message)
  }

  /** Ends the session for what the client did. @param message that is sent before */
  refuse(code: number, reason: string, message?: object): void {
    this.refused.push(`${code} ${reason}`)
    if (message !== undefined) this.send(message)
    this.live.close(code, reason)
  }
}

/** Morse code out of the bytes of a session. Faults that are ordered come to pass in the middle of its words. */
export class Ear {
  readonly #session: VendorSession
  readonly #format: AudioFormat
  readonly #reader: SampleReader
  readonly #listener: MorseListener

  constructor(
    session: VendorSession,
    format: AudioFormat,
    sink: Partial<WordSink> & { word(word: HeardWord): void },
  ) {
    this.#session = session
    this.#format = format
    this.#reader = new SampleReader(format, true)
    this.#listener = new MorseListener(format.sampleRate, {
      tone: (start, end) => sink.tone?.(start, end),
      partial(text, start) {
        sink.partial?.(text, start)
        if (text !== '') session.live.spelled()
      },
      word(word) {
        sink.word(word)
        session.live.countFinal()
      },
      advance: (now) => sink.advance?.(now),
    })
  }

  hear(bytes: Buffer): void {
    this.#session.live.audio(bytes, this.#format, (part) =>
      this.#reader.read(part, (_, samples, count) => this.#listener.push(samples, count)),
    )
  }

  /** Takes the word that is under way for complete. */
  flush(): void {
    this.#listener.flush()
  }

  /** Nobody is speaking, and no word is under way. */
  get isQuiet(): boolean {
    return !this.#listener.sounding && !this.#listener.spelling
  }

  /** Seconds of audio that are heard. */
  get now(): number {
    return this.#listener.now
  }

  /** When the last tone ended, seconds. */
  get lastEnd(): number {
    return this.#listener.lastEnd
  }
}

export interface VendorServer {
  /** `http:`, or `https:` where there is a certificate. */
  readonly origin: string
  /** The address under which connections have faults; as the sandbox reads them. */
  faulty(orders: string): string
  /** Every connection so far, in the order of their handshakes. */
  readonly sessions: readonly VendorSession[]
}

/** Serves a vendor on the loopback interface until the test ends. */
export async function serveVendor(
  t: Pick<Test, 'teardown'>,
  vendor: LiveVendor,
  certificate?: Certificate,
): Promise<VendorServer> {
  const server = certificate === undefined ? createServer() : createTlsServer(certificate)
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: vendor.messageMaxBytes,
  })
  const sessions: VendorSession[] = []
  const rules = new FaultRules()
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const { path, query, orders } = ordersOf(request.headers, request.url ?? '')
    const faults = rules.read(orders)
    if (faults.live.refuse) return void socket.resetAndDestroy()
    if (faults.status !== null) return refuse(socket, new VendorRefusal(faults.status, {}))
    const handshake = { path, query, headers: request.headers }
    const protocolOf = accepted(vendor, handshake, socket)
    if (protocolOf === null) return
    sockets.handleUpgrade(request, socket, head, (ws) => {
      if (vendor.binary) {
        const send = ws.send.bind(ws)
        ws.send = (data: unknown) => send(Buffer.from(String(data)))
      }
      const live = new LiveSession(ws, socket, faults, { sessionMs: Infinity, clock: systemClock })
      const session = new VendorSession(live, handshake)
      sessions.push(session)
      socket.once('close', () => {
        session.closedMs = performance.now()
      })
      live.start(protocolOf(session))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ticks = setInterval(() => {
    for (const { live } of sessions) live.tick()
  }, 100)
  t.teardown(async () => {
    clearInterval(ticks)
    for (const ws of sockets.clients) ws.terminate()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  const origin = certificate === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`
  return { origin, sessions, faulty: (orders) => `${origin}/x-sandbox/${orders}` }
}

function accepted(vendor: LiveVendor, handshake: VendorHandshake, socket: Socket) {
  try {
    return vendor.accept(handshake)
  } catch (error) {
    if (!(error instanceof VendorRefusal)) throw error
    refuse(socket, error)
    return null
  }
}

function refuse(socket: Socket, { status, body }: VendorRefusal): void {
  const text = JSON.stringify(body)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`)
}

/** A message as a JSON object; null when it is none. */
export function readMessage(bytes: Buffer): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}

/** A value as a JSON object; an empty one when it is none. */
export function objectAt(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}

/** Seconds as whole milliseconds. */
export function milliseconds(seconds: number): number {
  return Math.round(seconds * 1000)
}
