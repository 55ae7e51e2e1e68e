import { Worker } from 'node:worker_threads'
import { GatewayError } from '../../errors.ts'
import { type Logger, messageOf } from '../../log.ts'
import type { Call, Committed } from './commit.ts'
import type { Operations, Runner } from './operations.ts'
import type { WorkerOptions } from './worker.ts'

/** What a caller waits at most. */
const LIMIT_MS = 2_000
/** How long a file that could not be opened is not tried again: a thread per call would cost more than it helps. */
const PAUSE_MS = 1_000
/** How long the last calls may take to be written when the state is closed. */
const CLOSE_MS = 10_000

interface Pending {
  readonly deadlineMs: number
  readonly resolve: (value: never) => void
  readonly reject: (error: GatewayError) => void
}

export interface ThreadOptions extends WorkerOptions {
  readonly log: Logger
}

/**
 * The thread that owns the state's file, as the rest of the process sees it. It is started by the first call, and
 * started again by the next one when it has died; it keeps the process alive only while a call is under way.
 */
export class StateThread implements Runner {
  readonly #file: string
  readonly #log: Logger
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | null = null
  #opened: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | null = null
  #lastId = 0
  #closed = false
  #failing = false
  #pause = { untilMs: 0, reason: '' }

  constructor({ file, log }: ThreadOptions) {
    this.#file = file
    this.#log = log
  }

  /** @throws Error that says why the file cannot be opened */
  async open(): Promise<void> {
    this.#start().ref()
    await this.#opened
    if (this.#pending.size === 0) this.#worker?.unref()
  }

  /**
   * Runs an operation. What it has done is on the disk when it answers.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when it does not answer in time, or cannot write: it may have been
   *         done all the same, or be done later; INTERNAL when the operation itself is at fault
   */
  call<Name extends keyof Operations>(
    name: Name,
    ...args: Parameters<Operations[Name]>
  ): Promise<ReturnType<Operations[Name]>> {
    if (this.#closed) return Promise.reject(unavailable('the state is closed'))
    if (performance.now() < this.#pause.untilMs) return Promise.reject(unavailable(this.#pause.reason))
    const worker = this.#start()
    return new Promise((resolve, reject) => {
      if (this.#pending.size === 0) worker.ref()
      this.#lastId += 1
      this.#pending.set(this.#lastId, { deadlineMs: performance.now() + LIMIT_MS, resolve, reject })
      worker.postMessage({ id: this.#lastId, name, args } satisfies Call)
      this.#watch()
    })
  }

  /** Waits until what was called has been done, and ends the thread. */
  async close(): Promise<void> {
    this.#closed = true
    const worker = this.#worker
    if (!worker) return
    worker.ref()
    const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
    worker.postMessage('close')
    const late = setTimeout(() => {
      this.#log.error('the state could not be closed in time')
      void worker.terminate()
    }, CLOSE_MS)
    await ended
    clearTimeout(late)
  }

  #start(): Worker {
    if (this.#worker) return this.#worker
    const worker = new Worker(new URL('./worker.ts', import.meta.url), {
      name: 'state',
      workerData: { file: this.#file } satisfies WorkerOptions,
      // It would say of node:sqlite at every start that it is experimental, and nothing else in there is.
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    this.#worker = worker
    let isOpen = false
    let reason = 'the thread of the state has ended'
    this.#opened = new Promise((resolve, reject) => {
      worker.on('message', (message: 'open' | Committed) => {
        if (message !== 'open') return this.#settle(message)
        isOpen = true
        resolve()
      })
      worker.on('error', (error) => {
        reason = messageOf(error)
        reject(error)
      })
      worker.on('exit', () => {
        this.#worker = null
        reject(new Error(reason))
        if (!isOpen) this.#pause = { untilMs: performance.now() + PAUSE_MS, reason }
        if (!this.#closed) this.#log.error({ reason }, 'the thread of the state has ended')
        this.#failAll(reason)
      })
    })
    // Whoever waits for it hears of it; the others hear of it by their calls.
    this.#opened.catch(() => {})
    worker.unref()
    return worker
  }

  #settle({ answers, wrote }: Committed): void {
    if (wrote) this.#came()
    for (const answer of answers) {
      if ('failure' in answer && answer.failure.unavailable) this.#went(answer.failure.reason)
      const pending = this.#take(answer.id)
      if (!pending) continue // too late: its caller was told so
      if (!('failure' in answer)) pending.resolve(answer.value as never)
      else if (answer.failure.unavailable) pending.reject(unavailable(answer.failure.reason))
      else
        pending.reject(new GatewayError('INTERNAL', undefined, { cause: new Error(answer.failure.reason) }))
    }
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    if (this.#pending.size === 0) this.#worker?.unref()
    return pending
  }

  #failAll(reason: string): void {
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(unavailable(reason))
  }

  /** One timer for all: they wait equally long, so the oldest is the first to be given up. */
  #watch(): void {
    const [oldest] = this.#pending.values()
    if (this.#timer || !oldest) return
    const late = () => {
      this.#timer = null
      const nowMs = performance.now()
      for (const [id, { deadlineMs }] of this.#pending) {
        if (deadlineMs > nowMs) break
        this.#take(id)?.reject(unavailable(`no answer within ${LIMIT_MS} ms`))
      }
      this.#watch()
    }
    // After a long task of this process the timer fires before the answers are read: one that lies there counts.
    this.#timer = setTimeout(() => setImmediate(late), Math.max(0, oldest.deadlineMs - performance.now()))
    this.#timer.unref()
  }

  #went(reason: string): void {
    if (!this.#failing) this.#log.error({ reason }, 'the state cannot be written')
    this.#failing = true
  }

  #came(): void {
    if (this.#failing) this.#log.info('the state can be written again')
    this.#failing = false
  }
}

function unavailable(reason: string): GatewayError {
  return new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause: new Error(reason) })
}
