import type { StoredKey, StoredKeys } from '../../schema/stored-keys.ts'
import type { Ask } from './ask.ts'
import { keys } from './keys.ts'
import { integerOf, pairsOf, textOf, textsOf } from './reply.ts'
import { script } from './script.ts'

const createKey = script('create_key', {
  keys: ['all', 'version'],
  args: ['id', 'key'],
  reply: () => undefined,
})

const revokeKey = script('revoke_key', {
  keys: ['all', 'revoked', 'version'],
  args: ['id'],
  reply: (reply): StoredKey | null => {
    const [key, revokedAtMs] = textsOf(reply)
    return key === undefined ? null : keyOf(textOf(key), textOf(revokedAtMs))
  },
})

const forgetKey = script('forget_key', {
  keys: ['all', 'revoked'],
  args: ['id'],
  reply: () => undefined,
})

const listKeys = script('list_keys', {
  keys: ['all', 'revoked'],
  args: [],
  reply: (reply): readonly StoredKey[] => {
    if (!Array.isArray(reply)) throw new Error('list_keys.lua replied no list')
    const revoked = new Map(pairsOf(reply[1]))
    return pairsOf(reply[0])
      .map(([id, key]) => keyOf(key, revoked.get(id)))
      .sort(byTime)
  },
})

/** API keys in Redis: those of all workspaces in one place, because every node reads all of them. */
export function createRedisStoredKeys(ask: Ask): StoredKeys {
  const places = { all: keys.apiKeys, revoked: keys.revokedApiKeys, version: keys.apiKeysVersion }
  return {
    create: (key) => ask((redis) => createKey(redis, { ...places, id: key.id, key: JSON.stringify(key) })),
    revoke: (id) => ask((redis) => revokeKey(redis, { ...places, id })),
    forget: (id) => ask((redis) => forgetKey(redis, { ...places, id })),
    list: () => ask((redis) => listKeys(redis, places)),
    version: () =>
      ask(async (redis) => {
        const [count, changedAt] = await redis.hmget(places.version, 'count', 'changed_at')
        return `${count ?? 0}-${changedAt ?? 0}`
      }),
  }
}

function keyOf(json: string, revokedAtMs: string | undefined): StoredKey {
  const key = JSON.parse(json) as StoredKey
  return revokedAtMs === undefined ? key : { ...key, revokedAtMs: integerOf(revokedAtMs) }
}

function byTime(one: StoredKey, other: StoredKey): number {
  return one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
}
