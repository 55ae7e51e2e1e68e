import type { Services } from '../../gateway/gateway.ts'
import type { Logger } from '../../log.ts'
import type { JobObjects } from '../../schema/job-objects.ts'
import type { Claimed, Claiming, JobError } from '../../schema/jobs.ts'
import type { MediaProbe } from '../../schema/media.ts'
import type { RemoteAudio } from '../../schema/remote-audio.ts'
import type { Tracing } from '../../schema/tracing.ts'
import type { Recorder } from '../console/watch/recorder.ts'
import { Claim } from './claim.ts'
import { retentionOf } from './retention.ts'
import { type RunParts, runJob } from './run-job.ts'
import type { JobSignals } from './signals.ts'
import { doubled, type JobTiming, spread, TIMING } from './timing.ts'

/** The file of the embedded state is looked into by this process alone, whose own signals come at once. */
const EMBEDDED_POLL_MS = [1_000, 1_000] as const
/** Claims of a job that may end by their lease alone: the job itself may be what kills its workers. */
const STRAYS_MAX = 3
const POISON: JobError = {
  code: 'INTERNAL',
  message: 'the job was given up: its workers ended without an answer',
  param: null,
  details: {},
}

export interface RunnerParts {
  readonly services: Services
  readonly objects: JobObjects
  readonly probe: MediaProbe
  readonly remoteAudio: RemoteAudio
  readonly signals: JobSignals
  readonly log: Logger
  /** Null: it is off. */
  readonly tracing: Tracing | null
  /** Absent: nothing is shown in the console. */
  readonly recorder?: Pick<Recorder, 'ran'>
  /** Most jobs that run at a time in this process. */
  readonly places: number
  /** Most jobs of one workspace that run at a time, in all processes together. */
  readonly perWorkspace: number
  readonly timing?: Partial<JobTiming>
}

export interface JobRunner {
  /** Jobs that run now. */
  readonly running: number
  /**
   * Takes up no more jobs; those that run may be done within `graceMs`, the others are given back. Resolves when none
   * is left.
   */
  stop(graceMs: number): Promise<void>
}

/** Takes up jobs and runs them, from now on. */
export function startJobRunner(parts: RunnerParts): JobRunner {
  const runner = new Runner(parts)
  return {
    get running() {
      return runner.running
    },
    stop: (graceMs) => runner.stop(graceMs),
  }
}

class Runner {
  readonly #parts: RunnerParts & RunParts
  /** Each with the promise that it is done. */
  readonly #running = new Map<Claim, Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #looking: Promise<void>
  /** There is something to look for: the next wait is cut short, or does not begin. */
  #called = false
  /** Parts of the state in which there is something to look for. */
  readonly #hinted = new Set<number>()
  #wake = () => {}
  /** The last look took all that there was a place for. */
  #moreWaits = false
  /** Looks in a row that found nothing. */
  #empty = 0
  /** Looks in a row that the state did not answer. */
  #unanswered = 0

  constructor(parts: RunnerParts) {
    const { services, signals } = parts
    const pollMs = services.state.kind === 'embedded' ? EMBEDDED_POLL_MS : TIMING.pollMs
    this.#parts = { ...parts, timing: { ...TIMING, pollMs, ...parts.timing } }
    const off = signals.onQueued((part) => this.#call(part))
    this.#looking = this.#look().finally(off)
  }

  get running(): number {
    return this.#running.size
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort()
    this.#call()
    await this.#looking
    const done = Promise.all(this.#running.values())
    const timer = setTimeout(() => {
      for (const claim of this.#running.keys()) claim.giveBack()
    }, graceMs)
    await done
    clearTimeout(timer)
  }

  async #look(): Promise<void> {
    const { timing } = this.#parts
    let dueMs = performance.now()
    while (!this.#stopping.signal.aborted) {
      const parts = [...this.#hinted]
      this.#hinted.clear()
      if (this.#called || performance.now() >= dueMs) {
        this.#called = false
        await this.#takeUp()
        const away = this.#unanswered > 0
        const waitMs = away
          ? doubled(timing.awayMs, this.#unanswered - 1)
          : doubled(timing.pollMs, this.#empty)
        dueMs = performance.now() + spread(waitMs)
      } else for (const part of parts) await this.#takeUp(part)
      await this.#wait(dueMs - performance.now())
    }
  }

  /** As many as there are places for, from everywhere or from that part of the state. */
  async #takeUp(part?: number): Promise<void> {
    const { services, places, perWorkspace, timing } = this.#parts
    const limit = places - this.running
    // The place that becomes free next is for what is there by then.
    if (limit === 0) this.#moreWaits = true
    if (limit <= 0) return
    const keep = retentionOf(services.snapshot().limits)
    const claiming: Claiming = {
      limit,
      ...(part === undefined ? {} : { part }),
      perWorkspace,
      leaseMs: timing.leaseMs,
      straysMax: STRAYS_MAX,
      poison: POISON,
      keep,
    }
    const askedAtMs = performance.now()
    const taken = await this.#claim(claiming)
    const isFull = taken.length === limit
    this.#moreWaits = part === undefined ? isFull : this.#moreWaits || isFull
    if (taken.length > 0) this.#empty = 0
    else if (part === undefined) this.#empty += 1
    for (const claimed of taken) this.#start(claimed, askedAtMs)
  }

  /** What is lost with an answer is taken up again when its lease is over. */
  async #claim(claiming: Claiming): Promise<readonly Claimed[]> {
    const { services, log } = this.#parts
    try {
      const taken = await services.state.jobs.claim(claiming)
      if (this.#unanswered > 0) log.info('jobs are taken up again')
      this.#unanswered = 0
      return taken
    } catch (error) {
      this.#unanswered += 1
      if (this.#unanswered === 1) log.warn({ err: error }, 'no jobs can be taken up: the state is away')
      return []
    }
  }

  #start(claimed: Claimed, askedAtMs: number): void {
    const { services, signals, timing, perWorkspace, log } = this.#parts
    const { id, workspace } = claimed.job
    signals.changed(id)
    const claim = new Claim(claimed, askedAtMs, { jobs: services.state.jobs, signals, timing })
    const failed = (error: unknown) => log.error({ job_id: id, err: error }, 'job left to its lease')
    const done = runJob(claim, this.#parts)
      .catch(failed)
      .finally(() => {
        claim.leave()
        const wasFull = this.#runningOf(workspace) >= perWorkspace
        this.#running.delete(claim)
        // Otherwise the last look has left nothing behind that this place is free for.
        if (this.#moreWaits || wasFull) this.#call()
      })
    this.#running.set(claim, done)
  }

  #runningOf(workspace: string): number {
    let running = 0
    for (const { job } of this.#running.keys()) if (job.workspace === workspace) running += 1
    return running
  }

  #call(part?: number): void {
    if (part === undefined) this.#called = true
    else this.#hinted.add(part)
    this.#wake()
  }

  /** Until it is called, or for so long. While the state is away nothing shortens the wait but the end. */
  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#wake = () => {
      if (this.#unanswered === 0 || this.#stopping.signal.aborted) resolve()
    }
    if (this.#called || this.#hinted.size > 0) this.#wake()
    await promise
    clearTimeout(timer)
    this.#wake = () => {}
  }
}
