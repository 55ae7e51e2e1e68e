import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import { answerTasks } from './load/task.ts'
import { loadUws } from './load/uws.ts'
import { plainReply, type UpstreamReply, verifyingReply } from './upstream-replies.ts'

// The stand-in for a provider: takes uploads as cheaply as this machine can, and answers as OpenAI does.
// usage: node bench/upstream.ts PORT

export interface UpstreamTask {
  /** Keep each body and answer with its audio's digest, from now on; or only count. */
  readonly verify: boolean
  /** Leave requests without an answer, until a task without this. */
  readonly hold?: boolean
}

export interface UpstreamReport {
  /** Requests answered since the last task. */
  readonly requests: number
  readonly bodyBytes: number
}

const port = Number(process.argv[2])
let verify = false
let hold = false
const held: (() => void)[] = []
let requests = 0
let bodyBytes = 0

loadUws()
  .App()
  .post('/*', receive)
  .get('/*', (response) => void response.end('ok'))
  .listen('127.0.0.1', port, (socket) => {
    if (!socket) throw new Error(`port ${port} is taken`)
    answerTasks(async (task: UpstreamTask): Promise<UpstreamReport> => {
      const report = { requests, bodyBytes }
      verify = task.verify
      hold = task.hold === true
      requests = 0
      bodyBytes = 0
      if (!hold) for (const act of held.splice(0)) act()
      return report
    })
  })

function receive(response: HttpResponse, request: HttpRequest): void {
  const path = request.getUrl()
  const contentType = request.getHeader('content-type')
  const kept: Buffer[] | null = verify ? [] : null
  let aborted = false
  response.onAborted(() => {
    aborted = true
  })
  response.onData((chunk, isLast) => {
    bodyBytes += chunk.byteLength
    kept?.push(Buffer.from(chunk.slice(0))) // the chunk is detached when this returns
    if (!isLast || aborted) return
    const reply = kept ? verifyingReply(path, contentType, Buffer.concat(kept)) : plainReply(path)
    const act = () => {
      if (aborted) return
      requests += 1
      answer(response, reply)
    }
    if (hold) held.push(act)
    else act()
  })
}

function answer(response: HttpResponse, reply: UpstreamReply): void {
  response.cork(() => response.writeHeader('content-type', reply.type).end(reply.body))
}
