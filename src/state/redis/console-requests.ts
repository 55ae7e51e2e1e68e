import type { RequestFilter, RequestRecord, RequestRecords } from '../../schema/console.ts'
import type { Ask } from './ask.ts'
import { keys } from './keys.ts'
import { script } from './script.ts'

/** So many requests of a workspace are kept. */
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
type Facts = Pick<RequestRecord, 'id' | 'atMs' | 'app' | 'keyId' | 'path' | 'jobId'> & {
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
      const adding = [...ofWorkspaces].map(([workspace, own]) =>
        ask((redis) =>
          addRequests(redis, {
            batch: keys.requestBatch(workspace, token),
            requests: keys.requests(workspace),
            entries: JSON.stringify(own.map((record) => [factsOf(record), JSON.stringify(record)])),
            token_ms: BATCH_MS,
            max: REQUESTS_MAX,
          }),
        ),
      )
      await Promise.all(adding)
    },

    async list(filter) {
      const newest = new Newest(filter)
      for await (const page of pagesOf(ask, filter.workspace))
        if (!page.every((one) => newest.take(one))) break
      return newest.records()
    },

    async get(workspace, id) {
      for await (const page of pagesOf(ask, workspace)) {
        const found = page.find(({ facts }) => facts.id === id)
        if (found !== undefined) return recordOf(found)
      }
      return null
    },
  }
}

/**
 * The newest entries that are asked for. Entries are in the order in which they came, those of several nodes in turns.
 * Each came after its moment, but for clocks that differ: once there are enough, those that came well before the oldest
 * of them can be no newer.
 */
class Newest {
  readonly #filter: RequestFilter
  readonly #found: Entry[] = []
  #oldestMs = Number.POSITIVE_INFINITY

  constructor(filter: RequestFilter) {
    this.#filter = filter
  }

  /** @returns false when no later one is needed */
  take(entry: Entry): boolean {
    const { limit } = this.#filter
    const { atMs } = entry.facts
    const enough = this.#found.length >= limit
    if (enough && entry.cameMs < this.#oldestMs - SKEW_MS) return false
    if (!matches(entry.facts, this.#filter)) return true
    if (!enough) this.#oldestMs = Math.min(this.#oldestMs, atMs)
    this.#found.push(entry)
    return true
  }

  records(): RequestRecord[] {
    const sorted = this.#found.sort((one, other) => other.facts.atMs - one.facts.atMs)
    return sorted.slice(0, this.#filter.limit).map(recordOf)
  }
}

/** Those of a workspace, the one that came last first. */
async function* pagesOf(ask: Ask, workspace: string): AsyncGenerator<readonly Entry[]> {
  const today = Math.floor(Date.now() / DAY_MS)
  for (let day = today + DAYS.ahead; day >= today - DAYS.back; day -= 1) {
    const stream = `${keys.requests(workspace)}:${day}`
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

function factsOf({ id, atMs, app, keyId, path, jobId, status, error }: RequestRecord): string {
  const failed = status === null ? error !== null : status >= 400
  return JSON.stringify({ id, atMs, app, keyId, path, jobId, failed } satisfies Facts)
}

function matches(facts: Facts, { outcome, path, app, keyId, jobId, beforeMs }: RequestFilter): boolean {
  return (
    (outcome === null || facts.failed === (outcome === 'failed')) &&
    (path === null || facts.path === path) &&
    (app === null || facts.app === app) &&
    (keyId === null || facts.keyId === keyId) &&
    (jobId === null || facts.jobId === jobId) &&
    (beforeMs === null || facts.atMs < beforeMs)
  )
}

function recordOf({ record }: Entry): RequestRecord {
  return JSON.parse(record) as RequestRecord
}
