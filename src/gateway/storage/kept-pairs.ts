import { hash } from 'node:crypto'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { ObjectInfo, Objects } from '../../contracts/objects.ts'
import { type SealContext, seal, unseal } from '../../contracts/sealing.ts'
import type { KeptPair, KeptPairs, PairOwner } from '../../contracts/shadow.ts'
import { type Clock, deadline, systemClock } from '../../contracts/time.ts'
import { chunksOf, copyBytes, objectBytes, untilAborted } from './body-bytes.ts'
import { accounted } from './budget.ts'
import { keySegment, randomName } from './key.ts'

/** How long the store may take with one pair. */
const STORE_MS = 10_000
/** End of the name of what is left of a pair when its reference was taken. */
const TAKEN = '.taken'

export interface KeptPairsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  /** As `readSecretKeys` returns them: all nodes have the same. */
  readonly secretKeys: readonly Buffer[]
  readonly clock?: Clock
}

/**
 * Keeps pairs as objects `pair/<workspace>/<digest>/<second of its end>.<random>`, sealed as secrets are. What a taken
 * reference leaves beside it, until the same end, is the number of its words.
 */
export function createKeptPairs({
  objects,
  budget,
  secretKeys,
  clock = systemClock,
}: KeptPairsOptions): KeptPairs {
  async function put(key: string, workspace: string, value: object, signal: AbortSignal): Promise<void> {
    const bytes = Buffer.from(seal(secretKeys, JSON.stringify(value), pairContext(workspace, key)))
    await accounted(budget, bytes.length, () => objects.put(key, chunksOf(bytes), bytes.length, { signal }))
  }

  /** Null: it was sealed with a key that is no longer there. */
  async function read({ key, bytes }: ObjectInfo, workspace: string): Promise<unknown> {
    return await accounted(budget, bytes, async () => {
      const signal = deadline(clock, STORE_MS)
      const chunks = objectBytes(objects, key, 0, bytes, signal)
      const sealed = Buffer.from(await copyBytes(untilAborted(chunks, signal), bytes)).toString()
      const text = unseal(secretKeys, sealed, pairContext(workspace, key))
      return text === null ? null : JSON.parse(text)
    })
  }

  return {
    async keep(owner, kept, ttlSeconds, signal) {
      const until = Math.ceil(clock.wallNow() / 1000) + ttlSeconds
      const key = `${folderOf(owner)}${until}.${randomName()}`
      await put(key, owner.workspace, kept, AbortSignal.any([signal, deadline(clock, STORE_MS)]))
    },

    async find(owner) {
      const { workspace } = owner
      const found: ObjectInfo[] = []
      for await (const object of objects.list(folderOf(owner)))
        if (pairEndMs(object.key) > clock.wallNow()) found.push(object)
      const calls = new Set(found.map(({ key }) => pairName(key)))
      if (calls.size > 1) return 'several'
      const taken = found.find(({ key }) => key.endsWith(TAKEN))
      if (taken !== undefined) return (await read(taken, workspace)) as { takenWords: number } | null
      const [object] = found
      const kept = object === undefined ? null : ((await read(object, workspace)) as KeptPair | null)
      if (object === undefined || kept === null) return null
      return {
        kept,
        async settle(takenWords) {
          await put(`${object.key}${TAKEN}`, workspace, { takenWords }, deadline(clock, STORE_MS))
          // An object that stays then ends at its time.
          await objects.remove(object.key).catch(() => {})
        },
      }
    },

    async forget(owner) {
      for await (const { key } of objects.list(folderOf(owner))) await objects.remove(key)
    },
  }
}

/** When an object of a pair ends, epoch milliseconds; a name that says nothing of it never ends. */
export function pairEndMs(key: string): number {
  const [, seconds] = /\/(\d+)\.[0-9a-f]+(?:\.taken)?$/.exec(key) ?? []
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1000
}

function pairName(key: string): string {
  return key.endsWith(TAKEN) ? key.slice(0, -TAKEN.length) : key
}

/** Ids are the caller's own words; of two workspaces the digest is never the same. */
function folderOf({ workspace, callId }: PairOwner): string {
  const digest = hash('sha256', JSON.stringify([workspace, callId])).slice(0, 40)
  return `pair/${keySegment(workspace)}/${digest}/`
}

/** By its name: an object in the place of another one does not open. */
function pairContext(workspace: string, key: string): SealContext {
  return { purpose: `shadow pair ${key}`, workspace }
}
