import type { StoredKey, StoredKeys } from '../../../contracts/stored-keys.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyPairs, replyText, replyTexts, script } from './script.ts'

const HOUR_MS = 3_600_000

const createKey = script('stored-keys/create_key', {
  keys: ['all', 'version'],
  args: ['id', 'key'],
  reply: () => undefined,
})

const replaceKey = script('stored-keys/replace_key', {
  keys: ['all', 'version'],
  args: ['id', 'key', 'count', 'changed_at'],
  reply: (reply) => reply === 1,
})

const revokeKey = script('stored-keys/revoke_key', {
  keys: ['all', 'revoked', 'version'],
  args: ['id'],
  reply: (reply): StoredKey | null => {
    const [key, revokedAtMs] = replyTexts(reply)
    return key === undefined ? null : readStoredKey(replyText(key), replyText(revokedAtMs))
  },
})

const forgetKey = script('stored-keys/forget_key', {
  keys: ['all', 'revoked'],
  args: ['id'],
  reply: () => undefined,
})

const listKeys = script('stored-keys/list_keys', {
  keys: ['all', 'revoked'],
  args: [],
  reply: (reply): readonly StoredKey[] => {
    if (!Array.isArray(reply)) throw new Error('list_keys.lua replied no list')
    const revoked = new Map(replyPairs(reply[1]))
    return replyPairs(reply[0])
      .map(([id, key]) => readStoredKey(key, revoked.get(id)))
      .sort(byTime)
  },
})

/** API keys in Redis: those of all workspaces in one place, because every node reads all of them. */
export function createRedisStoredKeys(ask: Ask): StoredKeys {
  const places = { all: keys.apiKeys, revoked: keys.revokedApiKeys, version: keys.apiKeysVersion }
  return {
    create: (key) => ask((redis) => createKey(redis, { ...places, id: key.id, key: textOfKey(key) })),
    replace: (key, version) => {
      const [count = '', changed_at = ''] = version.split('-')
      // Whether it is revoked is kept beside it.
      const text = textOfKey({ ...key, revokedAtMs: null })
      return ask((redis) => replaceKey(redis, { ...places, id: key.id, key: text, count, changed_at }))
    },
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

/** Encodes the mark of a key also where there is none: a text without `kind` is of a version that knew no marks. */
function textOfKey(key: StoredKey): string {
  return JSON.stringify({ ...key, kind: key.kind ?? null })
}

function readStoredKey(json: string, revokedAtMs: string | undefined): StoredKey {
  const { kind, ...key } = JSON.parse(json) as Omit<StoredKey, 'kind'> & { kind?: StoredKey['kind'] | null }
  const isPlayground = kind === undefined ? wasPlaygroundKey(key) : kind === 'playground'
  const marked: StoredKey = isPlayground ? { ...key, kind: 'playground' } : key
  return revokedAtMs === undefined ? marked : { ...marked, revokedAtMs: replyInteger(revokedAtMs) }
}

/** Older versions told the playground's keys by their name and their life of an hour. */
function wasPlaygroundKey({ name, createdAtMs, expiresAtMs }: StoredKey): boolean {
  return name === 'playground' && expiresAtMs === createdAtMs + HOUR_MS
}

function byTime(one: StoredKey, other: StoredKey): number {
  return one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
}
