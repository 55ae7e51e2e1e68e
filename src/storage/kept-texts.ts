import type { ByteBudget } from '../schema/budget.ts'
import type { KeptText } from '../schema/jobs.ts'
import type { Objects } from '../schema/objects.ts'
import { copyBytes, objectBytes, untilAborted } from './body-bytes.ts'
import { unavailable } from './failure.ts'

/** Longest text that stands in the state itself, bytes of UTF-8; most transcripts are far below. */
const INLINE_BYTES = 16 * 1024

export interface KeptTextsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  /** How long the store may take with a text of so many bytes, in ms. */
  readonly withinMs: (bytes: number) => number
}

/** Texts in the state and, when they are long, in the object store. */
export interface KeptTexts {
  /**
   * @param nameObject makes a key that nothing was ever put under: what the store takes after all, too late, must not
   *                   stand where the next attempt puts its own
   * @throws GatewayError DEPENDENCY_UNAVAILABLE
   */
  keep(text: string, nameObject: () => string): Promise<KeptText>
  /**
   * Null: the object is gone.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE
   */
  open(kept: KeptText): Promise<string | null>
}

export function createKeptTexts({ objects, budget, withinMs }: KeptTextsOptions): KeptTexts {
  /** Accounts for `bytes` of text while `act` has them. */
  async function within<Value>(bytes: number, act: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    budget.charge(bytes)
    try {
      return await act(AbortSignal.timeout(withinMs(bytes)))
    } catch (error) {
      throw unavailable(error)
    } finally {
      budget.refund(bytes)
    }
  }

  return {
    async keep(text, nameObject) {
      const bytes = Buffer.byteLength(text)
      if (bytes <= INLINE_BYTES) return { text }
      const object = nameObject()
      await within(bytes, (signal) => objects.put(object, whole(Buffer.from(text)), bytes, { signal }))
      return { object, bytes }
    },

    async open(kept) {
      if ('text' in kept) return kept.text
      const { object, bytes } = kept
      return await within(bytes, async (signal) => {
        try {
          const chunks = objectBytes(objects, object, 0, bytes, signal)
          const { buffer } = await copyBytes(untilAborted(chunks, signal), bytes)
          return Buffer.from(buffer).toString()
        } catch (error) {
          // An object that is missing fails like any other; only a list tells that it is.
          if (signal.aborted || (await isThere(objects, object))) throw error
          return null
        }
      })
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
