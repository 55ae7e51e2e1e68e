import { loadUws } from '../load/uws.ts'

// uWebSockets.js with nothing around it: what a small answer costs at the least.
// usage: node bench/peers/bare-uws.ts PORT

const port = Number(process.argv[2])

loadUws()
  .App()
  .get('/*', (response) => {
    response.writeHeader('content-type', 'application/json')
    response.end('{"status":"ok"}')
  })
  .listen('127.0.0.1', port, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
  })
