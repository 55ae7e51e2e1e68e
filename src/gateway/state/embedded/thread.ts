import { Worker } from 'node:worker_threads'
import { GatewayError } from '../../../contracts/errors.ts'
import { errorMessage, type Logger } from '../../../contracts/log.ts'
import type { Blocked } from '../../../contracts/state.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import type { Call, Committed } from './commit.ts'
import { Batch, PendingCalls, unavailable } from './pending-calls.ts'
import type { Runner, SubjectName } from './subjects.ts'
import type { Calls, WorkerOptions } from './worker.ts'

/**
 * Longest that a caller waits. A disk, or a machine, that stands still for a few seconds costs time and no refusals;
 * whoever has less time gives up by itself.
 */
const LIMIT_MS = 10_000
/** Most calls that wait: more come only where the thread stands still, or is asked for more than it can do. */
const PENDING_MAX = 10_000
/** Pause before a file that could not be opened is tried again: a thread per call would cost more than it helps. */
const PAUSE_MS = 1_000
/** Time that the last calls have to be written when the state is closed. */
const CLOSE_MS = 10_000

const COPIED = 'the state is migrated; a copy from before it is kept for a week'

export interface ThreadOptions extends WorkerOptions {
  readonly log: Logger
  /** Longest that a caller waits, ms. */
  readonly limitMs?: number
  readonly clock?: Clock
  /** A thread that boots already; absent: one is started. */
  readonly booting?: Worker | undefined
}

/** Starts a thread that waits to be told of its file. */
export function bootStateThread(): Worker {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    name: 'state',
    // Nothing but node:sqlite is experimental in there, and Node would warn of it at every start.
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  worker.unref()
  return worker
}

/**
 * Stands for the thread that owns the state's file. The first call starts the thread, and the next call starts it again
 * when it has died. It keeps the process alive only while a call is under way.
 */
export class StateThread implements Runner {
  readonly #options: WorkerOptions
  readonly #log: Logger
  readonly #clock: Clock
  readonly #pending: PendingCalls
  /** Calls of this turn. */
  readonly #unsent = new Batch<Call>((calls) => this.#post(calls))
  #worker: Worker | null = null
  #booting: Worker | undefined
  #opened: Promise<void> = Promise.resolve()
  #closed = false
  #failing = false
  #blocked: Blocked | null = null
  #pause = { untilMs: 0, reason: '' }

  constructor({ log, limitMs = LIMIT_MS, clock = systemClock, booting, ...options }: ThreadOptions) {
    this.#clock = clock
    this.#booting = booting
    this.#options = options
    this.#log = log
    this.#pending = new PendingCalls({
      ...{ limitMs, clock },
      onLate: (reason) => this.#went(reason, null),
      onNone: () => void this.#worker?.unref(),
    })
  }

  blocked(): Blocked | null {
    return this.#blocked
  }

  /** @throws Error that says why the file cannot be opened */
  async open(): Promise<void> {
    this.#start().ref()
    await this.#opened
    if (this.#pending.size === 0) this.#worker?.unref()
  }

  /**
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the thread does not answer in time, or cannot write: the method
   *         may have run all the same, or run later; at once when too many calls wait; INTERNAL when the method itself
   *         is at fault
   */
  call(subject: SubjectName, method: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#closed) return Promise.reject(unavailable('the state is closed'))
    if (this.#clock.now() < this.#pause.untilMs) return Promise.reject(unavailable(this.#pause.reason))
    if (this.#pending.size >= PENDING_MAX) {
      const reason = `over ${PENDING_MAX} calls wait for the state`
      this.#went(reason, null)
      return Promise.reject(unavailable(reason))
    }
    const worker = this.#start()
    if (this.#pending.size === 0) worker.ref()
    const looks = subject === 'health' && method === 'write'
    return this.#pending.add(looks, (id) => this.#unsent.add({ id, subject, method, args }))
  }

  #post(calls: readonly Call[]): void {
    try {
      const message: Calls = { atMs: this.#clock.wallNow(), steadyMs: this.#clock.now(), calls }
      this.#worker?.postMessage(message)
    } catch (error) {
      // One of them cannot be cloned. The others are none the worse for it.
      if (calls.length > 1) for (const call of calls) this.#post([call])
      else this.#pending.take(calls[0]!.id)?.reject(error)
    }
  }

  /** Ends the thread after the calls under way. */
  async close(): Promise<void> {
    this.#closed = true
    const worker = this.#worker
    if (!worker) return
    worker.ref()
    const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
    this.#unsent.flush()
    worker.postMessage('close')
    const late = this.#clock.after(CLOSE_MS, () => {
      this.#log.error('the state could not be closed in time')
      void worker.terminate()
    })
    await ended
    late.close()
  }

  #start(): Worker {
    if (this.#worker) return this.#worker
    const worker = this.#booting ?? bootStateThread()
    this.#booting = undefined
    worker.postMessage(this.#options)
    this.#worker = worker
    let isOpen = false
    let reason = 'the thread of the state has ended'
    this.#opened = new Promise((resolve, reject) => {
      worker.on('message', (message: 'open' | { readonly copied: string } | Committed) => {
        if (message !== 'open') {
          if ('answers' in message) this.#settle(message)
          else this.#log.warn({ path: message.copied }, COPIED)
          return
        }
        isOpen = true
        resolve()
      })
      worker.on('error', (error) => {
        reason = errorMessage(error)
        reject(error)
      })
      worker.on('exit', () => {
        this.#worker = null
        reject(new Error(reason))
        if (!isOpen) this.#pause = { untilMs: this.#clock.now() + PAUSE_MS, reason }
        if (!this.#closed) this.#log.error({ reason }, 'the thread of the state has ended')
        this.#failAll(reason)
      })
    })
    // A caller that waits for `open` sees it reject; all others learn of it by the call that fails.
    this.#opened.catch(() => {})
    return worker
  }

  #settle({ answers, wrote }: Committed): void {
    if (wrote && this.#blocked === null) this.#came()
    for (const answer of answers) {
      if ('failure' in answer && answer.failure.unavailable)
        this.#went(answer.failure.reason, answer.failure.blocked)
      const pending = this.#pending.take(answer.id)
      if (!pending) continue // too late: its caller was refused meanwhile
      if (!('failure' in answer)) {
        if (pending.looks) this.#came()
        pending.resolve(answer.value)
      } else if (answer.failure.unavailable) pending.reject(unavailable(answer.failure.reason))
      else
        pending.reject(new GatewayError('INTERNAL', undefined, { cause: new Error(answer.failure.reason) }))
    }
  }

  #failAll(reason: string): void {
    this.#unsent.clear()
    this.#pending.failAll(reason)
  }

  #went(reason: string, blocked: Blocked | null): void {
    if (!this.#failing) this.#log.error({ reason }, 'the state cannot be written')
    this.#failing = true
    this.#blocked ??= blocked
  }

  #came(): void {
    if (this.#failing) this.#log.info('the state can be written again')
    this.#failing = false
    this.#blocked = null
  }
}
