import type { RequestFilter, RequestRecord, RequestRecords } from '../../schema/console.ts'
import type { Ask } from './ask.ts'
import { keys } from './keys.ts'
import { script } from './script.ts'

/** So many failed requests of a workspace are kept, and so many others. */
const REQUESTS_MAX = 1_000
/** How long a batch of them is known: whoever does not hear that it was kept gives up before. */
const BATCH_MS = 600_000
/** As long as add_requests.lua keeps them, and a day more on either side for clocks that differ. */
const DAYS = { ahead: 1, back: 8 }
const DAY_MS = 86_400_000
/** Entries that are read at a time. */
const PAGE = 100
/** How much later by its node's clock a request may have ended than it came by the clock of Redis. */
const SKEW_MS = 2_000

const addRequests = script('add_requests', {
  keys: ['batch', 'requests'],
  args: ['entries', 'token_ms', 'max'],
  reply: () => undefined,
})

/** What requests are chosen by. It stands before each record, so that only what is wanted is read as a whole. */
type Facts = Pick<RequestRecord, 'recordId' | 'id' | 'atMs' | 'app' | 'keyId' | 'path' | 'jobId'> & {
  readonly failed: boolean
}

interface Entry {
  readonly facts: Facts
  /** Its JSON. */
  readonly record: string
  /** By the clock of Redis, epoch milliseconds. */
  readonly cameMs: number
}

export function createRedisRequests(ask: Ask): RequestRecords {
  return {
    async add(token, records) {
      const ofWorkspaces = Map.groupBy(records, ({ workspace }) => workspace)
      const batches = [...ofWorkspaces].flatMap(([workspace, own]) =>
        [false, true].map((failed) => {
          return { workspace, failed, own: own.filter((record) => hasFailed(record) === failed) }
        }),
      )
      const adding = batches
        .filter(({ own }) => own.length > 0)
        .map(({ workspace, failed, own }) =>
          ask((redis) =>
            addRequests(redis, {
              batch: keys.requestBatch(workspace, failed ? `${token}:failed` : token),
              requests: placeOf(workspace, failed),
              entries: JSON.stringify(own.map((record) => [factsOf(record), JSON.stringify(record)])),
              token_ms: BATCH_MS,
              max: REQUESTS_MAX,
            }),
          ),
        )
      await Promise.all(adding)
    },

    async list(filter) {
      const { workspace, outcome, limit } = filter
      const wanted = [false, true].filter((failed) => outcome === null || failed === (outcome === 'failed'))
      const found = await Promise.all(
        wanted.map(async (failed) => {
          const newest = new Newest(filter)
          for await (const page of pagesOf(ask, placeOf(workspace, failed)))
            if (!page.every((one) => newest.take(one))) break
          return newest.found
        }),
      )
      const sorted = found.flat().sort((one, other) => other.facts.atMs - one.facts.atMs)
      return sorted.slice(0, limit).map(recordOf)
    },

    async get(workspace, recordId) {
      for (const failed of [true, false])
        for await (const page of pagesOf(ask, placeOf(workspace, failed))) {
          const found = page.find(({ facts }) => facts.recordId === recordId)
          if (found !== undefined) return recordOf(found)
        }
      return null
    },
  }
}

/** Failed requests are kept apart, so that others do not push them out. */
function placeOf(workspace: string, failed: boolean): string {
  return failed ? keys.failedRequests(workspace) : keys.requests(workspace)
}

/**
 * The newest entries that are asked for. Entries are in the order in which they came, those of several nodes in turns.
 * Each came after its moment, but for clocks that differ: once there are enough, those that came well before the oldest
 * of them can be no newer.
 */
class Newest {
  readonly #filter: RequestFilter
  readonly found: Entry[] = []
  #oldestMs = Number.POSITIVE_INFINITY

  constructor(filter: RequestFilter) {
    this.#filter = filter
  }

  /** @returns false when no later one is needed */
  take(entry: Entry): boolean {
    const { limit, afterMs } = this.#filter
    const { atMs } = entry.facts
    if (afterMs !== null && entry.cameMs < afterMs - SKEW_MS) return false
    const enough = this.found.length >= limit
    if (enough && entry.cameMs < this.#oldestMs - SKEW_MS) return false
    if (!matches(entry.facts, this.#filter)) return true
    if (!enough) this.#oldestMs = Math.min(this.#oldestMs, atMs)
    this.found.push(entry)
    return true
  }
}

/** The entries of a place, day by day, the one that came last first. */
async function* pagesOf(ask: Ask, place: string): AsyncGenerator<readonly Entry[]> {
  const today = Math.floor(Date.now() / DAY_MS)
  for (let day = today + DAYS.ahead; day >= today - DAYS.back; day -= 1) {
    const stream = `${place}:${day}`
    let before = '+'
    for (;;) {
      const entries = await ask((redis) => redis.xrevrange(stream, before, '-', 'COUNT', PAGE))
      yield entries.map(([id, [, facts = '', , record = '']]) => {
        return { facts: JSON.parse(facts) as Facts, record, cameMs: Number.parseInt(id, 10) }
      })
      const last = entries.at(-1)
      if (last === undefined || entries.length < PAGE) break
      before = `(${last[0]}`
    }
  }
}

function factsOf(record: RequestRecord): string {
  const { recordId, id, atMs, app, keyId, path, jobId } = record
  const failed = hasFailed(record)
  return JSON.stringify({ recordId, id, atMs, app, keyId, path, jobId, failed })
}

function hasFailed({ status, error }: RequestRecord): boolean {
  return status === null ? error !== null : status >= 400
}

function matches(facts: Facts, filter: RequestFilter): boolean {
  const { outcome, path, app, keyId, jobId, requestId, beforeMs, afterMs } = filter
  return (
    (outcome === null || facts.failed === (outcome === 'failed')) &&
    (path === null || facts.path === path) &&
    (app === null || facts.app === app) &&
    (keyId === null || facts.keyId === keyId) &&
    (jobId === null || facts.jobId === jobId) &&
    (requestId === null || facts.id === requestId) &&
    (beforeMs === null || facts.atMs < beforeMs) &&
    (afterMs === null || facts.atMs > afterMs)
  )
}

function recordOf({ record }: Entry): RequestRecord {
  return JSON.parse(record) as RequestRecord
}
