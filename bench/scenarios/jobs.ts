import { type Candidate, type Found, larkway, storeItself } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import type { Run } from '../harness/result.ts'
import { JOBS_ENVIRONMENT, larkwayJob, larkwayJobsConfiguration, larkwayWebhooks } from '../larkway-jobs.ts'
import type { JobsReport, JobsTask } from '../load/jobs.ts'
import { makeAudio, sha256 } from '../load/request.ts'
import type { WebhooksReport, WebhooksTask } from '../load/webhooks.ts'
import type { PutsReport, PutsTask } from '../peers/store-puts.ts'
import { overRedis, startRedis } from '../redis.ts'
import { ONCE, type Scenario, sort, upload } from './scenario.ts'

/** Submissions under way; Larkway puts as many objects at a time. */
const CONNECTIONS = 64
const BUDGET_MIB = 256
/** Jobs of a run, by the size of the audio: seconds of work, and little enough for a store in memory. */
const SIZES = [
  { label: '8 KiB', bytes: 8 * 1024, count: 4_000 },
  { label: '200 KiB', bytes: 200 * 1024, count: 2_000 },
]
const WARM_UP = 300
/** The jobs submitted last: when they have ended, all others have, but for some that run. */
const LAST = 256
/** Jobs end faster. */
const DELIVERED_MS = 120_000

export const SUBMITTED = 'submitted'

export interface Size {
  readonly label: string
  readonly bytes: number
  readonly count: number
}

/**
 * How many jobs a node takes, runs and tells of per second, beside how many objects its store takes. While they are
 * submitted the provider holds its answers, so that nothing else is measured; from then on it answers at once.
 */
export const jobs: Scenario = {
  name: 'jobs',
  title: 'Durable transcription jobs',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick, s3 }) {
    const own = (name: string, label: string, store = s3) =>
      larkway({
        name: `larkway-${name}`,
        label: `Larkway, ${label}`,
        memoryMib: BUDGET_MIB,
        s3: store,
        configuration: larkwayJobsConfiguration,
        env: JOBS_ENVIRONMENT,
      })
    const missing = (name: string): Found => ({
      name,
      reason: 'no S3 store: --s3 starts one, or set S3_ENDPOINT and the variables beside it',
    })
    const shared = async () => overRedis(own('redis-s3', 'Redis and S3'), await startRedis({ durable: true }))
    const { found, skipped } = await sort<string>([
      [storeItself('store-folder', 'the folder by itself', null), 'embedded'],
      [own('embedded', 'embedded', null), 'embedded'],
      [s3 ? storeItself('store-s3', 'the S3 store by itself', s3) : missing('store-s3'), 'Redis and S3'],
      [s3 ? shared() : missing('larkway-redis-s3'), 'Redis and S3'],
    ])
    const trials = SIZES.flatMap((size) =>
      found.flatMap(([candidate, stack]) =>
        trialsOf(candidate, stack, { ...size, count: quick ? size.count / 10 : size.count }),
      ),
    )
    return { trials, skipped }
  },
}

function trialsOf(candidate: Candidate, stack: string, size: Size): Trial[] {
  const load = (what: string) => `${size.label}, ${stack}: ${what}`
  if (candidate.name.startsWith('store')) return [storeTrial(candidate, load(SUBMITTED), size)]
  const prepared = {
    candidate,
    verify: (session: Session) => verify(session, size.bytes),
    async warmUp(session: Session) {
      await submit(session, { ...size, count: WARM_UP })
      await awaitEnd(session, WARM_UP)
    },
  }
  return [
    { ...prepared, load: load(SUBMITTED), run: (session) => measureSubmitting(session, size) },
    { ...prepared, load: load('succeeded'), run: (session) => measureRunning(session, size) },
    { ...prepared, load: load('webhooks'), run: (session) => measureDelivering(session, size) },
  ]
}

/** Jobs from their submission to the end of the last, with a provider that answers at once. */
export function wholeTrial(candidate: Candidate, load: string, size: Size): Trial {
  return {
    candidate,
    load,
    verify: (session) => verify(session, size.bytes),
    async warmUp(session) {
      await submit(session, size)
      await awaitEnd(session, size.count)
    },
    async run(session) {
      const run = await session.measure(async () => {
        const { failures, firstFailure } = await submit(session, size)
        await awaitEnd(session, LAST)
        return { ...drivenOf(size), failures, firstFailure }
      })
      return await checked(session, run, size)
    },
  }
}

