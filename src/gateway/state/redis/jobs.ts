import { jobPartition, partitionOf } from '../../../contracts/ids.ts'
import {
  type AbandonedJob,
  type Claimed,
  type Claiming,
  type EndedJobs,
  type Job,
  type JobChange,
  type JobEnding,
  type JobError,
  type JobFacts,
  type JobFigures,
  type JobKind,
  type JobPage,
  type JobProgress,
  type JobSpec,
  type JobStatus,
  type JobSubmission,
  type Jobs,
  type KnownJob,
  type ListedJob,
  partCount,
  type Renewed,
  type Retention,
  type Submitted,
  type WaitingJobs,
} from '../../../contracts/jobs.ts'
import type { KeptText } from '../../../contracts/objects.ts'
import type { Clock } from '../../../contracts/time.ts'
import { createClaimTokens } from '../claim-tokens.ts'
import { type Ended, endedJobOf, type Made, submittedOf } from '../new-job.ts'
import { keys } from './key-names.ts'
import { ALL_PARTITIONS, createSweep, listNewest, partitioned, placeOf } from './partitions.ts'
import { type Ask, replyInteger, replyList, replyPairs, replyText, replyTexts, script } from './script.ts'

/** A job that was marked and is not forgotten is handed out again after this long. */
const EXPIRED_AGAIN_MS = 300_000
/** The same for one that was to be recorded. */
const ABANDONED_AGAIN_MS = 60_000
const KEEP = ['keep_transcription_ms', 'keep_queue_ms', 'keep_dead_ms'] as const

const submitJob = script('jobs/submit_job', {
  ...partitioned,
  args: [
    ...(['id', 'kind', 'mode', 'workspace', 'app', 'event', 'spec'] as const),
    ...(['slot_id', 'fingerprint', 'keep_ms'] as const),
  ],
  reply: answerOf,
})

const claimJobs = script('jobs/claim_jobs', {
  ...partitioned,
  args: ['token', 'limit', 'per_workspace', 'lease_ms', 'sweeps', 'stalled_max', 'poison', ...KEEP],
  reply: (reply) => replyList(reply, claimedOf),
})

const renewJob = script('jobs/renew_job', {
  ...partitioned,
  args: ['id', 'fence', 'lease_ms', 'progress'],
  reply: (reply): Renewed => {
    if (!Array.isArray(reply)) throw new Error('renew_job.lua replied no list')
    return { held: reply[0] === 1, cancelRequested: reply[1] === 1 }
  },
})

const endJob = script('jobs/end_job', {
  ...partitioned,
  args: ['id', 'fence', 'ending', 'delay_ms', 'counter', 'result', 'error', 'facts', ...KEEP],
  reply: (reply): Ended => {
    if (!Array.isArray(reply)) throw new Error('end_job.lua replied no list')
    return { isNow: reply[0] === 1, job: jobOf(reply[1]) }
  },
})

const cancelJob = script('jobs/cancel_job', {
  ...partitioned,
  args: ['id', 'workspace', 'app', ...KEEP],
  reply: jobOf,
})

const eraseJob = script('jobs/erase_job', {
  ...partitioned,
  args: ['id', 'workspace', 'app', 'spec', ...KEEP],
  reply: jobOf,
})

const retryJob = script('jobs/retry_job', { ...partitioned, args: ['id'], reply: (reply) => reply === 1 })

const takeExpiredJobs = script('jobs/take_expired_jobs', {
  ...partitioned,
  args: ['limit', 'again_ms'],
  reply: (reply) => replyList(reply, recordOf),
})

const takeAbandonedJobs = script('jobs/take_abandoned_jobs', {
  ...partitioned,
  args: ['limit', 'again_ms'],
  reply: (reply) => replyList(reply, abandonedOf),
})

const recordedJob = script('jobs/recorded_job', { ...partitioned, args: ['id'] })

const forgetJob = script('jobs/forget_job', { ...partitioned, args: ['id'] })

