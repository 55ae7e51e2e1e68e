import { once } from 'node:events'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls'
import type { Test } from 'tap'
import type { Dial } from '../../src/gateway/outbound/connect-address.ts'

type Teardown = Pick<Test, 'teardown'>

/** What a host does with a request, on the bare connection: it may well answer what no HTTP server would. */
export type Answering = (socket: TLSSocket, head: string, index: number) => void

export interface TlsHost {
  readonly port: number
  /** Heads of the requests, as received. */
  readonly requests: string[]
  /** TCP connections so far, and those still open. */
  readonly connections: Connections
}

interface Connections {
  made: number
  open: number
  /** Breaks all that are open, with a TCP reset. */
  reset(): void
}

/** An HTTPS host on the loopback interface until the test ends. */
export async function serveTls(
  t: Teardown,
  options: TlsOptions,
  answer: Answering,
  address = '127.0.0.1',
): Promise<TlsHost> {
  const requests: string[] = []
  const server = createServer(options, (socket) => {
    let head = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const before = head.includes('\r\n\r\n')
      head += chunk.toString('latin1')
      if (before || !head.includes('\r\n\r\n')) return
      requests.push(head)
      answer(socket, head, requests.length - 1)
    })
  })
  server.on('tlsClientError', () => {})
  const { port, connections } = await listenTcp(t, server, address)
  return { port, requests, connections }
}

/** A TCP server on the loopback interface until the test ends, that hears everything and says nothing. */
export async function serveTcp(t: Teardown, address = '127.0.0.1') {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    // Unread, it would not notice its end.
    socket.resume()
  })
  return listenTcp(t, server, address)
}

async function listenTcp(t: Teardown, server: ReturnType<typeof createTcpServer>, address: string) {
  const sockets = new Set<Socket>()
  const connections: Connections = {
    made: 0,
    open: 0,
    reset() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
  }
  server.on('connection', (socket: Socket) => {
    connections.made++
    connections.open++
    sockets.add(socket)
    socket.on('close', () => {
      connections.open--
      sockets.delete(socket)
    })
  })
  server.listen(0, address)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (server.address() as AddressInfo).port, connections }
}

/** Where the addresses of the internet lie in the test. */
export type Internet = Record<string, { readonly port: number; readonly host?: string }>

/**
 * Dials servers of the test under addresses of the internet; any other address is refused by its kernel.
 *
 * @returns the dial, and what it was asked for so far
 */
export function dialInto(internet: Internet): { dial: Dial; dialled: string[] } {
  const dialled: string[] = []
  const dial: Dial = (address, port) => {
    dialled.push(`${address} ${port}`)
    // Nothing listens on port 1.
    const place = internet[address] ?? { port: 1 }
    return connect({ host: place.host ?? '127.0.0.1', port: place.port })
  }
  return { dial, dialled }
}
