import { connect, type Socket } from 'node:net'
import { type RequestSpec, renderRequest } from './request.ts'
import { type Quantiles, Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** A closed loop of small requests over keep-alive connections, one at a time on each. */
export interface RequestTask {
  readonly port: number
  readonly request: RequestSpec
  readonly connections: number
  readonly seconds: number
}

export interface RequestReport {
  readonly requests: number
  readonly seconds: number
  readonly latencyMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
}

const OK = Buffer.from('HTTP/1.1 200')
const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = /content-length: *(\d+)/i

answerTasks(runRequests)

async function runRequests(task: RequestTask): Promise<RequestReport> {
  const latencies = new Samples()
  const started = performance.now()
  const deadline = started + task.seconds * 1000
  let failures = 0
  let firstFailure: string | null = null
  const fail = (reason: string) => {
    failures += 1
    firstFailure ??= reason
  }
  await Promise.all(
    Array.from({ length: task.connections }, (_, connection) => {
      const request = renderRequest(task.request, task.port, connection).bytes
      return loop(task.port, request, deadline, latencies, fail)
    }),
  )
  const seconds = (performance.now() - started) / 1000
  return {
    requests: latencies.quantiles().count,
    seconds,
    latencyMs: latencies.quantiles(),
    failures,
    firstFailure,
  }
}

/**
 * One connection until the deadline. Written for few microseconds per request, so that the server saturates first:
 * one reused read buffer, and an answer that came in one piece is only measured, not parsed.
 */
function loop(
  port: number,
  request: Buffer,
  deadline: number,
  latencies: Samples,
  fail: (reason: string) => void,
): Promise<void> {
  return new Promise((done) => {
    let begun = performance.now()
    let pending: Buffer | null = null
    const socket: Socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafeSlow(64 * 1024),
        callback: (bytes, buffer) => {
          const arrived = (buffer as Buffer).subarray(0, bytes)
          const reply: Buffer = pending ? Buffer.concat([pending, arrived]) : arrived
          const missing = missingBytes(reply)
          if (missing > 0) {
            pending = Buffer.from(reply)
            return true
          }
          pending = null
          const now = performance.now()
          if (missing < 0 || reply.compare(OK, 0, OK.length, 0, OK.length) !== 0)
            fail(reply.toString('latin1', 0, 300))
          else latencies.add(now - begun)
          if (now >= deadline) {
            socket.destroy()
            return false
          }
          begun = now
          socket.write(request)
          return true
        },
      },
    })
    socket.on('connect', () => {
      begun = performance.now()
      socket.write(request)
    })
    socket.on('error', (error) => fail(error.message))
    socket.on('close', () => {
      if (performance.now() < deadline) fail('the server closed the connection')
      done()
    })
  })
}

/** 0 when the answer is whole, above when more must come, below when it is too long or has no length. */
function missingBytes(reply: Buffer): number {
  const headEnd = reply.indexOf(HEAD_END)
  if (headEnd < 0) return 1
  const length = LENGTH.exec(reply.toString('latin1', 0, headEnd))
  if (!length) return -1
  return headEnd + HEAD_END.length + Number(length[1]) - reply.length
}