/** Jobs in Redis, in partitions. Whatever is done to a job, or takes jobs of one partition up, is one script. */
export function createRedisJobs(ask: Ask, clock: Clock): Jobs {
  const claims = createSweep(clock)
  const expiries = createSweep(clock)
  const abandoned = createSweep(clock)
  const tokens = ALL_PARTITIONS.map(createClaimTokens)

  const claim = async (partition: number, limit: number, isFirst: boolean, claiming: Claiming) => {
    const inputs = { ...placeOf(partition), ...claimInputs(claiming), sweeps: isFirst ? 1 : 0 }
    const [more, items] = await tokens[partition]!(limit, (token, most) =>
      ask(claimJobs({ ...inputs, token, limit: most })),
    )
    return { items, more: more === 1 }
  }
  const takeExpired = async (partition: number, limit: number) => {
    const inputs = { ...placeOf(partition), limit, again_ms: EXPIRED_AGAIN_MS }
    const [more, items] = await ask(takeExpiredJobs(inputs))
    return { items, more: more === 1 }
  }

  return {
    ...createJobsView(ask),
    async submit(submission) {
      const inputs = submitInputs(submission)
      return submittedOf(submission, await ask(submitJob(inputs)))
    },
    cancel: (id, { workspace, app }, keep) =>
      at(id, null, (place) => ask(cancelJob({ ...place, id, workspace, app, ...keepInputs(keep) }))),
    erase: (spec, keep) =>
      at(spec.id, null, (place) => {
        const { id, workspace, app } = spec
        const inputs = { ...place, id, workspace, app, spec: JSON.stringify(spec), ...keepInputs(keep) }
        return ask(eraseJob(inputs))
      }),
    async claim(claiming) {
      const { limit, part } = claiming
      if (part !== undefined) return (await claim(part, limit, false, claiming)).items
      return claims<Claimed>(limit, (partition, share, isFirst) => claim(partition, share, isFirst, claiming))
    },
    renew: (id, fence, leaseMs, progress) =>
      at(id, { held: false, cancelRequested: false }, (place) =>
        ask(
          renewJob({
            ...place,
            ...{ id, fence, lease_ms: leaseMs, progress: progress === null ? '' : JSON.stringify(progress) },
          }),
        ),
      ),
    end: (id, fence, ending, keep) =>
      at(id, null, async (place) => {
        const inputs = { ...place, id, fence, ...endInputs(ending), ...keepInputs(keep) }
        return endedJobOf(await ask(endJob(inputs)), ending)
      }),
    takeExpired: (limit) => expiries<Job>(limit, takeExpired),
    takeAbandoned: (limit) =>
      abandoned<AbandonedJob>(limit, async (partition, most) => {
        const inputs = { ...placeOf(partition), limit: most, again_ms: ABANDONED_AGAIN_MS }
        const [more, items] = await ask(takeAbandonedJobs(inputs))
        return { items, more: more === 1 }
      }),
    recorded: (id) => at(id, undefined, (place) => ask(recordedJob({ ...place, id }))),
    forget: (id) => at(id, undefined, (place) => ask(forgetJob({ ...place, id }))),
    retry: (id) => at(id, false, (place) => ask(retryJob({ ...place, id }))),
  }
}

/** Does it where the job is; `otherwise` when that is no id of a job. */
async function at<Answer>(
  id: string,
  otherwise: Answer,
  act: (place: ReturnType<typeof placeOf>) => Promise<Answer>,
): Promise<Answer> {
  const partition = jobPartition(id)
  return partition === null ? otherwise : act(placeOf(partition))
}

function submitInputs({ spec, slot }: JobSubmission) {
  const { id, kind, mode, workspace, app, eventId } = spec
  const partition = jobPartition(id)
  if (partition === null) throw new Error('a job was submitted without an id of a job')
  return {
    ...placeOf(partition),
    ...{ id, kind, mode, workspace, app },
    event: eventId ?? '',
    spec: JSON.stringify(spec),
    slot_id: slot?.id ?? '',
    fingerprint: slot?.fingerprint ?? '',
    keep_ms: slot?.keepMs ?? 0,
  }
}

function claimInputs({ perWorkspace, leaseMs, stalledMax: straysMax, poison, keep }: Claiming) {
  return {
    per_workspace: perWorkspace,
    lease_ms: leaseMs,
    stalled_max: straysMax,
    poison: JSON.stringify(poison),
    ...keepInputs(keep),
  }
}

const COUNTERS = { retry: 'retries', return: 'returns', nothing: '' } as const

function endInputs(ending: JobEnding) {
  const json = (value: unknown) => (value === null || value === undefined ? '' : JSON.stringify(value))
  return {
    ending: ending.state,
    delay_ms: ending.state === 'queued' ? ending.delayMs : 0,
    counter: ending.state === 'queued' ? COUNTERS[ending.counts] : '',
    result: ending.state === 'succeeded' ? json(ending.result) : '',
    error: ending.state === 'failed' ? json(ending.error) : '',
    facts: ending.state === 'queued' ? '' : json(ending.facts),
  }
}

function keepInputs({ transcriptionMs, queueMs, deadMs }: Retention) {
  return { keep_transcription_ms: transcriptionMs, keep_queue_ms: queueMs, keep_dead_ms: deadMs }
}

function answerOf(reply: unknown): Submitted | Made {
  if (!Array.isArray(reply)) throw new Error('submit_job.lua replied no list')
  const [state, replayed, id, job] = reply
  if (state === 'reused') return { state }
  if (state === 'new') return { state, atMs: replyInteger(replayed) }
  return { state: 'accepted', replayed: replayed === 1, id: replyText(id), job: jobOf(job) }
}

