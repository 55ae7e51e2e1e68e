import type { Objects } from '../../contracts/objects.ts'
import type { GenerationWitness } from '../../contracts/state.ts'
import { type Clock, deadline, systemClock } from '../../contracts/time.ts'
import { chunksOf } from './body-bytes.ts'

const FOLDER = 'state/generation/'
/** Longest that the store may take with a mark. */
const LIMIT_MS = 10_000

/**
 * Remembers generations of the state in the object store, as objects `state/generation/<id>`: in a bucket for all
 * nodes, in a folder for its own node. None is overwritten; ids are in the order of time, so that the last is in force.
 */
export function createGenerationMarks(
  objects: Pick<Objects, 'list' | 'put'>,
  clock: Clock = systemClock,
): GenerationWitness {
  const latest = async () => {
    let last: string | null = null
    for await (const { key } of objects.list(FOLDER)) {
      const id = key.slice(FOLDER.length)
      if (last === null || id > last) last = id
    }
    return last
  }
  return {
    latest,
    async note(id) {
      if ((await latest()) === id) return
      const bytes = Buffer.from(`${id}\n`)
      const signal = deadline(clock, LIMIT_MS)
      await objects.put(`${FOLDER}${id}`, chunksOf(bytes), bytes.length, { signal })
    },
  }
}
