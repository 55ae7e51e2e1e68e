import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Clock, Timer } from '../../contracts/time.ts'
import { Connection, type ConnectionOwner, type Dial, type Exchange, type ReadInto } from './connection.ts'
import { Deadlines } from './deadlines.ts'
import { type EgressProxy, secureOptions, type Target, targetOf } from './egress-proxy.ts'
import { noteSilent, TO_HOST } from './host-lookup.ts'

/**
 * Connections to servers, by origin: an idle one is used again, the newest first, and the rest are opened.
 *
 * Requests are handed to connections after the poll phase of the event loop, all those of one turn together, and a
 * connection rests from its last answer to the end of the next poll phase. Whatever lies in the kernel for it, its end
 * or bytes that answer no request, has been read by then, so that no request is written to a connection that the server
 * has left, and no stray answer is taken for the request's.
 */

/** Most connections to an origin. Over it, requests wait for one; their deadlines count meanwhile. */
const CONNECTIONS_MAX = 10_000

/** Longest wait for a connection, TLS included. */
const CONNECT_MS = 5_000

/** Idle connections are given up before the usual 5 s of front ends, so that none is reused while it closes. */
const KEEP_ALIVE_MS = 4_000
/** The same, below what a server says of itself, and the longest that is believed. */
const KEEP_ALIVE_MARGIN_MS = 1_000
const KEEP_ALIVE_MS_MAX = 600_000
/** How often idle connections are looked through. */
const SWEEP_MS = 500

/** A host that is this process itself: no resolver knows it, and its port is found when it is first dialled. */
export interface InnerHost {
  readonly name: string
  port(): Promise<number>
}

export interface WaitingExchange extends Exchange {
  /** It needs no connection any more. */
  readonly over: boolean
  /** True: only a new connection will do. */
  readonly needsFresh?: boolean
}

export interface ConnectionsOptions {
  readonly clock: Clock
  readonly inner?: InnerHost | undefined
  readonly egress?: EgressProxy | undefined
  /** Longest wait for a connection, TLS included; default: 5 s. */
  readonly connectMs?: number
  /** Requests name memory that bodies are read into. */
  readonly readsInPlace?: boolean
}

class Closed extends Error {
  override readonly name = 'Closed'
}

export class Connections {
  readonly deadlines: Deadlines
  readonly options: ConnectionsOptions
  readonly #origins = new Map<string, Origin>()
  /** Origins with something to hand out: of thousands there are few in a turn. */
  #stirred = new Set<Origin>()
  #handing: NodeJS.Immediate | null = null
  #sweeping: Timer | null = null
  #closed = false

  constructor(options: ConnectionsOptions) {
    this.options = options
    this.deadlines = new Deadlines(options.clock)
  }

  /** Sends a request over a connection to its origin. */
  send(exchange: WaitingExchange): void {
    if (this.#closed) {
      exchange.onBroken(new Closed('the sender is closed'))
      return
    }
    const { origin } = exchange.head
    let one = this.#origins.get(origin)
    if (one === undefined) {
      one = new Origin(new URL(origin), this)
      this.#origins.set(origin, one)
    }
    one.wait(exchange)
    this.handOut(one)
  }

  /** Ends every request. */
  close(): void {
    this.#closed = true
    this.#sweeping?.close()
    for (const origin of this.#origins.values()) origin.close(new Closed('the sender is closed'))
  }

  /** Ends the connections that carry no request. */
  closeIdle(): void {
    for (const origin of this.#origins.values()) origin.sweep(Number.POSITIVE_INFINITY)
  }

  /** Hands waiting requests of an origin to connections, later in this turn of the loop. */
  handOut(origin: Origin): void {
    this.#stirred.add(origin)
    this.#handing ??= setImmediate(this.#handNow)
  }

  readonly #handNow = (): void => {
    this.#handing = null
    const origins = this.#stirred
    this.#stirred = new Set()
    for (const origin of origins) origin.handOut()
  }

  /** Has idle connections given up in time. */
  sweepLater(): void {
    this.#sweeping ??= this.options.clock.every(SWEEP_MS, () => this.#sweep()).unref()
  }

  #sweep(): void {
    let idle = 0
    for (const [key, origin] of this.#origins) {
      idle += origin.sweep(this.options.clock.now())
      if (origin.unused) this.#origins.delete(key)
    }
    if (idle > 0) return
    this.#sweeping?.close()
    this.#sweeping = null
  }
}

/** Connections to one scheme, host and port, and the requests that wait for one. */
class Origin implements ConnectionOwner {
  readonly #connections: Connections
  readonly #dial: DialOver
  readonly deadlines: Deadlines
  readonly connectMs: number
  readonly readsInPlace: boolean
  /** For the inner host, whose port is asked for each time, and behind a proxy; null for any other. */
  readonly #findDial: (() => Promise<Dial>) | null
  readonly #open = new Set<Connection>()
  readonly #idle: Connection[] = []
  /** Idle since this turn of the loop: the next poll phase tells whether the server leaves them. */
  #resting: Connection[] = []
  #waiting: WaitingExchange[] = []
  /** Connections whose dial is being found. */
  #dialling = 0
  /** Why there are no connections any more. */
  #closed: Error | null = null

  constructor(url: URL, connections: Connections) {
    const { inner, egress, connectMs = CONNECT_MS, readsInPlace = false } = connections.options
    this.#connections = connections
    this.deadlines = connections.deadlines
    this.connectMs = connectMs
    this.readsInPlace = readsInPlace && url.protocol !== 'https:'
    const target = targetOf(url)
    this.#dial = dialOf(url.protocol, target)
    if (inner?.name === url.hostname) this.#findDial = () => inner.port().then(dialLoopback)
    else if (url.protocol !== 'https:' || !egress?.leadsTo(target)) this.#findDial = null
    else {
      const open = () => egress.open(target, connectMs)
      this.#findDial = () => open().then((socket) => (onread) => this.#dial(onread, socket))
    }
  }

