import { newId } from '../ids.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { StoredResult } from '../schema/ledger.ts'
import type { Objects } from '../schema/objects.ts'
import type { SlotResults } from '../schema/slot-results.ts'
import { createKeptTexts } from './kept-texts.ts'
import { keySegment } from './key.ts'

/** How long the store may take with one result, in ms: the caller waits for an answer that is there already. */
const STORE_MS = 5_000

export interface SlotResultsOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
}

/** Keeps answers for replay in the state and, when they are long, in the object store. */
export function createSlotResults({ objects, budget }: SlotResultsOptions): SlotResults {
  const texts = createKeptTexts({ objects, budget, withinMs: () => STORE_MS })
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
      // What is left over goes with the sweep.
      await objects.remove(body.object).catch(() => {})
    },
  }
}
