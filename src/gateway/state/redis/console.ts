import type {
  ConsoleSessions,
  ConsoleState,
  KeptSession,
  KeyUses,
  NodeSample,
  NodeSamples,
  RequestFilter,
  RequestRecord,
  RequestRecords,
  SessionEnds,
  SessionPerson,
} from '../../../contracts/console.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { UsageMark, UsageMarks } from '../../../contracts/usage-lake.ts'
import { parseInTurns } from '../parse-in-turns.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyText, script } from './script.ts'

const beginSession = script('console/begin_session', {
  keys: ['session'],
  args: ['key_sha256', 'person', 'holder', 'csrf_token', 'idle_ms', 'ttl_ms', 'address', 'browser'],
  reply: (untilMs) => (typeof untilMs === 'string' ? Number(untilMs) : null),
})

const touchSession = script('console/touch_session', { keys: ['session'] })

const addSample = script('console/add_sample', {
  keys: ['samples'],
  args: ['node', 'at_ms', 'keep_ms', 'sample'],
})

const noteKeyUses = script('console/note_key_uses', { keys: ['uses'], args: ['moments'] })

/** State of the console in Redis. */
export function createRedisConsole(ask: Ask, clock: Clock): ConsoleState {
  return {
    sessions: createSessions(ask, clock),
    requests: createRedisRequests(ask, clock),
    samples: createSamples(ask),
    keyUses: createKeyUses(ask),
    sessionEnds: createSessionEnds(ask),
    usageMarks: createUsageMarks(ask),
  }
}

function createUsageMarks(ask: Ask): UsageMarks {
  return {
    note: (writer, mark) =>
      ask(async (redis) => void (await redis.hset(keys.usageMarks, writer, JSON.stringify(mark)))),
    async forget(writers) {
      if (writers.length > 0) await ask((redis) => redis.hdel(keys.usageMarks, ...writers))
    },
    async read() {
      const marks = Object.entries(await ask((redis) => redis.hgetall(keys.usageMarks)))
      return new Map(marks.map(([writer, mark]) => [writer, JSON.parse(mark) as UsageMark]))
    },
  }
}

/** An order that no one carries out is kept at least this long. */
const ORDER_MS = 30_000

function createSessionEnds(ask: Ask): SessionEnds {
  return {
    order: (id) =>
      ask(async (redis) => {
        await redis.sadd(keys.sessionEnds, id)
        await redis.pexpire(keys.sessionEnds, ORDER_MS)
      }),
    pending: () => ask((redis) => redis.smembers(keys.sessionEnds)),
    withdraw: (id) => ask(async (redis) => void (await redis.srem(keys.sessionEnds, id))),
  }
}

const SESSION_FIELDS = [
  ...['key_sha256', 'person', 'holder', 'csrf_token', 'idle_ms', 'began_at_ms', 'seen_at_ms'],
  ...['expires_at_ms', 'address', 'browser'],
] as const
/** Ids that are looked up at a time. Some are of sessions that have ended: they go with the time that they had. */
const SESSIONS_AT_ONCE = 200
/** How much the clock of Redis may differ from that of a node when lists of sessions are cut. */
const CLOCKS_MS = 3_600_000

function createSessions(ask: Ask, clock: Clock): ConsoleSessions {
  const find = (id: string) =>
    ask(async (redis) => storedSession(id, await redis.hmget(keys.consoleSession(id), ...SESSION_FIELDS)))
  return {
    async begin({ id, keySha256, person, holder, csrfToken, idleMs, address, browser }, ttlMs) {
      const untilMs = await ask(
        beginSession({
          session: keys.consoleSession(id),
          key_sha256: keySha256 ?? '',
          person: person === null ? '' : JSON.stringify(person),
          holder,
          csrf_token: csrfToken,
          idle_ms: idleMs ?? '',
          ttl_ms: ttlMs,
          address: address ?? '',
          browser: browser ?? '',
        }),
      )
      if (untilMs === null) return
      // They are in other slots of a cluster: a session that is in no list can be used all the same.
      for (const list of [keys.consoleSessions(null), keys.consoleSessions(holder)]) {
        await ask((redis) => redis.zadd(list, untilMs, id))
        await ask((redis) => redis.zremrangebyscore(list, '-inf', clock.wallNow() - CLOCKS_MS))
        await ask((redis) => redis.expire(list, Math.ceil((ttlMs + CLOCKS_MS) / 1000), 'GT'))
        await ask((redis) => redis.expire(list, Math.ceil((ttlMs + CLOCKS_MS) / 1000), 'NX'))
      }
    },
    find,
    touch: (id) => ask(touchSession({ session: keys.consoleSession(id) })),
    async end(id) {
      const holder = await ask((redis) => redis.hget(keys.consoleSession(id), 'holder'))
      await ask((redis) => redis.del(keys.consoleSession(id)))
      const lists = [null, ...(typeof holder === 'string' ? [holder] : [])]
      for (const list of lists) await ask((redis) => redis.zrem(keys.consoleSessions(list), id))
    },
    async list(holder, limit) {
      const found: KeptSession[] = []
      for (let from = 0; found.length < limit; from += SESSIONS_AT_ONCE) {
        const ids = await ask((redis) =>
          redis.zrevrange(keys.consoleSessions(holder), from, from + SESSIONS_AT_ONCE - 1),
        )
        const sessions = await Promise.all(ids.map(find))
        found.push(...sessions.filter((session) => session !== null))
        if (ids.length < SESSIONS_AT_ONCE) break
      }
      return found.slice(0, limit)
    },
    claim: (mark, ttlMs) =>
      ask(async (redis) => (await redis.set(keys.consoleMark(mark), '', 'PX', ttlMs, 'NX')) === 'OK'),
    isClaimed: (mark) => ask(async (redis) => (await redis.exists(keys.consoleMark(mark))) === 1),
  }
}

