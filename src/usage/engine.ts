import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CancelSignal } from '../contracts/cancellation.ts'
import { GatewayError } from '../contracts/errors.ts'
import { type Clock, systemClock, type Timer } from '../contracts/time.ts'
import type { LogFormat } from './log-report.ts'

/*
 * DuckDB in a process of its own, which is started by the first statement and ends when it is idle: nothing of it is
 * loaded by this process, and its memory is given back whole. It reads and writes files of the folders that it is told
 * of and has no network, no extensions and no variables of the environment.
 */

/** Lists are bound as `VARCHAR[]`, or as `DOUBLE[]` where their first item is a number. */
export type EngineValue = string | number | boolean | null | readonly (string | null)[] | readonly number[]

export interface SqlStatement {
  /** Written here alone: whatever comes from outside is a value of it. */
  readonly sql: string
  /** Stand for `$1`, `$2`, … A whole number is bound as INTEGER or BIGINT, another as DOUBLE. */
  readonly values?: readonly EngineValue[]
  /**
   * How rows are handed over. `values` by default. `plain`: as JSON has them, decimals and whole numbers over 2^53 as
   * texts. Else rows are records of usage, and come as texts, each a part of a file of that format.
   */
  readonly as?: EngineForm
}

/** Makes CSV of a segment; finds a row of `SegmentDay` for each day. */
export interface SegmentStatement {
  readonly segment: string
  /** File to be written. */
  readonly csv: string
}

export type EngineStatement = SqlStatement | SegmentStatement

/** The rows that a statement finds, with values of JavaScript: BIGINT and HUGEINT are bigint, DOUBLE is number. */
export interface EngineRows {
  readonly names: readonly string[]
  /** Values of each column, in the order of `names`. */
  readonly columns: readonly (readonly unknown[])[]
  readonly rows: number
}

export interface EngineOptions {
  /** Folders of which the first that can be written has its own files, in a folder of this process alone. */
  readonly places: readonly string[]
  /** Folders that statements may read and write besides; null: any. */
  readonly folders: readonly string[] | null
  /** `NODE_COMPILE_CACHE` of this process. */
  readonly codeCache?: string | undefined
  readonly clock?: Clock
  /** Memory of DuckDB, beyond which it puts data aside on the disk. */
  readonly memoryMib?: number
  readonly threads?: number
  /** How long the process lives without a statement, by who was the last to run one. */
  readonly idleMs?: Readonly<Record<EngineLane, number>>
}

/** The two queues: statements of one do not wait for those of the other. */
export type EngineLane = 'asking' | 'writing'

export type EngineForm = 'values' | 'plain' | LogFormat

export interface RunOptions {
  /** By default `asking`. */
  readonly lane?: EngineLane
  readonly signal?: CancelSignal | undefined
  /** Longest that the statements may run. By default a minute for who asks, ten for who writes. */
  readonly limitMs?: number
}

/** A statement was refused, or failed; the message is DuckDB's. */
export class EngineError extends Error {
  override readonly name = 'EngineError'
}

export interface UsageEngine {
  /** The id of its process; null: there is none. */
  readonly pid: number | null
  /**
   * Runs statements one after the other, over one connection: a temporary table of one is there for the next, and goes
   * after the last.
   *
   * @returns what each has found
   * @throws EngineError; GatewayError OVERLOADED when too many wait, or they take too long or too much memory; what
   *         aborted it
   */
  run(statements: readonly EngineStatement[], options?: RunOptions): Promise<readonly EngineRows[]>
  /** The folder of its own files, which other parts of the ledger may use too. */
  folder(): Promise<string>
  /** Ends the process, and removes its folder; statements under way fail. */
  close(): Promise<void>
}

/** The settings that the process is started with. */
export interface EngineSettings {
  /** The folder that DuckDB spills to. */
  readonly aside: string
  /** Null: any. */
  readonly folders: readonly string[] | null
  readonly memoryMib: number
  readonly threads: number
}

export type EngineRequest =
  | { readonly id: number; readonly statements: readonly EngineStatement[] }
  | { readonly cancel: number }

export type EngineReply =
  /** Some rows of a statement, by its place. */
  | { readonly id: number; readonly at: number; readonly names: string[]; readonly columns: unknown[][] }
  | { readonly id: number; readonly failure: string | null }

const PROGRAM = new URL('./engine-child.ts', import.meta.url)
/**
 * Whoever looks at a page looks at the next one. Segments come once a minute, but of 2,500 calls a second every 18 s:
 * a process started for each of them would take more CPU than the segment does.
 */
