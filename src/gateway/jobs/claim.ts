import type { Audio } from '../../contracts/audio.ts'
import type {
  Claimed,
  Job,
  JobEnding,
  JobProgress,
  Jobs,
  PartedProgress,
  Retention,
  UpstreamProgress,
} from '../../contracts/jobs.ts'
import { type Clock, sleep, type Timer } from '../../contracts/time.ts'
import { Interrupted } from '../call/facts/call.ts'
import type { JobSignals } from './watch.ts'

/** The abort reason of a job whose cancellation was requested. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

/**
 * The store says that it does not have what the job was given, or gives other bytes. Stores have said so of objects
 * that were there: the job is tried again as often as for a provider that failed.
 */
export class InputGone extends Error {
  override readonly name = 'InputGone'
}

interface ClaimDependencies {
  readonly jobs: Jobs
  readonly signals: JobSignals
  readonly timing: JobTiming
  readonly clock: Clock
}

/**
 * A job that this process has claimed. Renews its lease and stores its progress for a worker that takes over; aborts
 * `signal` when the claim is lost or given back (`Interrupted`) or the job is to be cancelled (`Cancelled`).
 */
export class Claim {
  readonly job: Job
  /** Its audio, as the record had it; undefined: it is in the store. */
  readonly input: Uint8Array | undefined
  readonly #deps: ClaimDependencies
  readonly #leaving = new AbortController()
  readonly #renewals: Timer
  readonly #forget: () => void
  #leaseOver: Timer | undefined
  /** On the node's clock, which runs on while the process is stopped. */
  #leasedUntilMs = 0
  #lost = false
  #left = false
  #progress: JobProgress
  /** The newest progress that the state has. */
  #kept: JobProgress
  #renewing: Promise<void> | null = null
  #renewingNext: Promise<void> | null = null

  /** @param askedAtMs when the state was asked for jobs, on the node's clock */
  constructor({ job, progress, input }: Claimed, askedAtMs: number, deps: ClaimDependencies) {
    this.job = job
    this.input = input
    this.#deps = deps
    this.#progress = progress
    this.#kept = progress
    this.#renewals = deps.clock.every(deps.timing.renewMs, () => void this.#renew())
    // Most likely its cancellation was requested in this process; the state knows.
    this.#forget = deps.signals.onChanged(job.id, () => void this.#renew())
    this.#leasedFrom(askedAtMs)
    if (job.cancelRequested) this.#leaving.abort(new Cancelled())
  }

  get signal(): AbortSignal {
    return this.#leaving.signal
  }

  /** Its progress as the state has it for sure. */
  get keptProgress(): JobProgress {
    return this.#kept
  }

  get progress(): JobProgress {
    return this.#progress
  }

