import type { JobObjects } from '../../contracts/job-objects.ts'
import type { PartedProgress, UpstreamProgress } from '../../contracts/jobs.ts'
import type { KeptText } from '../../contracts/objects.ts'
import type { AudioPart, HeardPart } from '../../contracts/parts.ts'
import { type Clock, sleep } from '../../contracts/time.ts'
import type { PartStore } from '../call/facts/call.ts'
import { type Claim, InputGone } from './claim.ts'
import type { JobSignals } from './watch.ts'

interface PartStores {
  readonly objects: Pick<JobObjects, 'keepPiece' | 'open'>
  readonly signals: Pick<JobSignals, 'changed'>
  readonly clock: Clock
}

/** Pauses before what was heard is kept again. */
const KEEP_AGAIN_MS = [500, 1_000, 2_000, 4_000, 8_000, 16_000]

/** Keeps the parts of a job: texts in the object store, and in the progress of the claim where they are. */
export class PartKeeper implements PartStore {
  readonly #claim: Claim
  readonly #stores: PartStores

  constructor(claim: Claim, stores: PartStores) {
    this.#claim = claim
    this.#stores = stores
  }

  get #kept(): PartedProgress | undefined {
    return this.#claim.progress.parts
  }

  async cut(): Promise<readonly AudioPart[] | null> {
    const kept = this.#kept
    return kept === undefined ? null : ((await this.#open(kept.cut)) as readonly AudioPart[])
  }

  async keepCut(parts: readonly AudioPart[]): Promise<void> {
    const cut = await this.#keep(parts)
    await this.#note({ total: parts.length, cut, heard: {}, upstream: {} })
  }

  async heard(index: number): Promise<HeardPart | null> {
    const text = this.#kept?.heard[index]
    return text === undefined ? null : ((await this.#open(text)) as HeardPart)
  }

  /** An answer that is paid for is kept even when the job is being given back. */
  async keepHeard(index: number, heard: HeardPart): Promise<boolean> {
    const text = await this.#keepSurely(heard)
    const kept = this.#kept!
    const { [index]: _done, ...upstream } = kept.upstream
    await this.#note({ ...kept, heard: { ...kept.heard, [index]: text }, upstream })
    return this.#claim.keptProgress.parts?.heard[index] === text
  }

  upstream(index: number): UpstreamProgress | null {
    return this.#kept?.upstream[index] ?? null
  }

  noteUpstream(index: number, progress: UpstreamProgress | null): void {
    const kept = this.#kept
    if (kept === undefined) return
    const { [index]: _before, ...others } = kept.upstream
    this.#claim.noteParts({
      ...kept,
      upstream: progress === null ? others : { ...others, [index]: progress },
    })
    this.#claim.renewSoon()
  }

  async #note(parts: PartedProgress): Promise<void> {
    this.#claim.noteParts(parts)
    await this.#claim.checkAnswered()
    this.#stores.signals.changed(this.#claim.job.id)
  }

  /** The transcript is paid for: a store that is away for a moment does not lose it. */
  async #keepSurely(heard: HeardPart): Promise<KeptText> {
    for (const pauseMs of KEEP_AGAIN_MS) {
      try {
        return await this.#keep(heard)
      } catch {
        if (this.#claim.lost) break
        await sleep(this.#stores.clock, pauseMs)
      }
    }
    return await this.#keep(heard)
  }

  #keep(value: unknown): Promise<KeptText> {
    const { id, workspace } = this.#claim.job
    const owner = { id, workspace, isJob: true }
    const { signal } = new AbortController()
    return this.#stores.objects.keepPiece(owner, [Buffer.from(JSON.stringify(value))], signal)
  }

  async #open(text: KeptText): Promise<unknown> {
    const json = await this.#stores.objects.open(text)
    if (json === null) throw new InputGone('a part of the job is gone')
    return JSON.parse(json)
  }
}
