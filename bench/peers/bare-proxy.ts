import type { HttpResponse } from 'uWebSockets.js'
import { Agent } from 'undici'
import { loadUws } from '../load/uws.ts'

// The bound of every gateway on Node: uWebSockets.js in front, undici behind, and nothing between.
// usage: node bench/peers/bare-proxy.ts PORT UPSTREAM_PORT

const [port, upstreamPort] = process.argv.slice(2).map(Number)
const agent = new Agent({ connections: null, pipelining: 1 })

loadUws()
  .App()
  .post('/*', (response, request) => {
    const path = request.getUrl()
    const chunks: Buffer[] = []
    let left = false
    response.onAborted(() => {
      left = true
    })
    response.onData((chunk, last) => {
      chunks.push(Buffer.from(chunk.slice(0))) // the chunk is detached when this returns
      if (last) forward(path, Buffer.concat(chunks), (body) => left || answer(response, body))
    })
  })
  .get('/*', (response) => void response.end('ok'))
  .listen('127.0.0.1', port ?? 0, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
  })

function forward(path: string, body: Buffer, done: (body: Buffer) => void): void {
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
  const received: Buffer[] = []
  agent.dispatch(
    { origin: `http://127.0.0.1:${upstreamPort}`, path, method: 'POST', headers, body },
    {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData: (_controller, chunk) => void received.push(chunk),
      onResponseEnd: () => done(Buffer.concat(received)),
      onResponseError: () => done(Buffer.alloc(0)),
    },
  )
}

function answer(response: HttpResponse, body: Buffer): void {
  response.cork(() => response.writeHeader('content-type', 'application/json').end(body))
}
