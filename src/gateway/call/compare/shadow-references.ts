import { hash } from 'node:crypto'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { Permits } from '../../../contracts/permits.ts'
import type { KeptPair, KeptPairs, PairOwner, References, ShadowWatch } from '../../../contracts/shadow.ts'
import { countWordErrors } from './word-errors.ts'

/** How long a reference waits for another one of the same call, which comes to it first. */
const WAIT_MS = 10_000

interface ShadowReferencesDependencies {
  readonly pairs: KeptPairs
  readonly permits: Pick<Permits, 'wait'>
  /** All of them are told. */
  readonly watches: readonly ShadowWatch[]
}

/** Takes what was really said in a call, and counts how far the answer and that of the shadow are from it. */
export class ShadowReferences implements References {
  readonly #deps: ShadowReferencesDependencies

  constructor(deps: ShadowReferencesDependencies) {
    this.#deps = deps
  }

  keep(owner: PairOwner, kept: KeptPair, ttlSeconds: number, signal: AbortSignal): Promise<void> {
    return this.#deps.pairs.keep(owner, kept, ttlSeconds, signal)
  }

  forget(owner: PairOwner): Promise<void> {
    return this.#deps.pairs.forget(owner)
  }

  async take(owner: PairOwner, text: string, signal: CancelSignal): Promise<number> {
    const { workspace, callId } = owner
    const name = `reference:${hash('sha256', JSON.stringify([workspace, callId]))}`
    const lease = await this.#deps.permits.wait({ name, most: 1 }, { workspace, waitMs: WAIT_MS, signal })
    if (lease === null) throw new GatewayError('CONFLICT', 'another reference of the call is being taken')
    try {
      return await this.#take(owner, text)
    } finally {
      lease.release()
    }
  }

  async #take(owner: PairOwner, text: string): Promise<number> {
    const { pairs, watches } = this.#deps
    const found = await pairs.find(owner)
    if (found === null)
      throw new GatewayError('NOT_FOUND', 'no call with this id waits for a reference, or not any more')
    if (found === 'several')
      throw new GatewayError('CONFLICT', 'several calls have this id: none of them is compared')
    if ('takenWords' in found) return found.takenWords
    const { pair, texts } = found.kept
    const entry = await countWordErrors(text, texts.entry)
    const shadow = await countWordErrors(text, texts.shadow)
    if (entry === null || shadow === null)
      throw new GatewayError('INVALID_REQUEST', 'text: must have fewer words to be compared')
    if (entry.words === 0) throw new GatewayError('INVALID_REQUEST', 'text: must have a word')
    await found.settle(entry.words)
    const errors = { entry: entry.errors, shadow: shadow.errors }
    for (const watch of watches) watch.referred({ pair, words: entry.words, errors })
    return entry.words
  }
}
