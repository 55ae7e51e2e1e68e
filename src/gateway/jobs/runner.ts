import type { Claimed, Claiming, JobError } from '../../contracts/jobs.ts'
import type { Clock, Timer } from '../../contracts/time.ts'
import { Claim, doubled, type JobTiming, spread, TIMING } from './claim.ts'
import { retentionOf } from './retention.ts'
import { type RunDependencies, runJob } from './run.ts'

/** Only this process uses the file of the embedded state, and its own signals come at once. */
const EMBEDDED_POLL_MS = [1_000, 1_000] as const
/** Claims of a job that may end only by their lease: the job itself may be what kills its workers. */
const STALLED_MAX = 3
const POISON: JobError = {
  code: 'INTERNAL',
  message: 'the job was given up: its workers ended without an answer',
  param: null,
  details: {},
}

export interface RunnerDependencies extends Omit<RunDependencies, 'timing'> {
  /** Most jobs at a time in this process. */
  readonly places: number
  /** Most jobs of one workspace at a time, in all processes together. */
  readonly perWorkspace: number
  readonly timing?: Partial<JobTiming>
}

export interface JobRunner {
  readonly running: number
  /**
   * Claims no more jobs. Running ones may finish within `graceMs`, the others are given back. Resolves when none
   * is left.
   */
  stop(graceMs: number): Promise<void>
}

/** Starts to claim jobs and run them. */
export function startJobRunner(deps: RunnerDependencies): JobRunner {
  const runner = new Runner(deps)
  return {
    get running() {
      return runner.running
    },
    stop: (graceMs) => runner.stop(graceMs),
  }
}

/**
 * Removals under way that no place waits for. A job that ends while so many are holds its place until one is done: a
 * store that is slow to delete slows the work down instead of piling up what it has to do.
 */
const TIDYING_MAX = 64

/**
 * How long a place that comes free waits for others while there are fewer than this part of all: one claim for several
 * jobs costs the state and this process hardly more than one for a single job.
 */
const GATHER_MS = 5
const GATHERED_PART = 1 / 4

class Runner {
  readonly #deps: RunnerDependencies & RunDependencies
  /** Each claim with the promise of its end. */
  readonly #running = new Map<Claim, Promise<void>>()
  readonly #tidying = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #looking: Promise<void>
  /** There may be jobs to claim: the next pause ends at once. */
  #called = false
  /** Partitions of the state that may have jobs to claim. */
  readonly #hinted = new Set<number>()
  #wake = () => {}
  /** Runs while free places wait for others. */
  #gathering: Timer | null = null
  /** The last poll filled every free place, so more jobs may be waiting. */
  #moreWaits = false
  /** Polls in a row that found nothing. */
  #empty = 0
  /** Polls in a row that the state did not answer. */
  #unanswered = 0

