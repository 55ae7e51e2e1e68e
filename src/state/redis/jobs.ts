import { jobPartition, PARTITIONS } from '../../ids.ts'
import { type Logger, messageOf } from '../../log.ts'
import type {
  Claimed,
  Claiming,
  Job,
  JobEnding,
  JobHints,
  JobSubmission,
  Jobs,
  Renewed,
  Retention,
  Submitted,
} from '../../schema/jobs.ts'
import { createClaimTokens } from '../claim-tokens.ts'
import type { Ask } from './ask.ts'
import type { Connect, RedisConnection } from './connect.ts'
import { ALL_PARTITIONS, partitioned, placeOf } from './jobs-partitions.ts'
import { claimedOf, jobOf, listOf, recordOf } from './jobs-record.ts'
import { createSweep } from './jobs-sweep.ts'
import { createJobsView } from './jobs-view.ts'
import { textOf } from './reply.ts'
import { script } from './script.ts'

/** A job that was marked and is not forgotten is handed out again after this long. */
const EXPIRED_AGAIN_MS = 300_000
/** Where the scripts of jobs publish; see `job_steps.lua`. */
const CHANNEL = 'lk:jobs'
const HINT = /^(?:queued (\d{1,2})|changed (\S{1,64}))$/
const KEEP = ['keep_transcription_ms', 'keep_queue_ms', 'keep_dead_ms'] as const

const submitJob = script('submit_job', {
  ...partitioned,
  args: [
    ...(['id', 'kind', 'mode', 'workspace', 'app', 'event', 'spec'] as const),
    ...(['slot_id', 'fingerprint', 'keep_ms'] as const),
  ],
  reply: submittedOf,
})

const claimJobs = script('claim_jobs', {
  ...partitioned,
  args: ['token', 'limit', 'per_workspace', 'lease_ms', 'sweeps', 'strays_max', 'poison', ...KEEP],
  reply: (reply) => listOf(reply, claimedOf),
})

const renewJob = script('renew_job', {
  ...partitioned,
  args: ['id', 'fence', 'lease_ms', 'progress'],
  reply: (reply): Renewed => {
    if (!Array.isArray(reply)) throw new Error('renew_job.lua replied no list')
    return { held: reply[0] === 1, cancelRequested: reply[1] === 1 }
  },
})

const endJob = script('end_job', {
  ...partitioned,
  args: ['id', 'fence', 'ending', 'delay_ms', 'counter', 'result', 'error', 'facts', ...KEEP],
  reply: jobOf,
})

const cancelJob = script('cancel_job', {
  ...partitioned,
  args: ['id', 'workspace', 'app', ...KEEP],
  reply: jobOf,
})

const retryJob = script('retry_job', { ...partitioned, args: ['id'], reply: (reply) => reply === 1 })

const takeExpiredJobs = script('take_expired_jobs', {
  ...partitioned,
  args: ['limit', 'again_ms'],
  reply: (reply) => listOf(reply, recordOf),
})

const forgetJob = script('forget_job', { ...partitioned, args: ['id'], reply: () => undefined })

/** Jobs in Redis, in partitions. Whatever is done to a job, or takes jobs of one partition up, is one script. */
export function createRedisJobs(ask: Ask, listen: Jobs['listen']): Jobs {
  const claims = createSweep()
  const expiries = createSweep()
  const tokens = ALL_PARTITIONS.map(createClaimTokens)

  const claim = async (partition: number, limit: number, isFirst: boolean, claiming: Claiming) => {
    const inputs = { ...placeOf(partition), ...claimInputs(claiming), limit, sweeps: isFirst ? 1 : 0 }
    const [more, items] = await tokens[partition]!((token) =>
      ask((redis) => claimJobs(redis, { ...inputs, token })),
    )
    return { items, more: more === 1 }
  }
  const takeExpired = async (partition: number, limit: number) => {
    const inputs = { ...placeOf(partition), limit, again_ms: EXPIRED_AGAIN_MS }
    const [more, items] = await ask((redis) => takeExpiredJobs(redis, inputs))
    return { items, more: more === 1 }
  }

  return {
    ...createJobsView(ask),
    listen,
    submit: (submission) => ask((redis) => submitJob(redis, submitInputs(submission))),
    cancel: (id, { workspace, app }, keep) =>
      at(id, null, (place) =>
        ask((redis) => cancelJob(redis, { ...place, id, workspace, app, ...keepInputs(keep) })),
      ),
    async claim(claiming) {
      const { limit, part } = claiming
      if (part !== undefined) return (await claim(part, limit, false, claiming)).items
      return claims<Claimed>(limit, (partition, share, isFirst) => claim(partition, share, isFirst, claiming))
    },
    renew: (id, fence, leaseMs, progress) =>
      at(id, { held: false, cancelRequested: false }, (place) =>
        ask((redis) =>
          renewJob(redis, {
            ...place,
            ...{ id, fence, lease_ms: leaseMs, progress: progress === null ? '' : JSON.stringify(progress) },
          }),
        ),
      ),
    end: (id, fence, ending, keep) =>
      at(id, null, (place) =>
        ask((redis) => endJob(redis, { ...place, id, fence, ...endInputs(ending), ...keepInputs(keep) })),
      ),
    takeExpired: (limit) => expiries<Job>(limit, takeExpired),
    forget: (id) => at(id, undefined, (place) => ask((redis) => forgetJob(redis, { ...place, id }))),
    retry: (id) => at(id, false, (place) => ask((redis) => retryJob(redis, { ...place, id }))),
  }
}

/**
 * Listens to what the scripts of jobs publish, on a connection of its own. What is published while that is broken is
 * lost, and where the user of Redis may not subscribe there is nothing to hear: everybody looks at the state in turn.
 */
export function listenToJobs(connect: Connect, hints: JobHints, log: Logger): RedisConnection {
  const connection = connect('larkway-hints')
  connection.on('ready', () => {
    connection.subscribe(CHANNEL).catch((error: unknown) => {
      log.debug({ reason: messageOf(error) }, 'no hints of jobs come from Redis')
    })
  })
  connection.on('message', (_channel: string, message: string) => {
    const [, part, id] = HINT.exec(message) ?? []
    if (id !== undefined) hints.changed(id)
    else if (part !== undefined && Number(part) < PARTITIONS) hints.queued(Number(part))
  })
  return connection
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

function claimInputs({ perWorkspace, leaseMs, straysMax, poison, keep }: Claiming) {
  return {
    per_workspace: perWorkspace,
    lease_ms: leaseMs,
    strays_max: straysMax,
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

function submittedOf(reply: unknown): Submitted {
  if (!Array.isArray(reply)) throw new Error('submit_job.lua replied no list')
  const [state, replayed, id, job] = reply
  if (state === 'reused') return { state }
  return { state: 'accepted', replayed: replayed === 1, id: textOf(id), job: jobOf(job) }
}
