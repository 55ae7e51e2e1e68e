import type { KeyChanges, KeyPage, StoredKey, StoredKeys } from '../../../contracts/stored-keys.ts'
import { byAge } from '../../../contracts/stored-keys.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyPairs, replyText, replyTexts, script } from './script.ts'

const HOUR_MS = 3_600_000
/** Keys of a page, about: a millisecond of Redis, for which all nodes wait. */
const PAGE = 1_000
const STEPS = { steps: 'stored-keys/key_steps' } as const

const createKey = script('stored-keys/create_key', {
  ...STEPS,
  keys: ['all', 'version', 'changes'],
  args: ['id', 'key'],
})

const replaceKey = script('stored-keys/replace_key', {
  ...STEPS,
  keys: ['all', 'version', 'changes'],
  args: ['id', 'key', 'count', 'changed_at'],
  reply: (reply) => reply === 1,
})

const revokeKey = script('stored-keys/revoke_key', {
  ...STEPS,
  keys: ['all', 'revoked', 'version', 'changes'],
  args: ['id'],
  reply: (reply): StoredKey | null => {
    const [key, revokedAtMs] = replyTexts(reply)
    return key === undefined ? null : readStoredKey(replyText(key), replyText(revokedAtMs))
  },
})

const forgetKey = script('stored-keys/forget_key', { keys: ['all', 'revoked'], args: ['id'] })

const pageKeys = script('stored-keys/page_keys', {
  keys: ['all', 'revoked'],
  args: ['cursor', 'count'],
  reply: (reply): KeyPage => {
    const [cursor, read, moments, total] = reply as unknown[]
    return {
      keys: readKeys(read, moments),
      next: cursor === '0' ? null : String(cursor),
      total: Number(total),
    }
  },
})

const changedKeys = script('stored-keys/changed_keys', {
  keys: ['all', 'revoked', 'version', 'changes'],
  args: ['count', 'changed_at'],
  reply: (reply): KeyChanges | null => {
    const [version, read, moments] = reply as unknown[]
    return version === undefined ? null : { keys: readKeys(read, moments), version: String(version) }
  },
})

/** API keys in Redis: those of all workspaces in one place, because every node reads all of them. */
export function createRedisStoredKeys(ask: Ask): StoredKeys {
  const places = {
    all: keys.apiKeys,
    revoked: keys.revokedApiKeys,
    version: keys.apiKeysVersion,
    changes: keys.apiKeysChanges,
  }
  const partsOf = (version: string) => {
    const [count = '', changed_at = ''] = version.split('-')
    return { count, changed_at }
  }
  const page = (from: string | null) => ask(pageKeys({ ...places, cursor: from ?? '0', count: PAGE }))
  return {
    create: (key) => ask(createKey({ ...places, id: key.id, key: textOfKey(key) })),
    replace: (key, version) => {
      // Whether it is revoked is kept beside it.
      const text = textOfKey({ ...key, revokedAtMs: null })
      return ask(replaceKey({ ...places, id: key.id, key: text, ...partsOf(version) }))
    },
    revoke: (id) => ask(revokeKey({ ...places, id })),
    forget: (id) => ask(forgetKey({ ...places, id })),
    async list() {
      const all = new Map<string, StoredKey>()
      for (let from: string | null = '0'; from !== null; ) {
        const { keys, next }: KeyPage = await page(from)
        for (const key of keys) all.set(key.id, key)
        from = next
      }
      return [...all.values()].sort(byAge)
    },
    page,
    changes: (since) => ask(changedKeys({ ...places, ...partsOf(since) })),
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

/** Ids and keys in turn, and for each the moment at which it was revoked, or null. */
function readKeys(read: unknown, moments: unknown): StoredKey[] {
  const revoked = replyTexts(moments)
  return replyPairs(read).map(([, key], at) => readStoredKey(key, revoked[at] ?? undefined))
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
