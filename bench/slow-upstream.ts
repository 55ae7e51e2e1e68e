import { createServer, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerTasks } from './load/task.ts'
import type { UpstreamReport, UpstreamTask } from './upstream.ts'
import { plainReply, verifyingReply } from './upstream-replies.ts'

// A provider that takes each body at a fixed rate. Apart from upstream.ts because a paused socket of node:http stops
// reading at once, which this one's pace depends on. usage: node bench/slow-upstream.ts PORT BYTES_PER_SECOND

const port = Number(process.argv[2])
const bytesPerSecond = Number(process.argv[3])
let verify = false
let requests = 0
let bodyBytes = 0

const server = createServer(async (request, response) => {
  try {
    const body = await receive(request)
    requests += 1
    const path = request.url ?? ''
    const reply = body ? verifyingReply(path, request.headers['content-type'] ?? '', body) : plainReply(path)
    response.writeHead(200, { 'content-type': reply.type, 'content-length': Buffer.byteLength(reply.body) })
    response.end(reply.body)
  } catch {
    response.destroy() // the gateway went away
  }
})
server.requestTimeout = 0
server.listen(port, '127.0.0.1', () => {
  answerTasks(async (task: UpstreamTask): Promise<UpstreamReport> => {
    const report = { requests, bodyBytes }
    verify = task.verify
    requests = 0
    bodyBytes = 0
    return report
  })
})

async function receive(request: IncomingMessage): Promise<Buffer | null> {
  const kept: Buffer[] | null = verify ? [] : null
  const started = performance.now()
  let received = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    received += chunk.length
    bodyBytes += chunk.length
    kept?.push(chunk)
    const aheadMs = (received / bytesPerSecond) * 1000 - (performance.now() - started)
    if (aheadMs > 5) await sleep(aheadMs)
  }
  return kept && Buffer.concat(kept)
}
