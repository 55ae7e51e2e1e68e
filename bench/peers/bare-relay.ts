import { WebSocket } from 'ws'
import { loadUws } from '../load/uws.ts'

// The bound of every gateway for live audio on Node: uWebSockets.js in front, `ws` behind, each frame as it is.
// usage: node bench/peers/bare-relay.ts PORT UPSTREAM_PORT

const [port, upstreamPort] = process.argv.slice(2).map(Number)

interface Session {
  upstream: WebSocket | null
  /** Messages that came before the provider was there. */
  readonly waiting: string[]
}

const app = loadUws().App()
for (const path of ['/v1/listen', '/v1/realtime'])
  app.ws<Session>(path, {
    idleTimeout: 0,
    open(ws) {
      const session = ws.getUserData()
      const upstream = new WebSocket(`ws://127.0.0.1:${upstreamPort}${path}`, { perMessageDeflate: false })
      session.upstream = upstream
      upstream.on('open', () => {
        for (const text of session.waiting.splice(0)) upstream.send(text)
      })
      upstream.on('message', (data, isBinary) => ws.send(data as Buffer, isBinary))
      upstream.on('error', () => ws.close())
    },
    upgrade(response, request, context) {
      const [key, extensions] = [
        request.getHeader('sec-websocket-key'),
        request.getHeader('sec-websocket-extensions'),
      ]
      response.upgrade<Session>({ upstream: null, waiting: [] }, key, '', extensions, context)
    },
    message(ws, message, isBinary) {
      const { upstream, waiting } = ws.getUserData()
      if (upstream?.readyState !== WebSocket.OPEN) {
        if (!isBinary) waiting.push(Buffer.from(message).toString())
        return
      }
      // `ws` masks into memory of its own before it returns.
      upstream.send(isBinary ? Buffer.from(message) : Buffer.from(message).toString())
    },
    close(ws) {
      ws.getUserData().upstream?.close()
    },
  })
app
  .get('/*', (response) => void response.end('ok'))
  .listen('127.0.0.1', port ?? 0, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
  })
