import { registerHooks } from 'node:module'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'

/**
 * A process that answers handshakes with one build of uWebSockets.js, and sends back every message. It prints its port,
 * and ends with its standard input.
 */
export interface UpgradeOrder {
  /** Package of the build. */
  readonly build: string
  /** `edge`: the gateway's own. `late`: uWS by itself, which upgrades in a later turn than that of the request. */
  readonly server: 'edge' | 'late'
}

export const ECHO_PATH = '/echo'

const echo: EdgeRoute = {
  method: 'GET',
  path: ECHO_PATH,
  socket: { maxMessageBytes: 1024 },
  handle(exchange) {
    let answer = (_: Uint8Array) => {}
    const listener = {
      onOpen(socket: { send(message: string): boolean }) {
        answer = (message) => void socket.send(Buffer.from(message).toString())
      },
      onMessage: (message: Uint8Array) => answer(message),
      onClose() {},
      onStopping() {},
    }
    exchange.upgrade({ status: 101, protocol: null, listener })
  },
}

if (import.meta.main) {
  const { build, server } = JSON.parse(process.argv[2] ?? '') as UpgradeOrder
  registerHooks({
    resolve: (specifier, context, next) =>
      next(specifier.startsWith('uWebSockets.js') ? build : specifier, context),
  })
  process.stdin.on('end', () => process.exit(0)).resume()
  console.log(server === 'edge' ? await serveEdge() : await serveLate())
}

async function serveEdge(): Promise<number> {
  const { startEdge } = await import('../../support/edge.ts')
  const { port } = await startEdge({ teardown() {} }, [echo])
  return port
}

/** As uWS's own example of an asynchronous upgrade has it. */
async function serveLate(): Promise<number> {
  const { loadUws } = await import('../../../src/gateway/edge/uws.ts')
  const { uws } = loadUws()
  return await new Promise((resolve) => {
    uws
      .App()
      .ws(ECHO_PATH, {
        upgrade(res, request, context) {
          const key = request.getHeader('sec-websocket-key')
          let isAborted = false
          res.onAborted(() => {
            isAborted = true
          })
          setImmediate(() => isAborted || res.cork(() => res.upgrade({}, key, '', '', context)))
        },
        message: (ws, message, isBinary) => void ws.send(message, isBinary),
      })
      .listen('127.0.0.1', 0, (socket) => resolve(socket ? uws.us_socket_local_port(socket) : 0))
  })
}
