import type { Logger } from '../contracts/log.ts'
import type { PermitLimit, Permits } from '../contracts/permits.ts'
import { type Clock, sleep, systemClock } from '../contracts/time.ts'
import type { UsageRetention, UsageWatch } from '../contracts/usage-lake.ts'
import { ageInDays, type PlannedMerge, planDay, retentions } from './compaction.ts'
import type { UsageLake } from './lake.ts'
import { HOUR_MS, isMerged, type UsageObject } from './names.ts'
import type { RecordFiles } from './record-files.ts'

/** Part of the interval by which nodes are spread. */
const JITTER = 0.2
/** How long a merged input stays, so that a reader that has listed it can read it. */
const GRACE_MS = 60_000
/** Days for which a day is searched for outlived and small files: nodes may be down. */
const CATCH_UP_DAYS = 7

/** One node at a time merges; files that two nodes merged at once are merged again. */
const COMPACTION: PermitLimit = { name: 'usage-compaction', most: 1 }

export interface CompactorTiming {
  readonly intervalMs: number
  /** How long a merged input stays. */
  readonly graceMs: number
}

export interface CompactorOptions extends Partial<CompactorTiming> {
  readonly lake: UsageLake
  readonly files: RecordFiles
  readonly permits: Pick<Permits, 'take'>
  /** True: the state can be reached. Without it no node knows whether another merges. */
  readonly healthy: () => Promise<boolean>
  /** Asked at each round. */
  readonly retention: () => UsageRetention
  readonly log: Logger
  readonly watch?: UsageWatch | undefined
  readonly clock?: Clock
  readonly mergeBytes?: number
}

export interface Compactor {
  /** Ends the round under way early, and resolves then. */
  stop(): Promise<void>
}

/** Merges files of usage once an hour, on whichever node takes the lease first. */
export function startCompactor(options: CompactorOptions): Compactor {
  const { intervalMs = HOUR_MS, clock = systemClock } = options
  const stopping = new AbortController()
  const rounds = new CompactionRounds(options, stopping.signal)
  const loop = async () => {
    while (!stopping.signal.aborted) {
      const pauseMs = intervalMs * (1 + JITTER * (Math.random() - 0.5))
      await sleep(clock, pauseMs, { signal: stopping.signal, ref: false }).catch(() => {})
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

/** A round under way. */
interface Round {
  readonly kept: UsageRetention
  readonly nowMs: number
  /** Merges whose results were put. */
  readonly merged: PlannedMerge[]
  /** How many files were deleted that had nothing to be merged. */
  removed: number
  /** The first failure of each day, by its date; `SUMS` for files of no day. */
  readonly failures: Map<string, unknown>
}

/** Key of the sums of earlier versions among the failures of a round. */
const SUMS = 'sums'

/**
 * Rounds of compaction. A crash at any point leaves files that the next round, on any node, makes good. A failure of
 * one day does not stop the others.
 */
export class CompactionRounds {
  readonly #options: CompactorOptions
  readonly #signal: AbortSignal | undefined
  /** Retentions after which every day was looked at. */
  #appliedRetention = ''
  /** Days with a failure in the last round: they are looked at again, however old they are. */
  #failed: ReadonlySet<string> = new Set()

  constructor(options: CompactorOptions, signal?: AbortSignal) {
    this.#options = options
    this.#signal = signal
  }

  /** One round, if no other node has the lease. Never throws: failures are tried again with the next. */
  async run(): Promise<void> {
    const { healthy, permits, log, watch } = this.#options
    try {
      if (!(await healthy())) return
      const taken = await permits.take([COMPACTION])
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
    const { lake, retention, clock = systemClock, log } = this.#options
    const nowMs = clock.wallNow()
    const round: Round = { kept: retention(), nowMs, merged: [], removed: 0, failures: new Map() }
    const listed = await lake.listed()
    await this.#attempt(round, SUMS, async () => {
      round.removed += await lake.removeSums()
    })
    for (const [date, files] of [...listed].sort())
      if (this.#isDue(date, files, round))
        await this.#attempt(round, date, () => this.#day(date, files, round))
    this.#appliedRetention = retentionName(round.kept)
    await this.#removeInputs(round)
    this.#failed = new Set(round.failures.keys())
    if (round.merged.length + round.removed > 0)
      log.info({ objects: round.removed, results: round.merged.length }, 'usage compacted')
    for (const failure of round.failures.values()) throw failure
  }

  /** Notes a failure under a name, so that the round continues. @throws the failure once the round has to end */
  async #attempt(round: Round, name: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      if (this.#signal?.aborted === true) throw error
      if (!round.failures.has(name)) round.failures.set(name, error)
    }
  }

  /** @returns false: the day needs no work, as most days were merged long ago */
  #isDue(date: string, files: readonly UsageObject[], { kept, nowMs }: Round): boolean {
    const age = ageInDays(date, nowMs)
    const isAging =
      this.#appliedRetention !== retentionName(kept)
        ? retentions(kept).some((days) => age > days)
        : retentions(kept).some((days) => age > days && age <= days + CATCH_UP_DAYS)
    const isRecent = files.length > 1 && age <= CATCH_UP_DAYS
    return isAging || isRecent || this.#failed.has(date) || files.some((file) => !isMerged(file.name))
  }

  /** @throws Error when the files of the day cannot be listed, read or deleted */
  async #day(date: string, files: readonly UsageObject[], round: Round): Promise<void> {
    const { lake, mergeBytes } = this.#options
    const { kept, nowMs } = round
    if (ageInDays(date, nowMs) > Math.max(...retentions(kept))) {
      // Their content does not matter, nor whether it can be read.
      for (const file of files) await this.#attempt(round, date, () => this.#remove(file, round))
      return
    }
    const plan = await planDay(date, await lake.day(date), {
      nowMs,
      retention: kept,
      footerOf: (file) => lake.footer(file),
      ...(mergeBytes === undefined ? {} : { mergeBytes }),
    })
    // These first: they would be visible again once the file that replaced them is gone.
    for (const file of [...plan.superseded, ...plan.outlived]) await this.#remove(file, round)
    for (const merge of plan.merges) {
      this.#signal?.throwIfAborted()
      // An unreadable file does not stop the others.
      await this.#attempt(round, date, async () => {
        await this.#merge(merge)
        round.merged.push(merge)
      })
    }
  }

  async #remove(file: UsageObject, round: Round): Promise<void> {
    await this.#options.lake.remove(file)
    round.removed += 1
  }

  /** Deletes the inputs of merged files. */
  async #removeInputs(round: Round): Promise<void> {
    const { lake, graceMs = GRACE_MS, clock = systemClock } = this.#options
    if (round.merged.length === 0) return
    await sleep(clock, graceMs, this.#signal === undefined ? {} : { signal: this.#signal })
    for (const { date, inputs } of round.merged)
      for (const input of inputs) await this.#attempt(round, date, () => lake.remove(input))
  }

  async #merge({ date, name, inputs, names, expired }: PlannedMerge): Promise<void> {
    const { lake, files, watch } = this.#options
    const { paths, release } = await lake.hold(inputs)
    try {
      await files.merge({ paths, names, expired }, async ({ path, rows }) => {
        const bytes = await lake.put(date, name, path)
        watch?.merged(inputs.length, rows, bytes)
      })
    } finally {
      release()
    }
  }
}

function retentionName({ days, byWorkspace }: UsageRetention): string {
  return JSON.stringify([days, [...byWorkspace].sort()])
}
