import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from './connection.ts'
import type { Reply } from './reply.ts'
import { type RenderedRequest, type RequestSpec, renderRequest } from './request.ts'
import { type Quantiles, Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** Sends one prepared request over and over, each connection the next one when the last has been answered. */
export interface UploadTask {
  readonly port: number
  readonly request: RequestSpec
  readonly connections: number
  /** No request is started after that; those under way are finished. */
  readonly seconds: number
  /** Each connection sends at least that many. */
  readonly leastPerConnection: number
  /** Pace of each connection; null: as fast as the server takes it. */
  readonly bytesPerSecond: number | null
}

export interface UploadReport {
  readonly requests: number
  /** Raw bytes of the bodies of these requests. */
  readonly bodyBytes: number
  readonly seconds: number
  readonly latencyMs: Quantiles
  /** Requests that were not answered with 200, or not at all. */
  readonly failures: number
  readonly firstFailure: string | null
  /** The last answer, its body as latin1; for checks of its content. */
  readonly lastReply: { readonly status: number; readonly body: string } | null
}

const prepared = new Map<string, RenderedRequest>()
/** As many servers as take the same upload in turns. */
const PREPARED_MAX = 4

answerTasks(runUploads)

async function runUploads(task: UploadTask): Promise<UploadReport> {
  const request = prepare(task)
  const started = performance.now()
  const deadline = started + task.seconds * 1000
  const latencies = new Samples()
  let failures = 0
  let firstFailure: string | null = null
  let lastReply: Reply | null = null

  // Independent senders do not begin in the same moment: paced ones are spread over the time that one body takes.
  const bodyMs = task.bytesPerSecond === null ? 0 : (request.bytes.length / task.bytesPerSecond) * 1000
  const loop = async (index: number) => {
    await sleep((bodyMs * index) / task.connections)
    const connection = new Connection(task.port)
    for (let sent = 0; sent < task.leastPerConnection || performance.now() < deadline; sent += 1) {
      const begun = performance.now()
      try {
        lastReply = await connection.exchange(request.bytes, task.bytesPerSecond)
        if (lastReply.status !== 200)
          throw new Error(`${lastReply.status} ${lastReply.body.toString('latin1', 0, 300)}`)
        latencies.add(performance.now() - begun)
      } catch (error) {
        failures += 1
        firstFailure ??= error instanceof Error ? error.message : String(error)
        connection.drop()
        await sleep(20)
      }
    }
    connection.drop()
  }
  await Promise.all(Array.from({ length: task.connections }, (_, index) => loop(index)))

  const latencyMs = latencies.quantiles()
  const reply = lastReply as Reply | null
  return {
    requests: latencyMs.count,
    bodyBytes: latencyMs.count * request.bodyBytes,
    seconds: (performance.now() - started) / 1000,
    latencyMs,
    failures,
    firstFailure,
    lastReply: reply && { status: reply.status, body: reply.body.toString('latin1') },
  }
}

/** Rendering 33 MB of JSON takes longer than sending it: the last requests are kept. */
function prepare({ request, port }: UploadTask): RenderedRequest {
  const key = JSON.stringify([request, port])
  const rendered = prepared.get(key) ?? renderRequest(request, port)
  prepared.delete(key)
  prepared.set(key, rendered)
  for (const oldest of prepared.keys()) if (prepared.size > PREPARED_MAX) prepared.delete(oldest)
  return rendered
}
