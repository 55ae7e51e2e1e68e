import { setTimeout as sleep } from 'node:timers/promises'
import { Interrupted } from '../../gateway/gateway.ts'
import type { Audio } from '../../schema/audio.ts'
import type {
  Claimed,
  Job,
  JobEnding,
  JobProgress,
  Jobs,
  Retention,
  UpstreamProgress,
} from '../../schema/jobs.ts'
import type { JobSignals } from './signals.ts'
import { doubled, type JobTiming } from './timing.ts'

/** The reason with which the work on a job is aborted that is to be cancelled. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

export interface ClaimParts {
  readonly jobs: Jobs
  readonly signals: JobSignals
  readonly timing: JobTiming
}

/**
 * A job that this process has taken up. Keeps the lease, and with it what is to be known to whoever takes the job over;
 * aborts `signal` when the job is somebody else's or is given back (`Interrupted`) or is to be cancelled (`Cancelled`).
 */
export class Claim {
  readonly job: Job
  readonly #parts: ClaimParts
  readonly #leaving = new AbortController()
  readonly #renewals: NodeJS.Timeout
  readonly #forget: () => void
  #leaseOver: NodeJS.Timeout | undefined
  /** On the clock of `performance.now()`, which goes on while a process is stopped. */
  #leasedUntilMs = 0
  #lost = false
  #left = false
  #progress: JobProgress
  /** The newest progress that the state has. */
  #kept: JobProgress
  #renewing: Promise<void> | null = null
  #renewingNext: Promise<void> | null = null

  /** @param askedAtMs when the state was asked for jobs, on the clock of `performance.now()` */
  constructor({ job, progress }: Claimed, askedAtMs: number, parts: ClaimParts) {
    this.job = job
    this.#parts = parts
    this.#progress = progress
    this.#kept = progress
    this.#renewals = setInterval(() => void this.#renew(), parts.timing.renewMs)
    // Most likely somebody here has asked for the cancellation: the state knows.
    this.#forget = parts.signals.onChanged(job.id, () => void this.#renew())
    this.#leasedFrom(askedAtMs)
    if (job.cancelRequested) this.#leaving.abort(new Cancelled())
  }

  get signal(): AbortSignal {
    return this.#leaving.signal
  }

  get progress(): JobProgress {
    return this.#progress
  }

  /** The job is, or may be, somebody else's by now: not a word of it to the state. */
  get lost(): boolean {
    if (performance.now() >= this.#leasedUntilMs) this.#lose()
    return this.#lost
  }

  noteAudio(audio: Audio): void {
    this.#progress = { ...this.#progress, audio }
  }

  /** What a provider works on is worth money: it is written down at once, behind the back of the call. */
  noteUpstream(upstream: UpstreamProgress | null): void {
    this.#progress = { ...this.#progress, upstream }
    void this.#renew()
  }

  /**
   * Between two stages of the work: renews the lease, keeps what was noted, and looks whether to go on. A state that
   * is away stops nobody as long as the lease holds.
   *
   * @throws Interrupted, Cancelled
   */
  async checkpoint(): Promise<void> {
    await this.checkAnswered()
    this.signal.throwIfAborted()
  }

  /**
   * The same behind the answer of the provider: what is left to do is done here, also of a job that is given back.
   *
   * @throws Interrupted when the claim is lost, Cancelled
   */
  async checkAnswered(): Promise<void> {
    await this.#renew()
    if (this.lost || this.signal.reason instanceof Cancelled) throw this.signal.reason
  }

  /** Has the work end as soon as may be, for somebody else to go on with it. */
  giveBack(): void {
    this.#leaving.abort(new Interrupted())
  }

  /**
   * Ends the claim, whatever it takes as long as the lease may hold; afterwards somebody else has taken the job over.
   *
   * @returns the job after that; null when the claim was not in force any more
   * @throws  GatewayError DEPENDENCY_UNAVAILABLE when the state did not answer in time: it may have been done
   */
  async end(ending: JobEnding, keep: Retention): Promise<Job | null> {
    const { awayMs } = this.#parts.timing
    this.leave()
    for (let tries = 0; ; tries += 1) {
      if (this.lost && tries === 0) return null
      try {
        return await this.#endOnce(ending, keep)
      } catch (error) {
        const pauseMs = doubled(awayMs, tries)
        if (performance.now() + pauseMs >= this.#leasedUntilMs) throw error
        await sleep(pauseMs)
      }
    }
  }

  /** Nothing goes back to the queue without what is known of it: an order would be made, and paid for, again. */
  async #endOnce(ending: JobEnding, keep: Retention): Promise<Job | null> {
    const { jobs, timing } = this.#parts
    const { id, fence } = this.job
    const progress = this.#progress
    if (ending.state === 'queued' && progress !== this.#kept) {
      const { held } = await jobs.renew(id, fence, timing.leaseMs, progress)
      if (!held) return null
      this.#kept = progress
    }
    return await jobs.end(id, fence, ending, keep)
  }

  /** Renews the lease no more. */
  leave(): void {
    this.#left = true
    clearInterval(this.#renewals)
    clearTimeout(this.#leaseOver)
    this.#forget()
  }

  /** One at a time; who asks during one gets the next, since the first may not know yet what is asked about. */
  #renew(): Promise<void> {
    if (this.#renewing === null) {
      this.#renewing = this.#renewOnce().finally(() => {
        this.#renewing = null
      })
      return this.#renewing
    }
    this.#renewingNext ??= this.#renewing.then(() => {
      this.#renewingNext = null
      return this.#renew()
    })
    return this.#renewingNext
  }

  async #renewOnce(): Promise<void> {
    if (this.lost || this.#left) return
    const { jobs, timing } = this.#parts
    const sentAtMs = performance.now()
    const progress = this.#progress
    const unkept = progress === this.#kept ? null : progress
    try {
      const { held, cancelRequested } = await jobs.renew(this.job.id, this.job.fence, timing.leaseMs, unkept)
      // Of a claim that has ended meanwhile it says nothing.
      if (this.#left) return
      if (!held) return this.#lose()
      this.#kept = progress
      this.#leasedFrom(sentAtMs)
      if (cancelRequested) this.#leaving.abort(new Cancelled())
    } catch {
      // The state is away. The next renewal comes, unless the lease is over by then.
    }
  }

  #leasedFrom(atMs: number): void {
    this.#leasedUntilMs = atMs + this.#parts.timing.leaseMs
    clearTimeout(this.#leaseOver)
    this.#leaseOver = setTimeout(() => this.#lose(), this.#leasedUntilMs - performance.now())
  }

  #lose(): void {
    this.#lost = true
    this.#leaving.abort(new Interrupted())
  }
}
