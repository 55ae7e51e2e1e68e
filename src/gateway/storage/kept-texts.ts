import { crc32 } from 'node:zlib'
import type { ByteBudget } from '../../contracts/budget.ts'
import { newId } from '../../contracts/ids.ts'
import type { StoredResult } from '../../contracts/ledger.ts'
import type { KeptText, Objects } from '../../contracts/objects.ts'
import type { SlotResults } from '../../contracts/slot-results.ts'
import { type Clock, deadline, systemClock } from '../../contracts/time.ts'
import { chunksOf, copyBytes, objectBytes, untilAborted } from './body-bytes.ts'
import { accounted } from './budget.ts'
import { damaged } from './failure.ts'
import { keySegment } from './key.ts'

/** Longest text that is kept in the state itself, bytes of UTF-8; most transcripts are far below. */
const INLINE_BYTES = 16 * 1024

/** The state itself holds the text, so that keeping it asks no store. */
export function isInline(text: string): boolean {
  return Buffer.byteLength(text) <= INLINE_BYTES
}

interface KeptTextsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  /** How long the store may take with a text of so many bytes, in ms. */
  readonly withinMs: (bytes: number) => number
  readonly clock: Clock
}

/** Texts in the state and, when they are long, in the object store. */
interface KeptTexts {
  /**
   * @param nameObject makes a key that was never used: an object that the store takes too late must not be in the place
   *                   of the next attempt's
   * @throws GatewayError DEPENDENCY_UNAVAILABLE
   */
  keep(text: string, nameObject: () => string): Promise<KeptText>
  /**
   * Resolves to null when the object is gone.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE, also when it is not what was kept
   */
  open(kept: KeptText): Promise<string | null>
}

export function createKeptTexts({ objects, budget, withinMs, clock }: KeptTextsOptions): KeptTexts {
  const within = <Value>(bytes: number, act: (signal: AbortSignal) => Promise<Value>) =>
    accounted(budget, bytes, () => act(deadline(clock, withinMs(bytes))))

  return {
    async keep(text, nameObject) {
      if (isInline(text)) return { text }
      const whole = Buffer.from(text)
      const bytes = whole.length
      const object = nameObject()
      await within(bytes, (signal) => objects.put(object, chunksOf(whole), bytes, { signal }))
      return { object, bytes, crc32: crc32(whole) }
    },

    async open(kept) {
      if ('text' in kept) return kept.text
      const { object, bytes, crc32: written } = kept
      return await within(bytes, async (signal) => {
        try {
          const chunks = objectBytes(objects, object, 0, bytes, signal)
          const whole = await copyBytes(untilAborted(chunks, signal), bytes)
          if (written !== undefined && crc32(whole) !== written) throw damaged(object)
          return Buffer.from(whole.buffer).toString()
        } catch (error) {
          // An object that is missing fails like any other; only a list tells that it is.
          if (signal.aborted || (await isThere(objects, object))) throw error
          return null
        }
      })
    },
  }
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function isThere(objects: Pick<Objects, 'list'>, key: string): Promise<boolean> {
  for await (const object of objects.list(key)) if (object.key === key) return true
  return false
}

/** How long the store may take with one result, in ms: the caller waits for an answer that is there already. */
const STORE_MS = 5_000

interface SlotResultsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  readonly clock?: Clock
}

/** Keeps answers for replay in the state and, when they are long, in the object store. */
export function createSlotResults({ objects, budget, clock = systemClock }: SlotResultsOptions): SlotResults {
  const texts = createKeptTexts({ objects, budget, withinMs: () => STORE_MS, clock })
  return {
    async keep(workspace, { status, headers, text }) {
      const nameObject = () => `slot/${keySegment(workspace)}/${newId('call')}/0`
      return { status, headers, body: await texts.keep(text, nameObject) }
    },

    async open({ status, headers, body }) {
      const text = await texts.open(body)
      return text === null ? null : { status, headers, text }
    },

    async drop({ body }: StoredResult) {
      if ('text' in body) return
      // The sweeper deletes what is left.
      await objects.remove(body.object).catch(() => {})
    },
  }
}