const IDLE_MS: Readonly<Record<EngineLane, number>> = { asking: 60_000, writing: 20_000 }
const MEMORY_MIB = 192
/** The limit of Node's heap: rows are in it a piece at a time. */
const HEAP_MIB = 96
const LIMIT_MS: Readonly<Record<EngineLane, number>> = { asking: 60_000, writing: 600_000 }
/** Within which a process must have ended statements that it was told to end, or it is ended itself. */
const CANCEL_MS = 5_000
/** Statements that may wait for their turn. */
const WAITING_MAX = 32
const RETRY_MS = 5_000
const CANNOT_START = 'the process that reads and writes usage cannot be started'
/** How DuckDB begins to say that its memory is not enough. */
const OUT_OF_MEMORY = 'Out of Memory Error'

export function createUsageEngine(options: EngineOptions): UsageEngine {
  return new Engine(options)
}

/** Statements under way, and what they have found. */
interface Job {
  readonly child: ChildProcess
  readonly found: { names: string[]; columns: unknown[][] }[]
  readonly done: PromiseWithResolvers<readonly EngineRows[]>
}

interface Lane {
  waiting: number
  turn: Promise<unknown>
}

class Engine implements UsageEngine {
  readonly #options: EngineOptions
  readonly #clock: Clock
  readonly #lanes: Record<EngineLane, Lane> = {
    asking: { waiting: 0, turn: Promise.resolve() },
    writing: { waiting: 0, turn: Promise.resolve() },
  }
  readonly #jobs = new Map<number, Job>()
  #folder: Promise<string> | null = null
  #child: Promise<ChildProcess> | null = null
  #idle: Timer | null = null
  #idleUntilMs = 0
  #ids = 0
  pid: number | null = null
  #isClosed = false

  constructor(options: EngineOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  async run(
    statements: readonly EngineStatement[],
    { lane: name = 'asking', signal, limitMs = LIMIT_MS[name] }: RunOptions = {},
  ): Promise<readonly EngineRows[]> {
    const lane = this.#lanes[name]
    if (name === 'asking' && lane.waiting >= WAITING_MAX)
      throw new GatewayError('OVERLOADED', 'too many questions wait on this node', { retryAfterMs: RETRY_MS })
    lane.waiting += 1
    const run = lane.turn.then(() => this.#run(statements, { lane: name, limitMs }, signal))
    lane.turn = run.catch(() => {}).then(() => (lane.waiting -= 1))
    return run
  }

  async folder(): Promise<string> {
    this.#folder ??= ownFolder(this.#options.places).catch((error: unknown) => {
      this.#folder = null
      throw error
    })
    const own = await this.#folder
    // It may have been cleared away, by people or by the engine of another container.
    await mkdir(own, { recursive: true, mode: 0o700 })
    return own
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#idle?.close()
    const child = await this.#child?.catch(() => null)
    if (child) await childEnd(child)
    const folder = await this.#folder?.catch(() => null)
    if (folder) await rm(folder, { recursive: true, force: true })
  }

  async #run(
    statements: readonly EngineStatement[],
    { lane, limitMs }: Required<Pick<RunOptions, 'lane' | 'limitMs'>>,
    signal: CancelSignal | undefined,
  ): Promise<readonly EngineRows[]> {
    signal?.throwIfAborted()
    if (this.#isClosed) throw new Error('usage: the engine is closed')
    this.#idle?.close()
    this.#child ??= this.#start()
    const child = await this.#child.catch((cause: unknown) => {
      this.#child = null
      throw new GatewayError('OVERLOADED', CANNOT_START, { retryAfterMs: RETRY_MS, cause })
    })
    signal?.throwIfAborted()
    const id = this.#ids++
    const job: Job = { child, found: [], done: Promise.withResolvers() }
    this.#jobs.set(id, job)
    child.ref()
    child.channel?.ref()
    const leave = this.#cancelBy(child, id, limitMs, signal)
    try {
      child.send({ id, statements } satisfies EngineRequest)
      return await job.done.promise
    } catch (error) {
      signal?.throwIfAborted()
      throw leave.isLate() ? tooMuch('the question takes too long') : error
    } finally {
      leave.close()
      this.#jobs.delete(id)
      this.#rest(child, lane)
    }
  }

  /** Ends statements once no caller waits for them any more, or they take too long. */
  #cancelBy(child: ChildProcess, id: number, limitMs: number, signal: CancelSignal | undefined) {
    let isLate = false
    let kill: Timer | null = null
    const cancel = () => {
      if (child.connected) child.send({ cancel: id } satisfies EngineRequest)
      kill ??= this.#clock.after(CANCEL_MS, () => child.kill('SIGKILL'))
    }
    const timer = this.#clock.after(limitMs, () => {
      isLate = true
      cancel()
    })
    signal?.addEventListener('abort', cancel, { once: true })
    return {
      isLate: () => isLate,
      close: () => {
        timer.close()
        kill?.close()
        signal?.removeEventListener('abort', cancel)
      },
    }
  }

  async #start(): Promise<ChildProcess> {
    const { folders, memoryMib = MEMORY_MIB, threads = 1, codeCache } = this.#options
    const own = await this.folder()
    const settings: EngineSettings = {
      aside: join(own, 'aside'),
      folders: folders && [own, ...folders],
      memoryMib,
      threads,
    }
    const child = fork(fileURLToPath(PROGRAM), [JSON.stringify(settings)], {
      env: { UV_THREADPOOL_SIZE: '3', ...(codeCache === undefined ? {} : { NODE_COMPILE_CACHE: codeCache }) },
      execArgv: ['--no-warnings', `--max-old-space-size=${HEAP_MIB}`],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    // Rejects where the process cannot be made, such as beyond a limit: it never exits, since it never was.
    await once(child, 'spawn')
    child.on('message', (reply: EngineReply) => this.#take(reply))
    this.pid = child.pid ?? null
    // A message to a process that has ended fails with it.
    child.on('error', () => {})
    child.once('exit', () => {
      this.#forget(child)
      for (const { child: own, done } of this.#jobs.values())
        if (own === child) done.reject(new EngineError('the process of the usage engine has ended'))
    })
    return child
  }

  /** The next statement starts another one. */
  #forget({ pid }: ChildProcess): void {
    if (pid !== this.pid) return
    this.#child = null
    this.pid = null
  }

  #take(reply: EngineReply): void {
    const job = this.#jobs.get(reply.id)
    if (job === undefined) return
    if ('failure' in reply) {
      const { failure } = reply
      if (failure === null) job.done.resolve(job.found.map(engineRows))
      else if (failure.startsWith(OUT_OF_MEMORY))
        job.done.reject(tooMuch('the question takes too much memory'))
      else job.done.reject(new EngineError(failure))
      return
    }
    const found = job.found[reply.at]
    if (found === undefined) job.found[reply.at] = { names: reply.names, columns: reply.columns }
    else
      for (const [at, column] of reply.columns.entries())
        for (const value of column) found.columns[at]!.push(value)
  }

  /** Lets this process end though the other runs, which ends when it is asked nothing for a while. */
  #rest(child: ChildProcess, lane: EngineLane): void {
    const { idleMs = IDLE_MS } = this.#options
    this.#idleUntilMs = Math.max(this.#idleUntilMs, this.#clock.now() + idleMs[lane])
    if (this.#jobs.size > 0) return
    child.unref()
    child.channel?.unref()
    this.#idle?.close()
    this.#idle = this.#clock.after(Math.max(0, this.#idleUntilMs - this.#clock.now()), () => {
      if (this.#jobs.size > 0) return
      this.#forget(child)
      child.kill('SIGKILL')
    })
    this.#idle.unref()
  }
}