/** Ids that one script looks up. */
const KNOWN_AT_ONCE = 500

const knownJobs = script('jobs/known_jobs', {
  ...partitioned,
  args: ['ids'],
  reply: (reply): (readonly [string, KnownJob])[] => {
    if (!Array.isArray(reply)) throw new Error('known_jobs.lua replied no list')
    return reply.map((item) => knownOf(replyTexts(item)))
  },
})

/** The caller reads the record: one that cannot be read is a fault of ours, not of Redis. */
const showJob = script('jobs/show_job', { ...partitioned, args: ['id'], reply: (reply) => reply })

const listJobs = script('jobs/list_jobs', {
  ...partitioned,
  args: ['workspace', 'kind', 'status', 'limit', 'offset'],
  reply: (reply) => replyList(reply, recordOf),
})

const pageJobs = script('jobs/page_jobs', {
  ...partitioned,
  args: ['workspace', 'app', 'statuses', 'after', 'before', 'from', 'limit'],
  reply: (reply): JobPage => {
    if (!Array.isArray(reply)) throw new Error('page_jobs.lua replied no list')
    const [next, ...items] = reply
    return { jobs: items.flatMap((item) => listedIn(replyTexts(item)) ?? []), next: replyText(next) || null }
  },
})

/** The methods that show jobs and change nothing. */
function createJobsView(ask: Ask): Pick<Jobs, 'get' | 'known' | 'list' | 'page' | 'waiting' | 'figures'> {
  return {
    async get(id) {
      const partition = jobPartition(id)
      if (partition === null) return null
      return jobOf(await ask(showJob({ ...placeOf(partition), id })))
    },
    async known(ids) {
      const lists = await Promise.all(
        batchesOf(ids).map(({ partition, batch }) =>
          ask(knownJobs({ ...placeOf(partition), ids: JSON.stringify(batch) })),
        ),
      )
      return new Map(lists.flat())
    },
    list: ({ workspace, kind, status, limit }) =>
      listNewest<Job>(workspace, limit, {
        idOf: ({ id }) => id,
        atMsOf: ({ createdAtMs }) => createdAtMs,
        look: (place, range) => {
          const filter = { workspace: workspace ?? '', kind: kind ?? '', status: status ?? '' }
          return ask(listJobs({ ...place, ...filter, ...range }))
        },
      }),
    page({ owner: { workspace, app }, statuses, after, before, from, limit }) {
      const inputs = {
        ...placeOf(partitionOf(workspace)),
        ...{ workspace, app, from, limit, after: after ?? '', before: before ?? '' },
        statuses: statuses === null ? '' : ` ${statuses.join(' ')} `,
      }
      return ask(pageJobs(inputs))
    },
    async waiting() {
      const counts = await Promise.all(
        ALL_PARTITIONS.map((partition) => ask((redis) => redis.hget(keys.jobs(partition), 'waiting'))),
      )
      return counts.map(replyInteger).reduce((sum, count) => sum + count, 0)
    },
    figures: () => readJobFigures(ask),
  }
}

/** Null: nothing, or what cannot be read, which must not keep the others from whoever asked. */
function readableIn<Value>(json: string | null | undefined): Value | null {
  try {
    return JSON.parse(json ?? '') as Value
  } catch {
    return null
  }
}

function knownOf([id, status, kind, fence, result, spec]: readonly (string | null)[]): readonly [
  string,
  KnownJob,
] {
  const known: KnownJob = {
    status: replyText(status) as JobStatus,
    kind: replyText(kind) as JobKind,
    fence: replyInteger(fence),
    result: readableIn<KeptText>(result),
    work: readableIn<JobSpec>(spec)?.work ?? null,
  }
  return [replyText(id), known]
}

/** Null: the record cannot be read; the others are listed all the same. */
function listedIn([status, ended, error, erased, spec]: readonly (string | null)[]): ListedJob | null {
  const given = readableIn<JobSpec>(spec)
  if (given === null) return null
  const { id, work, door } = given
  return {
    ...{ id, work, ...(door === undefined ? {} : { door }) },
    status: replyText(status) as JobStatus,
    endedAtMs: ended ? replyInteger(ended) : null,
    error: readableIn<JobError>(error),
    erased: erased !== '',
  }
}

/** The ids by their partitions, as many at a time as a script takes. */
function batchesOf(ids: readonly string[]): { partition: number; batch: string[] }[] {
  const batches = new Map<number, string[][]>()
  for (const id of new Set(ids)) {
    const partition = jobPartition(id)
    if (partition === null) continue
    const lists = batches.get(partition) ?? []
    batches.set(partition, lists)
    const last = lists.at(-1)
    if (last && last.length < KNOWN_AT_ONCE) last.push(id)
    else lists.push([id])
  }
  return [...batches].flatMap(([partition, lists]) => lists.map((batch) => ({ partition, batch })))
}

