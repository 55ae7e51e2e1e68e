import { Connection } from './connection.ts'
import { type RequestSpec, renderRequest, requestHeaders } from './request.ts'
import { type Quantiles, Samples } from './samples.ts'
import { answerTasks } from './task.ts'

/** Submits jobs over keep-alive connections, or waits until those that were submitted last have ended. */
export type JobsTask =
  | {
      readonly do: 'submit'
      readonly port: number
      readonly request: RequestSpec
      readonly connections: number
      /** Jobs in all. */
      readonly count: number
    }
  | {
      readonly do: 'await'
      readonly port: number
      /** Looks at the last so many of them alone. */
      readonly last: number
    }

export interface JobsReport {
  /** Jobs that were accepted, or that have succeeded. */
  readonly requests: number
  readonly bodyBytes: number
  readonly latencyMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
  /** The last job that was looked at, as JSON; empty for submissions. */
  readonly lastJob: string
}

interface Submitted {
  readonly id: string
  readonly headers: Readonly<Record<string, string>>
}

/** Jobs that are looked after at a time. */
const WATCHED = 16
/** Seconds that the server may hold an answer; most that it takes. */
const WAIT_SECONDS = 30
/** Nothing that is measured takes that long. */
const AWAIT_MS = 120_000

let submitted: Submitted[] = []

answerTasks((task: JobsTask) => (task.do === 'submit' ? submit(task) : awaitEnd(task)))

async function submit({
  port,
  request,
  connections,
  count,
}: JobsTask & { do: 'submit' }): Promise<JobsReport> {
  const tally = new Tally()
  let bodyBytes = 0
  let begun = 0
  submitted = []
  await overConnections(port, connections, async (connection, index) => {
    const rendered = renderRequest(request, port, index)
    const headers = requestHeaders(request, index)
    while (begun < count) {
      begun += 1
      await tally.attempt(async () => {
        const { status, body } = await connection.exchange(rendered.bytes, null)
        if (status !== 202) throw new Error(`${status} ${body.toString('latin1', 0, 300)}`)
        submitted.push({ id: (JSON.parse(body.toString()) as { job_id: string }).job_id, headers })
        bodyBytes += rendered.bodyBytes
      })
    }
  })
  return { ...tally.report(), bodyBytes, lastJob: '' }
}

async function awaitEnd({ port, last }: JobsTask & { do: 'await' }): Promise<JobsReport> {
  const tally = new Tally()
  const watched = submitted.slice(-last)
  const deadline = performance.now() + AWAIT_MS
  let lastJob = ''
  let next = 0
  await overConnections(port, Math.min(WATCHED, watched.length), async (connection) => {
    while (next < watched.length) {
      const job = watched[next++]!
      await tally.attempt(async () => {
        lastJob = await endOf(job, port, connection, deadline)
      })
    }
  })
  return { ...tally.report(), bodyBytes: 0, lastJob }
}

/** The job as JSON, once it has succeeded. */
async function endOf(
  { id, headers }: Submitted,
  port: number,
  connection: Connection,
  deadline: number,
): Promise<string> {
  const path = `/v1/transcription/jobs/${id}?wait=${WAIT_SECONDS}`
  const { bytes } = renderRequest({ method: 'GET', path, headers, body: null }, port)
  while (performance.now() < deadline) {
    const { status, body } = await connection.exchange(bytes, null)
    const text = body.toString()
    if (status !== 200) throw new Error(`${status} ${text.slice(0, 300)}`)
    const job = JSON.parse(text) as { status: string }
    if (job.status === 'succeeded') return text
    if (job.status !== 'queued' && job.status !== 'processing') throw new Error(text.slice(0, 300))
  }
  throw new Error(`${id} has not ended`)
}

async function overConnections(
  port: number,
  count: number,
  act: (connection: Connection, index: number) => Promise<void>,
): Promise<void> {
  const line = async (index: number) => {
    const connection = new Connection(port)
    await act(connection, index)
    connection.drop()
  }
  await Promise.all(Array.from({ length: count }, (_, index) => line(index)))
}

class Tally {
  readonly #latencies = new Samples()
  #failures = 0
  #firstFailure: string | null = null

  async attempt(act: () => Promise<void>): Promise<void> {
    const begunMs = performance.now()
    try {
      await act()
      this.#latencies.add(performance.now() - begunMs)
    } catch (error) {
      this.#failures += 1
      this.#firstFailure ??= error instanceof Error ? error.message : String(error)
    }
  }

  report() {
    const latencyMs = this.#latencies.quantiles()
    return {
      requests: latencyMs.count,
      latencyMs,
      failures: this.#failures,
      firstFailure: this.#firstFailure,
    }
  }
}
