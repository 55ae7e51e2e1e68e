import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import type { CancelSignal } from '../cancellation.ts'
import { GatewayError } from '../errors.ts'
import { nextTurn } from '../time.ts'

/*
 * A thread that runs tasks of a module. A thread has no connection to anything: what a task needs of the store it asks
 * for over a port, which is served by whoever gave the task, or reads from the files of a store that is a folder.
 */

export interface TaskThreadOptions {
  /** URL of the module; its exports are the tasks. */
  readonly filename: string
  /** How long the thread lives without a task. */
  readonly idleMs: number
  /** Of its heap; array buffers are outside of it. */
  readonly heapMib: number
}

/** Runs one task after the other; no thread is there before the first. */
export interface TaskThread {
  /** @param moved buffers that are the caller's no more */
  run(name: string, task: object | string, moved?: ArrayBuffer[]): Promise<unknown>
  /** Ends the thread; a task under way fails. */
  close(): Promise<void>
}

export function createTaskThread(options: TaskThreadOptions): TaskThread {
  const pool = onePool({ ...options, atOnce: 1 })
  return {
    run: async (name, task, moved = []) => (await pool.open()).run(task, { name, transferList: moved }),
    close: pool.close,
  }
}

export interface AskingThreadOptions extends TaskThreadOptions {
  /** Tasks that are under way at a time: one may wait for the store while the other computes. */
  readonly atOnce: number
}

/** Serves what a task asks for. A buffer, or one that bytes are all of, is the thread's then. */
export type Serve<Ask> = (ask: Ask) => Promise<unknown>

/** Runs tasks that ask for more while they run: their argument has a `port`, which `AskingPort` takes. */
export interface AskingThread {
  /**
   * @param signal ends the task when nobody waits for it: whatever it asks for fails
   * @throws the first failure of `serve`, else what the task throws; what aborted it; GatewayError OVERLOADED when too
   *         many wait
   */
  run<Ask>(name: string, task: object, serve: Serve<Ask>, signal?: CancelSignal): Promise<unknown>
  /** Ends the thread; tasks under way fail. */
  close(): Promise<void>
}

/** Tasks that may wait for their turn. */
const WAITING_MAX = 32
const RETRY_MS = 5_000

export function createAskingThread(options: AskingThreadOptions): AskingThread {
  const lazy = onePool(options)
  return {
    async run<Ask>(name: string, task: object, serve: Serve<Ask>, signal?: CancelSignal) {
      const pool = await lazy.open()
      signal?.throwIfAborted()
      if (pool.queueSize >= WAITING_MAX)
        throw new GatewayError('OVERLOADED', 'too many questions wait on this node', {
          retryAfterMs: RETRY_MS,
        })
      const { port1: own, port2: port } = new MessageChannel()
      const served = new Served(own, serve)
      const onAbort = () => own.close()
      signal?.addEventListener('abort', onAbort)
      try {
        return await pool.run({ ...task, port }, { name, transferList: [port] })
      } catch (error) {
        signal?.throwIfAborted()
        throw served.failure ?? error
      } finally {
        signal?.removeEventListener('abort', onAbort)
        own.close()
      }
    },
    close: lazy.close,
  }
}

/** A pool of one thread, opened with its first use. */
function onePool({ filename, idleMs, heapMib, atOnce }: AskingThreadOptions) {
  let opened: Promise<Piscina> | null = null
  const make = async () => {
    const { Piscina } = await import('piscina')
    return new Piscina({
      filename,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: idleMs,
      concurrentTasksPerWorker: atOnce,
      // A thread that waits for its tasks by atomics hears no port.
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: heapMib },
    })
  }
  return {
    open: () => {
      opened ??= make()
      return opened
    },
    close: async () => (await opened)?.destroy(),
  }
}

/** What is asked in one turn of the thread; a message costs as much as what is in most. */
interface Asked<Ask> {
  /** Of the first; the others follow. */
  readonly number: number
  readonly asks: readonly Ask[]
}