const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

/** A job out of the fields and values of its hash; null: there are none. */
function jobOf(reply: unknown): Job | null {
  const fields = new Map(replyPairs(reply))
  return fields.size === 0 ? null : jobIn(fields)
}

/** A job that is certainly there. */
function recordOf(reply: unknown): Job {
  const job = jobOf(reply)
  if (job === null) throw new Error('a script replied a job that is none')
  return job
}

/** A job that no worker has ended, with what it had cost by then. */
function abandonedOf(reply: unknown): AbandonedJob {
  const fields = new Map(replyPairs(reply))
  return { job: jobIn(fields), chargedMicros: replyInteger(fields.get('charged') ?? '0') }
}

/** A job that was taken up, with what the claims before left behind. */
function claimedOf(reply: unknown): Claimed {
  const fields = new Map(replyPairs(reply))
  return { job: jobIn(fields), progress: parsedValue<JobProgress>(fields.get('progress')) ?? NO_PROGRESS }
}

function jobIn(fields: ReadonlyMap<string, string>): Job {
  const momentOf = (name: string) => (fields.has(name) ? replyInteger(fields.get(name)) : null)
  const countOf = (name: string) => replyInteger(fields.get(name))
  return {
    ...(JSON.parse(replyText(fields.get('spec'))) as JobSpec),
    status: replyText(fields.get('status')) as JobStatus,
    createdAtMs: countOf('created'),
    startedAtMs: momentOf('started'),
    endedAtMs: momentOf('ended'),
    expiresAtMs: momentOf('expires'),
    cancelRequested: fields.get('cancel') === '1',
    erased: fields.has('erased'),
    fence: countOf('fence'),
    stalled: countOf('strays'),
    retries: countOf('retries'),
    returns: countOf('returns'),
    result: parsedValue<KeptText>(fields.get('result')),
    error: parsedValue<JobError>(fields.get('error')),
    facts: parsedValue<JobFacts>(fields.get('facts')),
    history: replyText(fields.get('history')).split('\n').map(changeOf),
    ...partCount(parsedValue<JobProgress>(fields.get('progress'))),
  }
}

/** `<epoch milliseconds> <status> <fence>` */
function changeOf(line: string): JobChange {
  const [atMs, status, fence] = line.split(' ')
  return { atMs: replyInteger(atMs), status: replyText(status) as JobStatus, fence: replyInteger(fence) }
}

/** Reads JSON that only this program has written. */
function parsedValue<Value>(json: string | undefined): Value | null {
  return json === undefined ? null : (JSON.parse(json) as Value)
}

const jobFigures = script('jobs/job_figures', { ...partitioned, reply: figuresIn })

/** The figures of all partitions together. */
async function readJobFigures(ask: Ask): Promise<JobFigures> {
  const parts = await Promise.all(ALL_PARTITIONS.map((partition) => ask(jobFigures(placeOf(partition)))))
  return {
    waiting: sumByKey(
      parts.flatMap(({ waiting }) => waiting),
      ({ kind, mode }) => `${kind} ${mode}`,
      (one, other) => ({
        ...one,
        ready: one.ready + other.ready,
        delayed: one.delayed + other.delayed,
        oldestMs: Math.max(one.oldestMs, other.oldestMs),
      }),
    ),
    ended: sumByKey(
      parts.flatMap(({ ended }) => ended),
      ({ kind, status }) => `${kind} ${status}`,
      (one, other) => ({ ...one, jobs: one.jobs + other.jobs }),
    ),
  }
}

/** One item for all of a key. */
function sumByKey<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  join: (one: Item, other: Item) => Item,
): Item[] {
  const byKey = new Map<string, Item>()
  for (const item of items) {
    const known = byKey.get(keyOf(item))
    byKey.set(keyOf(item), known === undefined ? item : join(known, item))
  }
  return [...byKey.values()]
}

function figuresIn(reply: unknown): JobFigures {
  const [waiting, ended] = Array.isArray(reply) ? reply : []
  if (!Array.isArray(waiting) || !Array.isArray(ended)) throw new Error('job_figures.lua replied no lists')
  return { waiting: waiting.map(waitingOf), ended: ended.map(endedOf) }
}

function waitingOf([kind, mode, ready, delayed, oldestMs]: unknown[]): WaitingJobs {
  const named = { kind, mode } as Pick<WaitingJobs, 'kind' | 'mode'>
  return { ...named, ready: Number(ready), delayed: Number(delayed), oldestMs: Number(oldestMs) }
}

function endedOf([kind, status, jobs]: unknown[]): EndedJobs {
  return { ...({ kind, status } as Pick<EndedJobs, 'kind' | 'status'>), jobs: Number(jobs) }
}
