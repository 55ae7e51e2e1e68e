import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import type { CancelSignal } from '../cancellation.ts'
import { GatewayError } from '../errors.ts'
import type { UsageLake } from './lake.ts'
import type { LogBounds, LogFound, LogQuestion } from './log.ts'
import type { LogFormat } from './log-report.ts'
import type { LogReply, LogText, NumberedAsk } from './log-tasks.ts'
import { isGone } from './reader.ts'

/** A thread costs some 40 MB; whoever looks at a log looks on. */
const IDLE_MS = 30_000
/** Of the heap; see `LOG_BOUNDS`. */
const HEAP_MIB = 512
/** Questions that read at the same time: one may wait for the store while the other decodes. */
const AT_ONCE = 2
const WAITING_MAX = 32
/** Times that a file may be gone which was listed: a merge took its place meanwhile. */
const TRIES = 3

const FILENAME = new URL('./log-tasks.ts', import.meta.url).href

/** Finds records of usage, in a thread that ends when it is idle. */
export interface UsageLog {
  /**
   * @param signal ends the search when nobody waits for it
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, OVERLOADED when too many wait; what aborted it
   */
  search(question: LogQuestion, signal: CancelSignal): Promise<LogFound>
  /** As `search`, as a part of a file. */
  write(question: LogQuestion, format: LogFormat, signal: CancelSignal): Promise<LogText>
  /** Ends the thread; a question under way fails. */
  close(): Promise<void>
}

type LogLake = Pick<UsageLake, 'day' | 'listed' | 'readPart'>

/** @param bounds of each question; for tests */
export function createUsageLog(lake: LogLake, bounds?: LogBounds): UsageLog {
  let opened: Promise<Piscina> | null = null
  const open = async () => {
    const { Piscina } = await import('piscina')
    return new Piscina({
      filename: FILENAME,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE_MS,
      concurrentTasksPerWorker: AT_ONCE,
      maxQueue: WAITING_MAX,
      // A thread that waits for its tasks that way hears no other port.
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    })
  }
  const once = async (name: string, task: object, signal: CancelSignal): Promise<unknown> => {
    opened ??= open()
    const pool = await opened
    signal.throwIfAborted()
    if (pool.queueSize >= WAITING_MAX)
      throw new GatewayError('OVERLOADED', 'too many searches wait on this node', { retryAfterMs: 5_000 })
    const { port1: own, port2: port } = new MessageChannel()
    const asked = new AskedLake(own, lake)
    const onAbort = () => own.close()
    signal.addEventListener('abort', onAbort)
    try {
      return await pool.run({ ...task, bounds, port }, { name, transferList: [port] })
    } catch (error) {
      signal.throwIfAborted()
      throw asked.failure ?? error
    } finally {
      signal.removeEventListener('abort', onAbort)
      own.close()
    }
  }
  const run = async (name: string, task: object, signal: CancelSignal): Promise<unknown> => {
    for (let left = TRIES - 1; ; left -= 1) {
      try {
        return await once(name, task, signal)
      } catch (error) {
        if (left === 0 || !isGone(error)) throw error
      }
    }
  }
  return {
    search: (question, signal) => run('search', { question }, signal) as Promise<LogFound>,
    write: (question, format, signal) => run('write', { question, format }, signal) as Promise<LogText>,
    close: async () => (await opened)?.destroy(),
  }
}

/** Answers what the thread asks of the files. */
class AskedLake {
  /** Why the first question that failed did. */
  failure: unknown = null
  readonly #port: MessagePort
  readonly #lake: LogLake

  constructor(port: MessagePort, lake: LogLake) {
    this.#port = port
    this.#lake = lake
    port.on('message', (ask: NumberedAsk) => void this.#answer(ask))
  }

  async #answer(ask: NumberedAsk): Promise<void> {
    const { number } = ask
    try {
      const it = await this.#found(ask)
      const moved = it instanceof ArrayBuffer ? [it] : []
      this.#port.postMessage({ number, value: { it } } satisfies LogReply, moved)
    } catch (error) {
      this.failure ??= error
      this.#port.postMessage({ number, value: null } satisfies LogReply)
    }
  }

  async #found(ask: NumberedAsk) {
    if (ask.ask === 'read') return (await this.#lake.readPart(ask.key, ask.from, ask.to)).buffer
    if (ask.ask === 'files')
      return (await this.#lake.day(ask.date)).visible.map(({ key, bytes }) => ({ key, bytes }))
    const days = (await this.#lake.listed()).keys()
    const [from, to] = [ask.fromMs, ask.toMs].map((ms) => new Date(ms).toISOString().slice(0, 10)) as [
      string,
      string,
    ]
    return [...days].filter((date) => date >= from && date <= to)
  }
}