function engineRows({ names, columns }: Job['found'][number]): EngineRows {
  return { names, columns, rows: columns[0]?.length ?? 0 }
}

function tooMuch(says: string): GatewayError {
  return new GatewayError('OVERLOADED', `${says}: ask for less at a time`)
}

function childEnd(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    child.ref()
    child.once('exit', () => resolve())
    child.kill('SIGKILL')
  })
}

const OWN_FOLDER = /^larkway-engine-(\d+)-/
/** Folders of engines of this process. */
const ownFolders = new Set<string>()

/** Makes a folder for an engine in the first of some that can have one, and removes those of dead processes. */
async function ownFolder([root, ...others]: readonly string[]): Promise<string> {
  if (root === undefined) throw new Error('usage: the engine has no folder')
  try {
    await mkdir(root, { recursive: true, mode: 0o700 })
    const own = await mkdtemp(join(root, `larkway-engine-${process.pid}-`))
    ownFolders.add(own)
    for (const name of await readdir(root)) {
      const [, pid] = OWN_FOLDER.exec(name) ?? []
      const folder = join(root, name)
      const isUsed = Number(pid) === process.pid ? ownFolders.has(folder) : isAlive(Number(pid))
      if (pid !== undefined && !isUsed) await rm(folder, { recursive: true, force: true })
    }
    return own
  } catch (error) {
    if (others.length === 0) throw error
    return ownFolder(others)
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
