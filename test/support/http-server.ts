import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import type { Test } from 'tap'

/** Listens on a free port of the loopback interface until the test ends. @returns the server's origin */
export async function listen(t: Pick<Test, 'teardown'>, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** An HTTP server of Node's own until the test ends. @returns its origin */
export async function serveHttp(t: Pick<Test, 'teardown'>, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  t.teardown(() => server.closeAllConnections())
  return listen(t, server)
}