  /** It has neither connections nor requests. */
  get unused(): boolean {
    return this.#open.size + this.#waiting.length + this.#dialling === 0
  }

  wait(exchange: WaitingExchange): void {
    this.#waiting.push(exchange)
  }

  /** Hands the waiting requests to connections, as far as there may be some. Once in a turn of the loop. */
  handOut(): void {
    const waiting = this.#waiting
    if (waiting.length > 0) {
      this.#waiting = []
      for (const exchange of waiting) this.#handOver(exchange)
    }
    if (this.#resting.length === 0) return
    this.#idle.push(...this.#resting)
    this.#resting = []
    if (this.#waiting.length > 0) this.#connections.handOut(this)
  }

  #handOver(exchange: WaitingExchange): void {
    if (exchange.over) return
    const { needsFresh = false } = exchange
    const connection = needsFresh ? null : this.#takeIdle()
    const mayWait = !needsFresh && this.#waiting.length < this.#resting.length
    if (connection !== null) connection.send(exchange)
    else if (mayWait || this.#open.size + this.#dialling >= CONNECTIONS_MAX) this.#waiting.push(exchange)
    else this.#connect(exchange)
  }

  onIdle(connection: Connection): void {
    connection.holdProcess(false)
    connection.idleSinceMs = this.deadlines.clock.now()
    this.#resting.push(connection)
    this.#connections.sweepLater()
    this.#connections.handOut(this)
  }

  onClosed(connection: Connection): void {
    this.#open.delete(connection)
    remove(this.#idle, connection)
    remove(this.#resting, connection)
    if (this.#waiting.length > 0) this.#connections.handOut(this)
  }

  /** Closes what has been idle for too long. @returns how many are still idle */
  sweep(nowMs: number): number {
    for (const connection of [...this.#idle, ...this.#resting])
      if (isStale(connection, nowMs)) connection.close()
    return this.#idle.length + this.#resting.length
  }

  close(reason: Error): void {
    this.#closed = reason
    const waiting = this.#waiting
    this.#waiting = []
    for (const exchange of waiting) if (!exchange.over) exchange.onBroken(reason)
    for (const connection of this.#open) connection.end(reason)
  }

  #takeIdle(): Connection | null {
    for (;;) {
      const connection = this.#idle.pop()
      if (connection === undefined) return null
      if (isStale(connection, this.deadlines.clock.now())) {
        connection.close()
        continue
      }
      connection.holdProcess(true)
      return connection
    }
  }

  #connect(exchange: WaitingExchange): void {
    if (this.#findDial === null) {
      this.#send(exchange, this.#dial)
      return
    }
    this.#dialling += 1
    this.#findDial().then(
      (dial) => {
        this.#dialling -= 1
        if (!exchange.over && this.#closed === null) return this.#send(exchange, dial)
        dial(UNREAD).socket.destroy()
        if (!exchange.over) exchange.onBroken(this.#closed!)
      },
      (cause: Error) => {
        this.#dialling -= 1
        if (!exchange.over) exchange.onBroken(cause)
      },
    )
  }

  #send(exchange: WaitingExchange, dial: Dial): void {
    const connection = new Connection(this, dial)
    this.#open.add(connection)
    connection.send(exchange)
  }
}

function remove(connections: Connection[], connection: Connection): void {
  const at = connections.indexOf(connection)
  if (at !== -1) connections.splice(at, 1)
}

/** The server may be about to close it. */
function isStale({ idleSinceMs, keepAliveMs }: Connection, nowMs: number): boolean {
  const limitMs =
    keepAliveMs === null ? KEEP_ALIVE_MS : Math.min(keepAliveMs - KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MS_MAX)
  return nowMs - idleSinceMs >= limitMs
}

/** For a connection that nothing is read from. */
const UNREAD: ReadInto = { buffer: new Uint8Array(1), callback: () => false }

/** Dials, for TLS also over a socket that is open already. */
type DialOver = (onread: ReadInto, over?: Socket) => ReturnType<Dial>

/** Dials as the environment of the process says: its resolver, its certificates. */
function dialOf(protocol: string, target: Target): DialOver {
  const to = { ...target, ...TO_HOST }
  const noted = <One extends Socket>(socket: One) => socket.on('connectionAttemptTimeout', noteSilent)
  if (protocol !== 'https:')
    return (onread) => ({ socket: noted(connect({ ...to, onread })), event: 'connect' })
  let session: Buffer | undefined
  return (onread, socket) => {
    const options = { ...to, ...secureOptions(target), onread, session }
    const secured = connectTls(socket === undefined ? options : { ...options, socket })
    noted(secured).on('session', (given) => {
      session = given
    })
    if (socket !== undefined) secured.on('data', (bytes) => takeOver(onread, bytes) || secured.pause())
    return { socket: secured, event: 'secureConnect' }
  }
}

/** Does what Node leaves out where TLS begins on a socket that is open. It hands over 16 KiB at most. */
function takeOver({ buffer, callback }: ReadInto, bytes: Buffer): boolean {
  buffer.set(bytes)
  return callback(bytes.length, buffer)
}

function dialLoopback(port: number): Dial {
  return (onread) => ({ socket: connect({ host: '127.0.0.1', port, onread }), event: 'connect' })
}
