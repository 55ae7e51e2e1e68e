import type { ConsoleSessions, ConsoleState, KeyUses, NodeSample, NodeSamples } from '../../schema/console.ts'
import { parseInTurns } from '../parse-in-turns.ts'
import type { Ask } from './ask.ts'
import { createRedisRequests } from './console-requests.ts'
import { keys } from './keys.ts'
import { integerOf, textOf } from './reply.ts'
import { script } from './script.ts'

const beginSession = script('begin_session', {
  keys: ['session'],
  args: ['key_sha256', 'csrf_token', 'ttl_ms'],
  reply: () => undefined,
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
    requests: createRedisRequests(ask),
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

/** It stands behind the name of its node; see add_sample.lua. */
function withoutNode(member: string): string {
  return member.slice(member.indexOf(' ') + 1)
}
