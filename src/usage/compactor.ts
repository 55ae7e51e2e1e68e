import { setTimeout as sleep } from 'node:timers/promises'
import type { SlotLimit, Slots } from '../contracts/slots.ts'
import type { UsageRetention, UsageWatch } from '../contracts/usage-lake.ts'
import type { Logger } from '../log.ts'
import { ageInDays, type PlannedMerge, planDay, retentions } from './compaction.ts'
import type { UsageLake } from './lake.ts'
import { HOUR_MS, isMerged, type UsageObject } from './names.ts'
import type { MergeInput } from './tasks.ts'
import type { UsageWorker } from './worker.ts'

/** Part of the interval by which nodes are spread. */
const JITTER = 0.2
/** How long a file is left that a merged one took the place of, so that whoever has listed it can read it. */
const GRACE_MS = 60_000
/** Days for which a day is looked at for what nobody keeps any more, and for what is small: nodes may be down. */
const CATCH_UP_DAYS = 7

/** One node at a time merges; what two of them merged at once is merged again. */
const COMPACTION: SlotLimit = { name: 'usage-compaction', most: 1 }

export interface CompactorTiming {
  readonly intervalMs: number
  /** How long a file is left that a merged one took the place of. */
  readonly graceMs: number
}

export interface CompactorOptions extends Partial<CompactorTiming> {
  readonly lake: UsageLake
  readonly worker: UsageWorker
  readonly slots: Pick<Slots, 'take'>
  /** Whether the state can be reached: without it no node knows whether another merges. */
  readonly healthy: () => Promise<boolean>
  /** Asked at each round. */
  readonly retention: () => UsageRetention
  readonly log: Logger
  readonly watch?: UsageWatch | undefined
  readonly now?: () => number
  readonly mergeBytes?: number
}

export interface Compactor {
  /** Resolves when the round under way has ended, which it does early. */
  stop(): Promise<void>
}

/** Merges files of usage once an hour, on whichever node takes the lease first. */
export function startCompactor(options: CompactorOptions): Compactor {
  const { intervalMs = HOUR_MS } = options
  const stopping = new AbortController()
  const rounds = new CompactionRounds(options, stopping.signal)
  const loop = async () => {
    while (!stopping.signal.aborted) {
      const pauseMs = intervalMs * (1 + JITTER * (Math.random() - 0.5))
      await sleep(pauseMs, undefined, { signal: stopping.signal, ref: false }).catch(() => {})
      if (!stopping.signal.aborted) await rounds.run()
    }
  }
  const running = loop()
  return {
    stop() {
      stopping.abort()
      return running
    },
  }
}

/** Rounds of compaction. A crash at any point leaves files that the next round, anywhere, makes good. */
export class CompactionRounds {
  readonly #options: CompactorOptions
  readonly #signal: AbortSignal | undefined
  /** Retentions after which every day was looked at. */
  #appliedRetention = ''

  constructor(options: CompactorOptions, signal?: AbortSignal) {
    this.#options = options
    this.#signal = signal
  }

  /** One round, where no other node has the lease. Never throws: what fails is tried again with the next. */
  async run(): Promise<void> {
    const { healthy, slots, log, watch } = this.#options
    try {
      if (!(await healthy())) return
      const taken = await slots.take([COMPACTION])
      if ('full' in taken) return
      try {
        await this.#round()
        watch?.compacted(true)
      } finally {
        taken.lease.release()
      }
    } catch (error) {
      if (this.#signal?.aborted === true) return
      log.warn({ err: error }, 'usage could not be compacted')
      watch?.compacted(false)
    }
  }

  async #round(): Promise<void> {
    const { lake, retention, now = Date.now, graceMs = GRACE_MS, log } = this.#options
    const kept = retention()
    const nowMs = now()
    const listed = await lake.listed()
    const orphans = await lake.removeOrphans(listed, new Date(nowMs - HOUR_MS))
    const merged: PlannedMerge[] = []
    let removed = 0
    for (const [date, files] of [...listed].sort()) {
      if (!this.#isDue(date, files, kept, nowMs)) continue
      const { plan, failed } = await this.#day(date, kept, nowMs)
      merged.push(...plan.merges)
      removed += plan.superseded.length + plan.outlived.length
      if (failed !== null) throw failed
    }
    this.#appliedRetention = nameOf(kept)
    if (merged.length > 0) {
      await sleep(graceMs, undefined, { signal: this.#signal })
      for (const { inputs } of merged) for (const input of inputs) await lake.remove(input)
    }
    if (merged.length + removed + orphans > 0)
      log.info({ objects: removed + orphans, results: merged.length }, 'usage compacted')
  }

  /** Whether anything can have to be done to a day: most have been merged long ago. */
  #isDue(date: string, files: readonly UsageObject[], kept: UsageRetention, nowMs: number): boolean {
    const age = ageInDays(date, nowMs)
    const isAging =
      this.#appliedRetention !== nameOf(kept)
        ? retentions(kept).some((days) => age > days)
        : retentions(kept).some((days) => age > days && age <= days + CATCH_UP_DAYS)
    const isRecent = files.length > 1 && age <= CATCH_UP_DAYS
    return isAging || isRecent || files.some((file) => !isMerged(file.name))
  }

  async #day(date: string, retention: UsageRetention, nowMs: number) {
    const { lake, mergeBytes } = this.#options
    const plan = await planDay(date, await lake.day(date), {
      nowMs,
      retention,
      footerOf: (file) => lake.footer(file),
      ...(mergeBytes === undefined ? {} : { mergeBytes }),
    })
    // Those first that would come to light when what took their place is gone.
    for (const file of [...plan.superseded, ...plan.outlived]) await lake.remove(file)
    let failed: unknown = null
    const merges: PlannedMerge[] = []
    for (const merge of plan.merges) {
      this.#signal?.throwIfAborted()
      try {
        await this.#merge(merge)
        merges.push(merge)
      } catch (error) {
        // One that cannot be read does not keep the others as they are.
        failed ??= error
      }
    }
    return { plan: { ...plan, merges }, failed }
  }

  async #merge({ date, name, inputs, names, expired }: PlannedMerge): Promise<void> {
    const { lake, worker, watch } = this.#options
    const aggregates = await lake.aggregates(inputs)
    const read: MergeInput[] = []
    for (const [place, input] of inputs.entries()) {
      const aggregate = aggregates[place] ?? null
      read.push({
        file: await lake.read(input),
        aggregate: aggregate === null ? null : await lake.read(aggregate),
      })
    }
    const merged = await worker.merge({ inputs: read, names, expired })
    await lake.put(date, name, merged)
    watch?.merged(inputs.length, merged.rows, merged.file.length)
  }
}

function nameOf({ days, byWorkspace }: UsageRetention): string {
  return JSON.stringify([days, [...byWorkspace].sort()])
}
