import type {
  ConsoleSessions,
  ConsoleState,
  KeyUses,
  NodeSample,
  NodeSamples,
  RequestFilter,
  RequestRecord,
  RequestRecords,
} from '../../schema/console.ts'
import { parseInTurns } from '../parse-in-turns.ts'
import type { Ask } from './ask.ts'
import { keys } from './keys.ts'
import { integerOf, textOf, textsOf } from './reply.ts'
import { script } from './script.ts'

/** So many requests of a workspace are kept. */
const REQUESTS_MAX = 1_000
/** How long a batch of them is known: whoever does not hear that it was kept gives up before. */
const BATCH_MS = 600_000

const beginSession = script('begin_session', {
  keys: ['session'],
  args: ['key_sha256', 'csrf_token', 'ttl_ms'],
  reply: () => undefined,
})

const addRequests = script('add_requests', {
  keys: ['batch', 'requests'],
  args: ['records', 'token_ms', 'max'],
  steps: 'request_steps',
  reply: () => undefined,
})

const listRequests = script('list_requests', {
  keys: ['requests'],
  args: ['max'],
  steps: 'request_steps',
  reply: (reply) => textsOf(reply).map(recordOf),
})

const findRequest = script('find_request', {
  keys: ['requests'],
  args: ['id'],
  steps: 'request_steps',
  reply: (reply) => textsOf(reply).map(recordOf).at(0) ?? null,
})

const addSample = script('add_sample', {
  keys: ['samples'],
  args: ['node', 'at_ms', 'keep_ms', 'sample'],
  reply: () => undefined,
})

const noteKeyUses = script('note_key_uses', {
  keys: ['uses'],
  args: ['moments'],
  reply: () => undefined,
})

/** What the console keeps, in Redis. */
export function createRedisConsole(ask: Ask): ConsoleState {
  return {
    sessions: createSessions(ask),
    requests: createRequests(ask),
    samples: createSamples(ask),
    keyUses: createKeyUses(ask),
  }
}

function createSessions(ask: Ask): ConsoleSessions {
  return {
    begin: ({ id, keySha256, csrfToken }, ttlMs) =>
      ask((redis) =>
        beginSession(redis, {
          session: keys.consoleSession(id),
          key_sha256: keySha256,
          csrf_token: csrfToken,
          ttl_ms: ttlMs,
        }),
      ),
    find: (id) =>
      ask(async (redis) => {
        const fields = ['key_sha256', 'csrf_token', 'expires_at_ms'] as const
        const [keySha256, csrfToken, expiresAtMs] = await redis.hmget(keys.consoleSession(id), ...fields)
        if (typeof keySha256 !== 'string') return null
        return { id, keySha256, csrfToken: textOf(csrfToken), expiresAtMs: integerOf(expiresAtMs) }
      }),
    end: (id) => ask(async (redis) => void (await redis.del(keys.consoleSession(id)))),
  }
}

function createRequests(ask: Ask): RequestRecords {
  return {
    async add(token, records) {
      const ofWorkspaces = Map.groupBy(records, ({ workspace }) => workspace)
      const adding = [...ofWorkspaces].map(([workspace, own]) =>
        ask((redis) =>
          addRequests(redis, {
            batch: keys.requestBatch(workspace, token),
            requests: keys.requests(workspace),
            records: JSON.stringify(own.flatMap((record) => [record.id, JSON.stringify(record)])),
            token_ms: BATCH_MS,
            max: REQUESTS_MAX,
          }),
        ),
      )
      await Promise.all(adding)
    },
    async list(filter) {
      const records = await ask((redis) =>
        listRequests(redis, { requests: keys.requests(filter.workspace), max: REQUESTS_MAX }),
      )
      // Those of several nodes come in turns.
      const newestFirst = records.toSorted((one, other) => other.atMs - one.atMs)
      return newestFirst.filter((record) => matches(record, filter)).slice(0, filter.limit)
    },
    get: (workspace, id) => ask((redis) => findRequest(redis, { requests: keys.requests(workspace), id })),
  }
}

function matches(record: RequestRecord, filter: RequestFilter): boolean {
  const { outcome, path, app, keyId, jobId, beforeMs } = filter
  return (
    (outcome === null || hasFailed(record) === (outcome === 'failed')) &&
    (path === null || record.path === path) &&
    (app === null || record.app === app) &&
    (keyId === null || record.keyId === keyId) &&
    (jobId === null || record.jobId === jobId) &&
    (beforeMs === null || record.atMs < beforeMs)
  )
}

function hasFailed({ status, error }: RequestRecord): boolean {
  return status === null ? error !== null : status >= 400
}

function createSamples(ask: Ask): NodeSamples {
  return {
    add: (sample, keepMs) =>
      ask((redis) =>
        addSample(redis, {
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
    note: (uses) =>
      ask((redis) => noteKeyUses(redis, { uses: keys.apiKeyUses, moments: JSON.stringify(uses) })),
    read: (keyIds) =>
      ask(async (redis) => {
        if (keyIds.length === 0) return {}
        const moments = await redis.hmget(keys.apiKeyUses, ...keyIds)
        const found = keyIds.map((keyId, index) => [keyId, moments[index]] as const)
        return Object.fromEntries(
          found.flatMap(([keyId, atMs]) => (typeof atMs === 'string' ? [[keyId, integerOf(atMs)]] : [])),
        )
      }),
  }
}

function recordOf(json: string | null): RequestRecord {
  return JSON.parse(textOf(json)) as RequestRecord
}

/** It stands behind the name of its node; see add_sample.lua. */
function withoutNode(member: string): string {
  return member.slice(member.indexOf(' ') + 1)
}