  /** True when another worker has, or may have, claimed the job: nothing may be written to the state any more. */
  get lost(): boolean {
    if (this.#deps.clock.now() >= this.#leasedUntilMs) this.#lose()
    return this.#lost
  }

  noteAudio(audio: Audio): void {
    this.#progress = { ...this.#progress, audio }
  }

  /** Adds what a run was charged. It is stored with the next progress, at the latest when the job is queued again. */
  noteCharged(micros: number): void {
    if (micros === 0) return
    this.#progress = { ...this.#progress, chargedMicros: (this.#progress.chargedMicros ?? 0) + micros }
  }

  /** Notes what is kept of audio that is heard in parts; stored with the next progress. */
  noteParts(parts: PartedProgress): void {
    this.#progress = { ...this.#progress, parts }
  }

  /** Stores the progress at once, without holding up the call. */
  renewSoon(): void {
    void this.#renew()
  }

  /** Stores the work that a provider has accepted at once, without holding up the call: it costs money. */
  noteUpstream(upstream: UpstreamProgress | null): void {
    this.#progress = { ...this.#progress, upstream }
    void this.#renew()
  }

  /**
   * Renews the lease between two stages of the work, stores the progress and throws when the work must stop. An
   * unreachable state does not stop it while the lease holds.
   *
   * @throws Interrupted, Cancelled
   */
  async checkpoint(): Promise<void> {
    await this.checkAnswered()
    this.signal.throwIfAborted()
  }

  /**
   * Does the same once the provider has answered: the rest is done here even when the job is being given back.
   *
   * @throws Interrupted when the claim is lost, Cancelled
   */
  async checkAnswered(): Promise<void> {
    await this.#renew()
    if (this.lost || this.signal.reason instanceof Cancelled) throw this.signal.reason
  }

  /** Stops the work as soon as possible, so that another worker can continue it. */
  giveBack(): void {
    this.#leaving.abort(new Interrupted())
  }

  /**
   * Ends the claim, and repeats that as long as the lease may hold; after that another worker owns the job.
   *
   * @returns the job after that; null when the claim was no longer valid
   * @throws  GatewayError DEPENDENCY_UNAVAILABLE when the state did not answer in time; it may have done it
   */
  async end(ending: JobEnding, keep: Retention): Promise<Job | null> {
    const { clock, timing } = this.#deps
    this.leave()
    for (let tries = 0; ; tries += 1) {
      if (this.lost && tries === 0) return null
      try {
        return await this.#endOnce(ending, keep)
      } catch (error) {
        const pauseMs = doubled(timing.awayMs, tries)
        if (clock.now() + pauseMs >= this.#leasedUntilMs) throw error
        await sleep(clock, pauseMs)
      }
    }
  }

  /** A job returns to the queue only with its progress: otherwise its work would be ordered, and paid for, again. */
  async #endOnce(ending: JobEnding, keep: Retention): Promise<Job | null> {
    const { jobs, timing } = this.#deps
    const { id, fence } = this.job
    const progress = this.#progress
    if (ending.state === 'queued' && progress !== this.#kept) {
      const { held } = await jobs.renew(id, fence, timing.leaseMs, progress)
      if (!held) return null
      this.#kept = progress
    }
    return await jobs.end(id, fence, ending, keep)
  }

  /** Stops renewing the lease. */
  leave(): void {
    this.#left = true
    this.#renewals.close()
    this.#leaseOver?.close()
    this.#forget()
  }

  /** Runs one renewal at a time; a request during one gets the next, since the first may have been sent too early. */
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
    const { jobs, timing, clock } = this.#deps
    const sentAtMs = clock.now()
    const progress = this.#progress
    const unkept = progress === this.#kept ? null : progress
    try {
      const { held, cancelRequested } = await jobs.renew(this.job.id, this.job.fence, timing.leaseMs, unkept)
      // The claim has ended in the meantime: the answer says nothing about it.
      if (this.#left) return
      if (!held) return this.#lose()
      this.#kept = progress
      this.#leasedFrom(sentAtMs)
      if (cancelRequested) this.#leaving.abort(new Cancelled())
    } catch {
      // The state is unreachable. The next renewal tries again, unless the lease is over by then.
    }
  }

  #leasedFrom(atMs: number): void {
    const { clock, timing } = this.#deps
    this.#leasedUntilMs = atMs + timing.leaseMs
    this.#leaseOver?.close()
    this.#leaseOver = clock.after(this.#leasedUntilMs - clock.now(), () => this.#lose())
  }

  #lose(): void {
    this.#lost = true
    this.#leaving.abort(new Interrupted())
  }
}

/** Intervals of the runner, all in ms; tests shorten them. */
export interface JobTiming {
  /**
   * Poll interval of the queue: doubles from the first to the last while nothing is found. Jobs submitted in this
   * process are claimed at once.
   */
  readonly pollMs: readonly [first: number, last: number]
  /** Pause after a poll that the state did not answer: doubles from the first to the last. */
  readonly awayMs: readonly [first: number, last: number]
  readonly leaseMs: number
  readonly renewMs: number
  /** Longest time that providers may take for one claim. */
  readonly attemptMs: number
  /** Pauses before the second and each further try to fetch audio. */
  readonly fetchAgainMs: readonly number[]
  /** Pauses before a job is retried because a provider failed. */
  readonly retryMs: readonly number[]
  /** Pause before a job is retried because our own stores failed: doubles from the first to the last. */
  readonly returnMs: readonly [first: number, last: number]
}

export const TIMING: JobTiming = {
  pollMs: [250, 1_000],
  awayMs: [250, 5_000],
  leaseMs: 30_000,
  renewMs: 5_000,
  attemptMs: 15 * 60_000,
  fetchAgainMs: [1_000, 5_000],
  retryMs: [5_000, 30_000, 120_000],
  returnMs: [5_000, 60_000],
}

/** Makes a pause up to 20 % longer or shorter, so that jobs that failed together do not come back together. */
export function spread(ms: number): number {
  return Math.round(ms * (0.8 + 0.4 * Math.random()))
}

/** Returns a pause that has doubled `times` times. */
export function doubled([first, last]: readonly [number, number], times: number): number {
  return Math.min(last, first * 2 ** times)
}
