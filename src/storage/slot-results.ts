import { newId } from '../ids.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { StoredResult } from '../schema/ledger.ts'
import type { Objects } from '../schema/objects.ts'
import type { SlotResults } from '../schema/slot-results.ts'
import { copyBytes, objectBytes, untilAborted } from './body-bytes.ts'
import { unavailable } from './failure.ts'
import { keySegment } from './key.ts'

/** Longest text that stands in the slot itself, bytes of UTF-8; most transcripts are far below. */
const INLINE_BYTES = 16 * 1024
/** How long the store may take with one result, in ms: the caller waits for an answer that is there already. */
const STORE_MS = 5_000

export interface SlotResultsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
}

/** Keeps answers for replay in the state and, when they are long, in the object store. */
export function createSlotResults({ objects, budget }: SlotResultsOptions): SlotResults {
  /** Accounts for `bytes` of text while `act` has them, and gives it 5 s. */
  async function within<Value>(bytes: number, act: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    budget.charge(bytes)
    try {
      return await act(AbortSignal.timeout(STORE_MS))
    } catch (error) {
      throw unavailable(error)
    } finally {
      budget.refund(bytes)
    }
  }

  return {
    async keep(workspace, { status, headers, text }) {
      const bytes = Buffer.byteLength(text)
      if (bytes <= INLINE_BYTES) return { status, headers, body: { text } }
      // A name of its own for every attempt: what the store takes after all, too late, goes with the sweep.
      const object = `slot/${keySegment(workspace)}/${newId('call')}/0`
      await within(bytes, (signal) => objects.put(object, whole(Buffer.from(text)), bytes, { signal }))
      return { status, headers, body: { object, bytes } }
    },

    async open({ status, headers, body }) {
      if ('text' in body) return { status, headers, text: body.text }
      const { object, bytes } = body
      return await within(bytes, async (signal) => {
        try {
          const chunks = objectBytes(objects, object, 0, bytes, signal)
          const { buffer } = await copyBytes(untilAborted(chunks, signal), bytes)
          return { status, headers, text: Buffer.from(buffer).toString() }
        } catch (error) {
          // An object that is missing fails like any other; only a list tells that it is.
          if (signal.aborted || (await isThere(objects, object))) throw error
          return null
        }
      })
    },

    async drop({ body }: StoredResult) {
      if ('text' in body) return
      // What is left over goes with the sweep.
      await objects.remove(body.object).catch(() => {})
    },
  }
}

async function* whole(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

async function isThere(objects: Objects, key: string): Promise<boolean> {
  for await (const object of objects.list(key)) if (object.key === key) return true
  return false
}
