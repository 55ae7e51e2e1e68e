import type {
  Claimed,
  Job,
  JobChange,
  JobError,
  JobFacts,
  JobProgress,
  JobSpec,
  JobStatus,
  KeptText,
} from '../../schema/jobs.ts'
import { integerOf, pairsOf, textOf } from './reply.ts'

const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

/** A job out of the fields and values of its hash; null: there are none. */
export function jobOf(reply: unknown): Job | null {
  const fields = new Map(pairsOf(reply))
  return fields.size === 0 ? null : jobIn(fields)
}

/** A job that is certainly there. */
export function recordOf(reply: unknown): Job {
  const job = jobOf(reply)
  if (job === null) throw new Error('a script replied a job that is none')
  return job
}

/** A job that was taken up, with what the claims before left behind. */
export function claimedOf(reply: unknown): Claimed {
  const fields = new Map(pairsOf(reply))
  return { job: jobIn(fields), progress: parsed<JobProgress>(fields.get('progress')) ?? NO_PROGRESS }
}

/**
 * A reply whose first item is a number, and each of the others a record. One that cannot be read is left out: it must
 * not keep the others from whoever asked. A job that was taken up so is left to its lease, until it fails.
 */
export function listOf<Item>(reply: unknown, itemOf: (item: unknown) => Item): [number, Item[]] {
  if (!Array.isArray(reply) || !Number.isSafeInteger(reply[0])) throw new Error('a script replied no list')
  const [head, ...items] = reply as [number, ...unknown[]]
  const readable = items.flatMap((item) => {
    try {
      return [itemOf(item)]
    } catch {
      return []
    }
  })
  return [head, readable]
}

function jobIn(fields: ReadonlyMap<string, string>): Job {
  const momentOf = (name: string) => (fields.has(name) ? integerOf(fields.get(name)) : null)
  const countOf = (name: string) => integerOf(fields.get(name))
  return {
    ...(JSON.parse(textOf(fields.get('spec'))) as JobSpec),
    status: textOf(fields.get('status')) as JobStatus,
    createdAtMs: countOf('created'),
    startedAtMs: momentOf('started'),
    endedAtMs: momentOf('ended'),
    expiresAtMs: momentOf('expires'),
    cancelRequested: fields.get('cancel') === '1',
    fence: countOf('fence'),
    strays: countOf('strays'),
    retries: countOf('retries'),
    returns: countOf('returns'),
    result: parsed<KeptText>(fields.get('result')),
    error: parsed<JobError>(fields.get('error')),
    facts: parsed<JobFacts>(fields.get('facts')),
    history: textOf(fields.get('history')).split('\n').map(changeOf),
  }
}

/** `<epoch milliseconds> <status> <fence>` */
function changeOf(line: string): JobChange {
  const [atMs, status, fence] = line.split(' ')
  return { atMs: integerOf(atMs), status: textOf(status) as JobStatus, fence: integerOf(fence) }
}

/** What was written as JSON, by nobody else. */
function parsed<Value>(json: string | undefined): Value | null {
  return json === undefined ? null : (JSON.parse(json) as Value)
}
