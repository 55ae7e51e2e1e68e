import { EventEmitter } from 'node:events'
import type { Job, JobStatus, Jobs } from '../../contracts/jobs.ts'
import { type Clock, type Timer, unlessAborted } from '../../contracts/time.ts'

/**
 * Signals within this process what happens to jobs, so that waiters need not wait for their next poll: what this
 * process does, and what other processes do as far as the state tells. Only hints: a signal may be missing.
 */
export interface JobSignals {
  /** Jobs were queued in this process, or in the given partition of the state. */
  queued(part?: number): void
  /** @returns removes the listener */
  onQueued(listener: (part?: number) => void): () => void
  /** A job was claimed, was requested to be cancelled, or has ended. */
  changed(id: string): void
  /** @returns removes the listener */
  onChanged(id: string, listener: () => void): () => void
  /** A job has ended: there may be an event to deliver. */
  ended(): void
  /** @returns removes the listener */
  onEnded(listener: () => void): () => void
}

export function createJobSignals(): JobSignals {
  const queue = new EventEmitter().setMaxListeners(0)
  const jobs = new EventEmitter().setMaxListeners(0)
  const listen = (emitter: EventEmitter, event: string, listener: (part?: number) => void) => {
    emitter.on(event, listener)
    return () => void emitter.off(event, listener)
  }
  return {
    queued: (part) => void queue.emit('queued', part),
    onQueued: (listener) => listen(queue, 'queued', listener),
    // Prefixed, since an event of the name `error` would throw.
    changed: (id) => void jobs.emit(`job ${id}`),
    onChanged: (id, listener) => listen(jobs, `job ${id}`, listener),
    ended: () => void queue.emit('ended'),
    onEnded: (listener) => listen(queue, 'ended', listener),
  }
}

/** Poll interval of the state, in ms, for what no signal tells: that another process has begun a job. */
const POLL_MS = 500
/** Mean time between two looks at the state, in ms, however many jobs are waited for. */
const LOOK_MS = 5

/** Waits for changes of jobs; callers that wait for the same job share one poll. */
export interface JobWatch {
  /**
   * Resolves to the job once its status, or the count of its parts that are done, differs from that of `job`; to its
   * last seen form when that does not happen within `waitMs`; to null when it is gone.
   *
   * @throws GatewayError as `Jobs.get`; the signal's reason when aborted
   */
  changed(job: Job, waitMs: number, signal: AbortSignal): Promise<Job | null>
}

export function createJobWatch(jobs: Pick<Jobs, 'get'>, signals: JobSignals, clock: Clock): JobWatch {
  const watched = new Map<string, WatchedJob>()
  const pollMs = () => Math.max(POLL_MS, watched.size * LOOK_MS)
  return {
    changed(job, waitMs, signal) {
      const { id } = job
      let one = watched.get(id)
      if (one === undefined) {
        one = new WatchedJob(id, { jobs, signals, clock, pollMs, onLeft: () => void watched.delete(id) })
        watched.set(id, one)
      }
      return one.wait(job, waitMs, signal)
    },
  }
}

interface Waiter {
  readonly status: JobStatus
  readonly done: number | undefined
  seen: Job
  resolve(job: Job | null): void
  reject(reason: unknown): void
}

interface WatchDependencies {
  readonly jobs: Pick<Jobs, 'get'>
  readonly signals: JobSignals
  readonly clock: Clock
  readonly pollMs: () => number
  /** Called when the last waiter has left. */
  readonly onLeft: () => void
}

/** One job with its waiters: one poll serves them all. */
class WatchedJob {
  readonly #id: string
  readonly #deps: WatchDependencies
  readonly #waiters = new Set<Waiter>()
  readonly #unlisten: () => void
  #timer: Timer | undefined
  #looking = false
  /** A signal came after the current poll had begun. */
  #stale = false

  constructor(id: string, deps: WatchDependencies) {
    this.#id = id
    this.#deps = deps
    this.#unlisten = deps.signals.onChanged(id, () => void this.#look())
    this.#lookLater()
  }

  wait(job: Job, waitMs: number, signal: AbortSignal): Promise<Job | null> {
    const { promise, resolve, reject } = Promise.withResolvers<Job | null>()
    const waiter: Waiter = { status: job.status, done: job.parts?.done, seen: job, resolve, reject }
    const timer = this.#deps.clock.after(waitMs, () => resolve(waiter.seen))
    this.#waiters.add(waiter)
    return unlessAborted(signal, promise).finally(() => {
      timer.close()
      this.#leave(waiter)
    })
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    if (this.#waiters.size > 0) return
    this.#timer?.close()
    this.#unlisten()
    this.#deps.onLeft()
  }

  #lookLater(): void {
    this.#timer = this.#deps.clock.after(this.#deps.pollMs(), () => void this.#look())
  }

  async #look(): Promise<void> {
    this.#stale = this.#looking
    if (this.#looking) return
    this.#looking = true
    this.#timer?.close()
    try {
      const job = await this.#deps.jobs.get(this.#id)
      for (const waiter of this.#waiters) tell(waiter, job)
    } catch (error) {
      for (const waiter of this.#waiters) waiter.reject(error)
    }
    this.#looking = false
    if (this.#waiters.size === 0) return
    if (this.#stale) void this.#look()
    else this.#lookLater()
  }
}

function tell(waiter: Waiter, job: Job | null): void {
  if (job === null || job.status !== waiter.status || job.parts?.done !== waiter.done) waiter.resolve(job)
  else waiter.seen = job
}