/** A session out of its fields, some of which those have not that an earlier version began. Null: there is none. */
function storedSession(id: string, fields: readonly (string | null)[]): KeptSession | null {
  const [keySha256, person, holder, csrfToken, idleMs, beganAtMs, seenAtMs, expiresAtMs, address, browser] =
    fields
  if (typeof keySha256 !== 'string' && typeof person !== 'string') return null
  return {
    id,
    keySha256: keySha256 ?? null,
    person: typeof person === 'string' ? (JSON.parse(person) as SessionPerson) : null,
    holder: holder ?? `key:${keySha256}`,
    csrfToken: replyText(csrfToken),
    idleMs: typeof idleMs === 'string' ? replyInteger(idleMs) : null,
    address: address ?? null,
    browser: browser ?? null,
    beganAtMs: replyInteger(beganAtMs),
    seenAtMs: replyInteger(seenAtMs),
    expiresAtMs: replyInteger(expiresAtMs),
  }
}

function createSamples(ask: Ask): NodeSamples {
  return {
    add: (sample, keepMs) =>
      ask(
        addSample({
          samples: keys.nodeSamples,
          node: encodeURIComponent(sample.node),
          at_ms: sample.atMs,
          keep_ms: keepMs,
          sample: JSON.stringify(sample),
        }),
      ),
    async since(atMs) {
      const samples = await ask((redis) => redis.zrangebyscore(keys.nodeSamples, `(${atMs}`, '+inf'))
      return parseInTurns<NodeSample>(samples.map(withoutNode))
    },
  }
}

function createKeyUses(ask: Ask): KeyUses {
  return {
    note: (uses) => ask(noteKeyUses({ uses: keys.apiKeyUses, moments: JSON.stringify(uses) })),
    read: (keyIds) =>
      ask(async (redis) => {
        if (keyIds.length === 0) return {}
        const moments = await redis.hmget(keys.apiKeyUses, ...keyIds)
        const found = keyIds.map((keyId, index) => [keyId, moments[index]] as const)
        return Object.fromEntries(
          found.flatMap(([keyId, atMs]) => (typeof atMs === 'string' ? [[keyId, replyInteger(atMs)]] : [])),
        )
      }),
  }
}

/** It stands behind the name of its node; see add_sample.lua. */
function withoutNode(member: string): string {
  return member.slice(member.indexOf(' ') + 1)
}

/** Failed requests that are kept of a workspace, and others as many. */
const REQUESTS_MAX = 1_000
/** How long a batch of them is known: a sender that does not hear that it was kept gives up before. */
const BATCH_MS = 600_000
/** As long as add_requests.lua keeps them, and a day more on either side for clocks that differ. */
const DAYS = { ahead: 1, back: 8 }
const DAY_MS = 86_400_000
/** Entries that are read at a time. */
const PAGE = 100
/** How much later by its node's clock a request may have ended than it came by the clock of Redis. */
const SKEW_MS = 2_000

const addRequests = script('console/add_requests', {
  keys: ['batch', 'requests'],
  args: ['entries', 'token_ms', 'max'],
})

/** Facts that requests are chosen by. They stand before each record, so that only wanted records are read whole. */
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

function createRedisRequests(ask: Ask, clock: Clock): RequestRecords {
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
          ask(
            addRequests({
              batch: keys.requestBatch(workspace, failed ? `${token}:failed` : token),
              requests: signInKey(workspace, failed),
              entries: JSON.stringify(own.map((record) => [recordFacts(record), JSON.stringify(record)])),
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
          for await (const page of pagesOf(ask, signInKey(workspace, failed), clock))
            if (!page.every((one) => newest.take(one))) break
          return newest.found
        }),
      )
      const sorted = found.flat().sort((one, other) => other.facts.atMs - one.facts.atMs)
      return sorted.slice(0, limit).map(requestOf)
    },

    async get(workspace, recordId) {
      for (const failed of [true, false])
        for await (const page of pagesOf(ask, signInKey(workspace, failed), clock)) {
          const found = page.find(({ facts }) => facts.recordId === recordId)
          if (found !== undefined) return requestOf(found)
        }
      return null
    },
  }
}

/** Failed requests are kept apart, so that others do not push them out. */
function signInKey(workspace: string, failed: boolean): string {
  return failed ? keys.failedRequests(workspace) : keys.requests(workspace)
}

/**
 * The newest entries that are asked for. Entries are in the order in which they came, those of several nodes mixed.
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
async function* pagesOf(ask: Ask, place: string, clock: Clock): AsyncGenerator<readonly Entry[]> {
  const today = Math.floor(clock.wallNow() / DAY_MS)
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

function recordFacts(record: RequestRecord): string {
  const { recordId, id, atMs, app, keyId, path, jobId } = record
  const failed = hasFailed(record)
  return JSON.stringify({ recordId, id, atMs, app, keyId, path, jobId, failed })
}

function hasFailed({ status, error }: RequestRecord): boolean {
  return error !== null || (status ?? 0) >= 400
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

function requestOf({ record }: Entry): RequestRecord {
  return JSON.parse(record) as RequestRecord
}
