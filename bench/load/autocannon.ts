import { createRequire } from 'node:module'
import { type RequestSpec, renderBody, requestHeaders } from './request.ts'
import type { RequestReport, RequestTask } from './requests.ts'
import { Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** The part of autocannon's interface that is used; the package brings no types. */
type Autocannon = (options: {
  url: string
  connections: number
  pipelining: 1
  duration: number
  method: RequestSpec['method']
  body?: Buffer
  setupClient: (client: { setHeaders(headers: Record<string, string>): void }) => void
}) => {
  on(event: 'response', listener: (client: unknown, status: number, bytes: number, ms: number) => void): void
  then(done: (result: AutocannonResult) => void, failed: (error: Error) => void): void
}

interface AutocannonResult {
  readonly non2xx: number
  readonly errors: number
  readonly timeouts: number
  readonly duration: number
}

const autocannon = createRequire(import.meta.url)('autocannon') as Autocannon

answerTasks(runAutocannon)

/** The same task as `requests.ts`, by a generator that others know. Pipelining stays 1: uWebSockets.js has none. */
async function runAutocannon(task: RequestTask): Promise<RequestReport> {
  const latencies = new Samples()
  const { type, body } = renderBody(task.request.body)
  let connection = 0
  const run = autocannon({
    url: `http://127.0.0.1:${task.port}${task.request.path}`,
    connections: task.connections,
    pipelining: 1,
    duration: task.seconds,
    method: task.request.method,
    ...(body && { body }),
    setupClient: (client) => {
      const headers = requestHeaders(task.request, connection++)
      client.setHeaders(body ? { ...headers, 'content-type': type } : headers)
    },
  })
  const failed = { count: 0, first: null as string | null }
  run.on('response', (_client, status, _bytes, ms) => {
    if (status === 200) return latencies.add(ms)
    failed.count += 1
    failed.first ??= `status ${status}`
  })
  const result = await run
  const lost = result.errors + result.timeouts
  if (lost > 0) failed.first ??= `${result.errors} connection errors, ${result.timeouts} timeouts`
  const latencyMs = latencies.quantiles()
  return {
    requests: latencyMs.count,
    seconds: result.duration,
    latencyMs,
    failures: failed.count + lost,
    firstFailure: failed.first,
  }
}