interface Replies {
  /** As in what was asked, all of which they answer. */
  readonly number: number
  /** Null: it failed, and whoever gave the task knows why. */
  readonly values: readonly ({ readonly it: unknown } | null)[]
}

/** Answers what a task asks. */
class Served<Ask> {
  /** Why the first that failed did; null: none has. */
  failure: unknown = null
  readonly #port: MessagePort
  readonly #serve: Serve<Ask>

  constructor(port: MessagePort, serve: Serve<Ask>) {
    this.#port = port
    this.#serve = serve
    port.on('message', (asked: Asked<Ask>) => void this.#answer(asked))
  }

  async #answer({ number, asks }: Asked<Ask>): Promise<void> {
    const values = await Promise.all(asks.map((ask) => this.#valueOf(ask)))
    const moved = values.flatMap((value) => buffersOf(value?.it))
    this.#port.postMessage({ number, values } satisfies Replies, moved)
  }

  async #valueOf(ask: Ask): Promise<{ readonly it: unknown } | null> {
    try {
      return { it: await this.#serve(ask) }
    } catch (error) {
      this.failure ??= error
      return null
    }
  }
}

/** What is moved, and not copied. */
function buffersOf(it: unknown): ArrayBuffer[] {
  if (it instanceof ArrayBuffer) return [it]
  const isWhole = it instanceof Uint8Array && it.byteLength === it.buffer.byteLength
  return isWhole && it.buffer instanceof ArrayBuffer ? [it.buffer] : []
}

const GIVEN_UP = 'the task was given up'

/** The end of the port in the thread. */
export class AskingPort<Ask> {
  readonly #port: MessagePort
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #asked = 0
  /** Since the thread's turn began. */
  #asks: Ask[] = []
  #isClosed = false

  constructor(port: MessagePort) {
    this.#port = port
    port.on('message', ({ number: first, values }: Replies) => {
      for (const [at, value] of values.entries()) {
        const waiting = this.#waiting.get(first + at)
        this.#waiting.delete(first + at)
        if (value === null) waiting?.reject(new Error('what a task asked for could not be had'))
        else waiting?.resolve(value.it)
      }
    })
    // Nobody waits for the task any more.
    port.on('close', () => this.#end())
  }

  /** @throws Error when it cannot be had, or when nobody waits for the task */
  ask(ask: Ask): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new Error(GIVEN_UP))
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(this.#asked + this.#asks.length, waiting)
    if (this.#asks.push(ask) === 1) setImmediate(this.#send)
    return waiting.promise
  }

  readonly #send = (): void => {
    const [number, asks] = [this.#asked, this.#asks]
    this.#asked += asks.length
    this.#asks = []
    if (!this.#isClosed) this.#port.postMessage({ number, asks } satisfies Asked<Ask>)
  }

  /** Lets the thread hear its ports, before it goes on by itself. @throws Error when nobody waits for the task */
  async turn(): Promise<void> {
    await nextTurn()
    if (this.#isClosed) throw new Error(GIVEN_UP)
  }

  close(): void {
    this.#port.close()
    this.#end()
  }

  #end(): void {
    this.#isClosed = true
    for (const { reject } of this.#waiting.values()) reject(new Error(GIVEN_UP))
    this.#waiting.clear()
  }
}

/**
 * Some bytes of a file, or those of them that there are. At once, in some microseconds: a month of small files is a
 * thousand ways to threads of the pool otherwise. Null: it cannot be read, and whoever has the store finds out why.
 */
export function bytesOfFile(path: string, from: number, to: number): Uint8Array<ArrayBuffer> | null {
  try {
    const file = openSync(path, 'r')
    try {
      // Most files are a tenth of what is asked for at first.
      const bytes = new Uint8Array(Math.max(0, Math.min(to, fstatSync(file).size) - from))
      return readSync(file, bytes, 0, bytes.length, from) === bytes.length ? bytes : null
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}
