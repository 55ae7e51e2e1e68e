import type { Test } from 'tap'
import { newId, newJobId, partitionOf } from '../../src/contracts/ids.ts'
import type {
  Claimed,
  Claiming,
  Job,
  JobEnding,
  JobError,
  JobFacts,
  JobSpec,
  JobSubmission,
  Jobs,
  Retention,
  Submitted,
} from '../../src/contracts/jobs.ts'
import { LONG_MS, newDigest, newWorkspace, type StateUnderTest } from './state-under-test.ts'

/** A time that is over after `pass(OVER_MS)`. */
export const SHORT_MS = 20
export const OVER_MS = 60
/** A time that something still has to happen in, on a busy machine, too; it is over after `pass(SOON_OVER_MS)`. */
export const SOON_MS = 500
export const SOON_OVER_MS = 550

/** Told apart by the moment of the purge. */
export const KEEP: Retention = { transcriptionMs: LONG_MS, queueMs: 2 * LONG_MS, deadMs: 3 * LONG_MS }

export const POISON: JobError = {
  code: 'INTERNAL',
  message: 'the job was given up',
  param: null,
  details: { stalled: 3 },
}

export const FACTS: JobFacts = {
  policy_version_id: 'pv_0123456789abcdef',
  lk_applied_purpose: null,
  lk_purpose_source: 'none',
}

export const SUCCESS: JobEnding = {
  state: 'succeeded',
  result: { text: '{"content":"Grüße"}' },
  facts: FACTS,
}
export const FAILURE: JobEnding = {
  state: 'failed',
  error: { code: 'UPSTREAM_ERROR', message: 'all have failed', param: null, details: { attempts: [] } },
  facts: FACTS,
}
export const CANCELLATION: JobEnding = { state: 'cancelled', facts: null }
/** A graceful return. */
export const RETURN: JobEnding = { state: 'queued', delayMs: 0, counts: 'nothing' }

/** A job of the queue, or with `{ kind: 'transcription' }` a transcription job that announces its end. */
export function specOf(workspace: string, over: Partial<JobSpec> = {}): JobSpec {
  const kind = over.kind ?? 'queue'
  return {
    id: newJobId(kind === 'queue' ? 'qj' : 'tj', workspace),
    kind,
    mode: 'priority',
    endpoint: kind === 'queue' ? 'chat' : 'transcription',
    workspace,
    app: 'web',
    keyId: 'key_one',
    keyBudgetMicros: null,
    requestId: 'req_one',
    traceparent: null,
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
    work: { operation: 'chat', payload: { text: '{"messages":[]}' } },
    eventId: kind === 'queue' ? null : newId('evt'),
    ...over,
  }
}

export function slotOf(over: Partial<NonNullable<JobSubmission['slot']>> = {}) {
  return { id: newDigest(), fingerprint: 'f1', keepMs: LONG_MS, ...over }
}

export function claimingOf(over: Partial<Claiming> = {}): Claiming {
  return {
    limit: 1,
    perWorkspace: 1000,
    leaseMs: LONG_MS,
    stalledMax: 3,
    poison: POISON,
    keep: KEEP,
    ...over,
  }
}

/** Each claim, and each look for what is over, looks in one place at least, another one each time. */
const CLAIMS_MAX = 64

/**
 * Takes jobs whose time is over until there are `count` of them, at most `limit` in all. On a busy machine the time of
 * one call may be over before it has come to all places.
 */
export async function takeExpired(
  jobs: Pick<Jobs, 'takeExpired'>,
  count: number,
  limit = count,
): Promise<readonly Job[]> {
  const found: Job[] = []
  for (let round = 0; round < CLAIMS_MAX && found.length < count; round += 1)
    found.push(...(await jobs.takeExpired(limit - found.length)))
  return found
}

/** So many workspaces that have their jobs in one place, so that their order is known to the turn. */
export function neighbours(count: number): string[] {
  const found = [newWorkspace()]
  const partition = partitionOf(found[0]!)
  while (found.length < count) {
    const workspace = newWorkspace()
    if (partitionOf(workspace) === partition) found.push(workspace)
  }
  return found
}

/** A state, a workspace of the test's own, and short words for what is done with its jobs. */
export async function jobsOf(t: Test, start: (t: Test) => Promise<StateUnderTest>) {
  const under = await start(t)
  const { jobs, outbox } = under.state
  const workspace = newWorkspace()
  const owner = { workspace, app: 'web' }

  const accept = async (over: Partial<JobSpec> = {}, slot: JobSubmission['slot'] = null): Promise<Job> => {
    const answer: Submitted = await jobs.submit({ spec: specOf(over.workspace ?? workspace, over), slot })
    if (answer.state === 'reused' || !answer.job) throw new Error('the job was not accepted')
    return answer.job
  }
  const claim = async (over: Partial<Claiming> = {}): Promise<readonly Claimed[]> =>
    jobs.claim(claimingOf(over))
  const take = async (over: Partial<Claiming> = {}): Promise<Job> => {
    // On a busy machine the time of a claim may be over before it has come to the place of the job.
    for (let round = 0; round < CLAIMS_MAX; round += 1) {
      const [claimed] = await claim({ limit: 1, ...over })
      if (claimed) return claimed.job
    }
    throw new Error('there was no job to be taken')
  }
  return {
    ...under,
    jobs,
    outbox,
    workspace,
    owner,
    accept,
    claim,
    take,
    /** One that was accepted and taken; there is no other one to take. */
    taken: async (over: Partial<JobSpec> = {}, claiming: Partial<Claiming> = {}): Promise<Job> => {
      await accept(over)
      return take(claiming)
    },
    end: (job: Pick<Job, 'id' | 'fence'>, ending: JobEnding) => jobs.end(job.id, job.fence, ending, KEEP),
    cancel: (id: string) => jobs.cancel(id, owner, KEEP),
    idsOf: (claimed: readonly Claimed[]) => claimed.map(({ job }) => job.id),
    /** Of the events that wait or were given up. */
    announced: async () => (await outbox.list(null, 1000)).map(({ jobId, status }) => ({ jobId, status })),
  }
}

/** What happened to a job, without the moments: `queued 0`, `processing 1`, … */
export function storyOf(job: Job | null): string[] {
  return job?.history.map(({ status, fence }) => `${status} ${fence}`) ?? []
}
