import type { ShadowSample } from '../../../contracts/console.ts'
import type { ShadowEnd, ShadowPair, ShadowReference, ShadowWatch } from '../../../contracts/shadow.ts'

/** Pairs that a sample tells, and times that it tells of each. */
const PAIRS_MAX = 50
const TIMES_MAX = 20

/** Sums up what shadows found since the last sample, by pair. */
export class ShadowTally implements ShadowWatch {
  #pairs = new Map<string, Sums>()

  skipped(): void {}

  ended({ pair, outcome, comparison }: ShadowEnd): void {
    const sums = this.#of(pair)
    // An abandoned call says nothing about the shadow.
    if (sums === null || outcome === 'abandoned') return
    sums.calls += 1
    if (outcome !== 'ok') sums.failed += 1
    if (comparison === null) return
    const { words, errors, milliseconds, costUsd } = comparison
    sums.compared += 1
    sums.words += words
    sums.errors += errors
    if (costUsd !== null) {
      sums.priced += 1
      sums.entryUsd += costUsd.entry
      sums.shadowUsd += costUsd.shadow
    }
    if (milliseconds !== null && sums.milliseconds.length < TIMES_MAX)
      sums.milliseconds.push([Math.round(milliseconds.entry), Math.round(milliseconds.shadow)])
  }

  referred({ pair, words, errors }: ShadowReference): void {
    const references = this.#of(pair)?.references
    if (references === undefined) return
    references.count += 1
    references.words += words
    references.entryErrors += errors.entry
    references.shadowErrors += errors.shadow
  }

  /** The sums, which begin anew. */
  take(): readonly ShadowSample[] {
    const taken = [...this.#pairs.values()]
    this.#pairs = new Map()
    return taken
  }

  #of(pair: ShadowPair): Sums | null {
    const key = JSON.stringify(Object.values(pair))
    const known = this.#pairs.get(key)
    if (known !== undefined) return known
    if (this.#pairs.size >= PAIRS_MAX) return null
    const counts = { calls: 0, failed: 0, compared: 0, words: 0, errors: 0 }
    const references = { count: 0, words: 0, entryErrors: 0, shadowErrors: 0 }
    const made = { ...pair, ...counts, priced: 0, entryUsd: 0, shadowUsd: 0, milliseconds: [], references }
    this.#pairs.set(key, made)
    return made
  }
}

/** Sums of a pair as they grow. */
type Sums = Omit<Writable<ShadowSample>, 'references'> & {
  readonly references: Writable<NonNullable<ShadowSample['references']>>
}

type Writable<Value> = {
  -readonly [Name in keyof Value]: Value[Name] extends readonly (infer Item)[] ? Item[] : Value[Name]
}