  constructor(deps: RunnerDependencies) {
    const { services, signals } = deps
    const pollMs = services.state.kind === 'embedded' ? EMBEDDED_POLL_MS : TIMING.pollMs
    this.#deps = { ...deps, timing: { ...TIMING, pollMs, ...deps.timing } }
    const off = signals.onQueued((part) => this.#call(part))
    this.#looking = this.#look().finally(off)
  }

  get running(): number {
    return this.#running.size
  }

  get #clock(): Clock {
    return this.#deps.services.clock
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort()
    this.#call()
    await this.#looking
    const done = Promise.all(this.#running.values())
    const timer = this.#clock.after(graceMs, () => {
      for (const claim of this.#running.keys()) claim.giveBack()
    })
    await done
    timer.close()
    await Promise.all(this.#tidying)
  }

  async #look(): Promise<void> {
    const { timing } = this.#deps
    const clock = this.#clock
    let dueMs = clock.now()
    while (!this.#stopping.signal.aborted) {
      const parts = [...this.#hinted]
      this.#hinted.clear()
      if (this.#called || clock.now() >= dueMs) {
        this.#called = false
        await this.#takeUp()
        const away = this.#unanswered > 0
        const waitMs = away
          ? doubled(timing.awayMs, this.#unanswered - 1)
          : doubled(timing.pollMs, this.#empty)
        dueMs = clock.now() + spread(waitMs)
      } else for (const part of parts) await this.#takeUp(part)
      await this.#wait(dueMs - clock.now())
    }
  }

  /** Claims as many jobs as there are free places, from everywhere or from one partition of the state. */
  async #takeUp(part?: number): Promise<void> {
    const { services, places, perWorkspace, timing } = this.#deps
    const limit = places - this.running
    // The next free place takes what is waiting by then.
    if (limit === 0) this.#moreWaits = true
    if (limit <= 0) return
    const keep = retentionOf(services.snapshot().limits)
    const claiming: Claiming = {
      limit,
      ...(part === undefined ? {} : { part }),
      perWorkspace,
      leaseMs: timing.leaseMs,
      stalledMax: STALLED_MAX,
      poison: POISON,
      keep,
    }
    const askedAtMs = this.#clock.now()
    const taken = await this.#claim(claiming)
    const isFull = taken.length === limit
    this.#moreWaits = part === undefined ? isFull : this.#moreWaits || isFull
    if (taken.length > 0) this.#empty = 0
    else if (part === undefined) this.#empty += 1
    for (const claimed of taken) this.#start(claimed, askedAtMs)
  }

  /** Jobs of a lost answer are claimed again when their lease is over. */
  async #claim(claiming: Claiming): Promise<readonly Claimed[]> {
    const { services, log } = this.#deps
    try {
      const taken = await services.state.jobs.claim(claiming)
      if (this.#unanswered > 0) log.info('jobs are claimed again')
      this.#unanswered = 0
      return taken
    } catch (error) {
      this.#unanswered += 1
      if (this.#unanswered === 1) log.warn({ err: error }, 'jobs cannot be claimed: the state is unreachable')
      return []
    }
  }

  #start(claimed: Claimed, askedAtMs: number): void {
    const { services, signals, timing, perWorkspace, log } = this.#deps
    const { id, workspace } = claimed.job
    signals.changed(id)
    const claim = new Claim(claimed, askedAtMs, {
      jobs: services.state.jobs,
      signals,
      timing,
      clock: services.clock,
    })
    const failed = (error: unknown) =>
      log.error({ job_id: id, err: error }, 'job abandoned until its lease ends')
    const done = runJob(claim, this.#deps)
      .then((tidy) => this.#tidyUp(tidy))
      .catch(failed)
      .finally(() => {
        claim.leave()
        const wasFull = this.#runningOf(workspace) >= perWorkspace
        this.#running.delete(claim)
        // Otherwise the last poll has left no job behind that this place could take.
        if (this.#moreWaits || wasFull) this.#gather()
      })
    this.#running.set(claim, done)
  }

  /** Resolves as soon as the place may be given away. @param tidy never rejects */
  async #tidyUp(tidy: () => Promise<void>): Promise<void> {
    while (this.#tidying.size >= TIDYING_MAX) await Promise.race(this.#tidying)
    const tidied: Promise<void> = tidy().finally(() => void this.#tidying.delete(tidied))
    this.#tidying.add(tidied)
  }

  #runningOf(workspace: string): number {
    let running = 0
    for (const { job } of this.#running.keys()) if (job.workspace === workspace) running += 1
    return running
  }

  /** Calls once enough places are free, or the first of them has waited long enough. */
  #gather(): void {
    const { places } = this.#deps
    if (this.running === 0 || places - this.running >= places * GATHERED_PART) this.#call()
    else this.#gathering ??= this.#clock.after(GATHER_MS, () => this.#call())
  }

  #call(part?: number): void {
    this.#gathering?.close()
    this.#gathering = null
    if (part === undefined) this.#called = true
    else this.#hinted.add(part)
    this.#wake()
  }

  /** Waits for a call, at most `ms`. While the state is unreachable only the stop ends the pause early. */
  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#clock.after(ms, resolve)
    this.#wake = () => {
      if (this.#unanswered === 0 || this.#stopping.signal.aborted) resolve()
    }
    if (this.#called || this.#hinted.size > 0) this.#wake()
    await promise
    timer.close()
    this.#wake = () => {}
  }
}
