import { loadUws } from '../load/uws.ts'

// uWebSockets.js with nothing around it: what a small answer costs at the least, and what its bytes do. usage: node
// bench/peers/bare-uws.ts PORT   GET /bytes/N   answers with so many bytes   POST /bytes/N  the same once the body is
// here   GET /          a small answer

const port = Number(process.argv[2])

/** By how many bytes they have. */
const answers = new Map<number, Buffer>()

function answerOf(bytes: number): Buffer {
  const known = answers.get(bytes)
  if (known !== undefined) return known
  const made = Buffer.alloc(bytes, ' ')
  answers.set(bytes, made)
  return made
}

loadUws()
  .App()
  .get('/*', (response) => {
    response.writeHeader('content-type', 'application/json')
    response.end('{"status":"ok"}')
  })
  .get('/bytes/:count', (response, request) => {
    const answer = answerOf(Number(request.getParameter(0)))
    response.writeHeader('content-type', 'application/json')
    response.end(answer)
  })
  .post('/bytes/:count', (response, request) => {
    const answer = answerOf(Number(request.getParameter(0)))
    let isGone = false
    response.onAborted(() => {
      isGone = true
    })
    response.onData((_, last) => {
      if (!last || isGone) return
      response.cork(() => {
        response.writeHeader('content-type', 'audio/wav')
        response.end(answer)
      })
    })
  })
  .listen('127.0.0.1', port, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
  })
