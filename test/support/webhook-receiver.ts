import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { createAuthority } from './certificates.ts'

export const HOOKS_AUTHORITY = createAuthority()

/** A request as it came. */
export interface Delivery {
  readonly method: string
  readonly path: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** `performance.now()` when it was complete. */
  readonly atMs: number
}

/** What a target does with a delivery, on the bare connection: it may well answer what no HTTP server would. */
export type Behaviour = (line: Line, delivery: Delivery) => void

export interface Line {
  /** Of the connection; over TLS or bare. */
  readonly socket: Socket
  /** Breaks the connection with a TCP reset. */
  reset(): void
}

export interface Receiver {
  readonly port: number
  readonly received: Delivery[]
  /** Connections so far, and those still open. */
  readonly connections: { made: number; open: number }
}

export interface ReceiverOptions {
  /** Names in its certificate, which the authority of the tests signs; null: plain HTTP. */
  readonly names?: readonly string[] | null
  readonly certificate?: { readonly cert: string; readonly key: string }
  readonly address?: string
}

/** A target of webhooks on the loopback interface until the test ends. */
export async function startReceiver(
  t: Pick<Test, 'teardown'>,
  behave: Behaviour,
  { names = ['hooks.example'], certificate, address = '127.0.0.1' }: ReceiverOptions = {},
): Promise<Receiver> {
  const context =
    names === null ? null : createSecureContext(certificate ?? HOOKS_AUTHORITY.issue([...names]))
  const receiver = { port: 0, received: [] as Delivery[], connections: { made: 0, open: 0 } }
  const raws = new Set<Socket>()
  const server = createServer((raw) => {
    receiver.connections.made += 1
    receiver.connections.open += 1
    raws.add(raw)
    raw.on('error', () => {})
    raw.on('close', () => {
      receiver.connections.open -= 1
      raws.delete(raw)
    })
    const socket = context === null ? raw : new TLSSocket(raw, { isServer: true, secureContext: context })
    socket.on('error', () => raw.destroy())
    let text = ''
    let taken = false
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const delivery = taken ? null : deliveryIn(text)
      if (delivery === null) return
      taken = true
      receiver.received.push(delivery)
      behave({ socket, reset: () => raw.resetAndDestroy() }, delivery)
    })
  })
  server.listen(0, address)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const raw of raws) raw.destroy()
  })
  receiver.port = (server.address() as AddressInfo).port
  return receiver
}

function deliveryIn(text: string): Delivery | null {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [first = '', ...lines] = text.slice(0, end).split('\r\n')
  const [method = '', path = ''] = first.split(' ')
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const body = text.slice(end + 4)
  if (body.length < Number(headers['content-length'] ?? 0)) return null
  return { method, path, headers, body, atMs: performance.now() }
}

/** Answers with a status, as HTTP servers do. */
export const answering =
  (status: number, ...lines: string[]): Behaviour =>
  ({ socket }) => {
    socket.end([`HTTP/1.1 ${status} Any`, 'Content-Length: 2', ...lines, '', 'ok'].join('\r\n'))
  }

/** Sends these bytes and closes the connection. */
export const sending =
  (text: string): Behaviour =>
  ({ socket }) =>
    void socket.end(text, 'latin1')

export const hanging: Behaviour = () => {}

export const resetting: Behaviour = (line) => line.reset()

/** A good answer, one byte at a time. */
export const dripping =
  (everyMs: number): Behaviour =>
  ({ socket }) => {
    const text = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    let at = 0
    const timer = setInterval(() => {
      if (at === text.length) clearInterval(timer)
      else socket.write(text.charAt(at++))
    }, everyMs)
    socket.on('close', () => clearInterval(timer))
  }

/** A good head, and a body that never ends; `sent` counts what went into the socket. */
export function endless(sent: { bytes: number }): Behaviour {
  const block = Buffer.alloc(64 * 1024, 'x')
  return ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n')
    const fill = () => {
      while (!socket.destroyed) {
        sent.bytes += block.length
        if (!socket.write(block)) break
      }
    }
    socket.on('drain', fill)
    fill()
  }
}
