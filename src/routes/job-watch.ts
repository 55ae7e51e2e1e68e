import type { Job, JobStatus, Jobs } from '../schema/jobs.ts'
import type { JobSignals } from './jobs/signals.ts'

/** How often the state is looked at, in ms: other processes do things to jobs without a word to this one. */
const LOOK_MS = 500

/** Waits for jobs, however many callers wait for the same one. */
export interface JobWatch {
  /**
   * The job when its status is no longer what it was in `job`; as it was seen last when that does not happen within
   * `waitMs`; null when it is gone.
   *
   * @throws GatewayError as `Jobs.get`; the signal's reason when aborted
   */
  changed(job: Job, waitMs: number, signal: AbortSignal): Promise<Job | null>
}

export function createJobWatch(jobs: Pick<Jobs, 'get'>, signals: JobSignals): JobWatch {
  const watched = new Map<string, WatchedJob>()
  return {
    changed(job, waitMs, signal) {
      const { id } = job
      let one = watched.get(id)
      if (one === undefined) {
        one = new WatchedJob(id, { jobs, signals, onLeft: () => void watched.delete(id) })
        watched.set(id, one)
      }
      return one.wait(job, waitMs, signal)
    },
  }
}

interface Waiter {
  readonly status: JobStatus
  seen: Job
  resolve(job: Job | null): void
  reject(reason: unknown): void
}

interface WatchParts {
  readonly jobs: Pick<Jobs, 'get'>
  readonly signals: JobSignals
  /** Nobody waits any more. */
  readonly onLeft: () => void
}

/** One job that somebody waits for: one look at the state serves them all. */
class WatchedJob {
  readonly #id: string
  readonly #parts: WatchParts
  readonly #waiters = new Set<Waiter>()
  readonly #unlisten: () => void
  #timer: NodeJS.Timeout | undefined
  #looking = false
  /** Something happened since the look that is under way began. */
  #stale = false

  constructor(id: string, parts: WatchParts) {
    this.#id = id
    this.#parts = parts
    this.#unlisten = parts.signals.onChanged(id, () => void this.#look())
    this.#lookLater()
  }

  wait(job: Job, waitMs: number, signal: AbortSignal): Promise<Job | null> {
    const { promise, resolve, reject } = Promise.withResolvers<Job | null>()
    const waiter: Waiter = { status: job.status, seen: job, resolve, reject }
    const timer = setTimeout(() => resolve(waiter.seen), waitMs)
    const leave = () => reject(signal.reason)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    this.#waiters.add(waiter)
    return promise.finally(() => {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
      this.#leave(waiter)
    })
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    if (this.#waiters.size > 0) return
    clearTimeout(this.#timer)
    this.#unlisten()
    this.#parts.onLeft()
  }

  #lookLater(): void {
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS)
  }

  async #look(): Promise<void> {
    this.#stale = this.#looking
    if (this.#looking) return
    this.#looking = true
    clearTimeout(this.#timer)
    try {
      const job = await this.#parts.jobs.get(this.#id)
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
  if (job === null || job.status !== waiter.status) waiter.resolve(job)
  else waiter.seen = job
}