export function storeTrial(candidate: Candidate, load: string, { bytes, count }: Size): Trial {
  const put = async (session: Session, count: number): Promise<Driven> => {
    const value: PutsTask = { bytes, count, connections: CONNECTIONS }
    const request = { method: 'POST', path: '/', headers: {}, body: { kind: 'json', value } } as const
    const { lastReply, firstFailure } = await upload(session, () => request, ONCE)
    if (lastReply?.status !== 200) throw new Error(`the store: ${firstFailure}`)
    const { puts, latencyMs } = JSON.parse(lastReply.body) as PutsReport
    return { requests: puts, bodyBytes: puts * bytes, latencyMs, failures: 0, firstFailure: null }
  }
  return {
    candidate,
    load,
    // It reads back what it has put.
    verify: async (session) => void (await put(session, 1)),
    warmUp: async (session) => void (await put(session, WARM_UP)),
    run: (session) => session.measure(() => put(session, count)),
  }
}

/** @throws Error unless a job's transcript is the digest of its audio */
async function verify(session: Session, bytes: number): Promise<void> {
  await submit(session, { bytes, count: 1 })
  const { lastJob } = await awaitEnd(session, 1)
  const job = JSON.parse(lastJob) as { result?: { content?: unknown } }
  if (job.result?.content !== `sha256:${sha256(makeAudio(bytes))}`)
    throw new Error(`the upstream got other audio than was sent: ${lastJob.slice(0, 300)}`)
}

async function measureSubmitting(session: Session, size: Size): Promise<Run> {
  await session.lab.upstream({ verify: false, hold: true })
  const run = await session.measure(() => submit(session, size))
  await session.lab.upstream({ verify: false })
  return await checked(session, run, size)
}

/** From the moment at which the provider answers until the jobs have ended. */
async function measureRunning(session: Session, size: Size): Promise<Run> {
  await queue(session, size)
  const run = await session.measure(async () => {
    await session.lab.upstream({ verify: false })
    await awaitEnd(session, LAST)
    return { ...drivenOf(size), failures: 0, firstFailure: null }
  })
  return await checked(session, run, size)
}

/** From the moment at which the provider answers until the workspaces have been told of all jobs. */
async function measureDelivering(session: Session, size: Size): Promise<Run> {
  await setWebhooks(session)
  await queue(session, size)
  const run = await session.measure(async () => {
    await session.lab.upstream({ verify: false })
    const { jobs } = await webhooks(session, { do: 'await', jobs: size.count, withinMs: DELIVERED_MS })
    const lost = size.count - jobs
    return { ...drivenOf(size), failures: lost, firstFailure: lost > 0 ? 'no webhook arrived' : null }
  })
  return await checked(session, run, size)
}

/** Whoever waits for jobs to end has no latency to tell. */
function drivenOf({ bytes, count }: Size) {
  const latencyMs = { count, p50: Number.NaN, p99: Number.NaN, max: Number.NaN }
  return { requests: count, bodyBytes: count * bytes, latencyMs }
}

/** A job that was accepted and did not succeed is a failure. */
async function checked(session: Session, run: Run, { count }: Size): Promise<Run> {
  const { failures, firstFailure } = await awaitEnd(session, count)
  return { ...run, failures: run.failures + failures, firstFailure: run.firstFailure ?? firstFailure }
}

/** Submits jobs that wait, but for those few that the node runs, until the provider answers. */
async function queue(session: Session, size: Size): Promise<void> {
  await session.lab.upstream({ verify: false, hold: true })
  const { failures, firstFailure } = await submit(session, size)
  if (failures > 0) throw new Error(`not submitted: ${firstFailure}`)
}

function submit(session: Session, { bytes, count }: Pick<Size, 'bytes' | 'count'>): Promise<JobsReport> {
  const request = larkwayJob(bytes)
  return generate(session, { do: 'submit', port: session.port, request, connections: CONNECTIONS, count })
}

function awaitEnd(session: Session, last: number): Promise<JobsReport> {
  return generate(session, { do: 'await', port: session.port, last })
}

function generate({ lab }: Session, task: JobsTask): Promise<JobsReport> {
  return lab.generate<JobsTask, JobsReport>('jobs', task)
}

function webhooks({ lab }: Session, task: WebhooksTask): Promise<WebhooksReport> {
  return lab.generate<WebhooksTask, WebhooksReport>('webhooks', task)
}

async function setWebhooks(session: Session): Promise<void> {
  const { port } = await webhooks(session, { do: 'reset' })
  for (const request of larkwayWebhooks(port)) {
    const { failures, firstFailure } = await upload(session, () => request, ONCE)
    if (failures > 0) throw new Error(`the webhook was not set: ${firstFailure}`)
  }
}
