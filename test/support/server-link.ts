import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Teardown } from './scratch.ts'

/** A line to a server of this machine that a test makes longer, and cuts. */
export interface ServerLink {
  /** `127.0.0.1:<port>` */
  readonly host: string
  /** How long bytes are under way, in each direction. */
  delayMs: number
  /** Breaks all connections, and refuses others. */
  cut(): Promise<void>
  /** Takes connections again, on the same port. */
  mend(): Promise<void>
  /** Connections stay open, also new ones, and nothing of them comes through: a process that is stopped. */
  freeze(): void
  thaw(): void
}

/** Leads to a server until the test ends. */
export async function startServerLink(t: Teardown, serverPort: number): Promise<ServerLink> {
  const sockets = new Set<Socket>()
  const link = { delayMs: 0 }
  let isFrozen = false
  const pass = (from: Socket, to: Socket) => {
    // Bytes stay in order: what is under way is handed on first come, first served, also when the delay shrinks.
    let dueMs = 0
    from.on('data', (bytes) => {
      dueMs = Math.max(dueMs, performance.now() + link.delayMs)
      const send = () => to.writable && to.write(bytes)
      if (dueMs <= performance.now()) send()
      else setTimeout(send, dueMs - performance.now())
    })
    from.on('error', () => {})
    from.on('close', () => to.destroy())
  }
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: serverPort, host: '127.0.0.1', noDelay: true })
    for (const socket of [client, upstream]) sockets.add(socket.on('close', () => sockets.delete(socket)))
    pass(client, upstream)
    pass(upstream, client)
    if (isFrozen) for (const socket of [client, upstream]) socket.pause()
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  const freeze = () => {
    isFrozen = true
    for (const socket of sockets) socket.pause()
  }
  const thaw = () => {
    isFrozen = false
    for (const socket of sockets) socket.resume()
  }
  const cut = async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await listen(0)
  const { port } = server.address() as AddressInfo
  t.teardown(async () => {
    if (server.listening) await cut()
  })
  return Object.assign(link, { host: `127.0.0.1:${port}`, cut, mend: () => listen(port), freeze, thaw })
}
