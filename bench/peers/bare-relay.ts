import { WebSocket } from 'ws'
import { loadUws } from '../load/uws.ts'

// What no gateway for live audio on Node can be faster than: uWebSockets.js in front, `ws` behind, each frame as it is.
// usage: node bench/peers/bare-relay.ts PORT UPSTREAM_PORT

const [port, upstreamPort] = process.argv.slice(2).map(Number)

interface Session {
  upstream: WebSocket | null
}

loadUws()
  .App()
  .ws<Session>('/v1/listen', {
    idleTimeout: 0,
    open(ws) {
      const upstream = new WebSocket(`ws://127.0.0.1:${upstreamPort}/v1/listen`, { perMessageDeflate: false })
      ws.getUserData().upstream = upstream
      upstream.on('message', (data, isBinary) => ws.send(data as Buffer, isBinary))
      upstream.on('error', () => ws.close())
    },
    upgrade(response, request, context) {
      const [key, extensions] = [
        request.getHeader('sec-websocket-key'),
        request.getHeader('sec-websocket-extensions'),
      ]
      response.upgrade<Session>({ upstream: null }, key, '', extensions, context)
    },
    message(ws, message, isBinary) {
      const { upstream } = ws.getUserData()
      if (upstream?.readyState !== WebSocket.OPEN) return
      // `ws` masks into memory of its own before it returns.
      upstream.send(isBinary ? Buffer.from(message) : Buffer.from(message).toString())
    },
    close(ws) {
      ws.getUserData().upstream?.close()
    },
  })
  .get('/*', (response) => void response.end('ok'))
  .listen('127.0.0.1', port ?? 0, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
  })
