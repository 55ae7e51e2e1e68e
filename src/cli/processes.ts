import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { createLogger, LOG_READ_MS } from '../contracts/log.ts'
import { sleep, systemClock, type Timer } from '../contracts/time.ts'
import { certificateFiles } from '../gateway/node/certificate.ts'
import { type Environment, PROCESSES_MAX, readEnvironment } from '../gateway/node/config.ts'
import { type NodePlace, type SharedFolder, shareFolder } from '../gateway/node/stores.ts'
import { UsageError } from './arguments.ts'

/** A process that has served for so long did not fail to start. */
const SETTLED_MS = 5_000
const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 30_000
/** So many early ends in a row without a settled process mean that none serves, and none will. */
const EARLY_ENDS_MAX = 6

export interface ProcessesOptions {
  readonly count: number
  readonly env: Readonly<Record<string, string | undefined>>
  /** Takes whole lines for standard output: the logs of the processes, and what is said of them. */
  readonly print: (lines: string) => void
  /** Takes a sentence for standard error. */
  readonly complain: (sentence: string) => void
}

/** @throws UsageError for what is no number of processes */
export function readCount(text: string): number {
  const count = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > PROCESSES_MAX) throw new UsageError(`--processes takes 1 to ${PROCESSES_MAX}`)
  return count
}

/**
 * Runs several servers on one port and keeps them running. The kernel hands each new connection to one of
 * them (SO_REUSEPORT; only Linux spreads them). Each has its own memory budget. They share Redis and S3, or a data
 * folder: then this process has their state, and answers them by the channel that each was started with.
 *
 * The first one starts alone, so that what keeps it from serving is said once and ends the command. Later,
 * one that ends is replaced, after pauses that grow while its successors end early. SIGTERM and SIGINT stop
 * them gracefully, a second one ends them at once, and SIGHUP is passed on.
 *
 * @returns the exit code: 0 when all ended well after a signal
 * @throws  Error that says why it is refused, that the port is taken, or what is wrong with the data folder
 */
export async function serveProcesses({ env, ...options }: ProcessesOptions): Promise<number> {
  const environment = readEnvironment(env)
  checkMetricsPorts(environment.LARKWAY_METRICS_PORT, options.count)
  const port = await findPort(environment.HOST, environment.PORT)
  const own = { PORT: String(port), LARKWAY_PROCESSES: String(options.count) }
  const common = { ...env, ...own, ...(await findTlsPort(environment)) }
  const folder = await shareFolder(environment, createLogger(environment.LOG_LEVEL), options.count)
  const exitCode = await new Processes({ ...options, env: common }, port, folder).run()
  await folder.close()
  // By itself the process ends once its output is read, which may be never.
  systemClock.after(LOG_READ_MS, () => process.exit()).unref()
  return exitCode
}

async function findTlsPort(environment: Environment): Promise<Record<string, string>> {
  if (certificateFiles(environment) === undefined) return {}
  const { HOST, LARKWAY_TLS_HOST: host = HOST, LARKWAY_TLS_PORT: port } = environment
  return { LARKWAY_TLS_PORT: String(await findPort(host, port)) }
}

/** @throws Error when the ports that follow the first one do not suffice */
function checkMetricsPorts(first = 0, count: number): void {
  if (first + count - 1 <= 65_535) return
  throw new Error(`environment: ${count} processes need as many ports from LARKWAY_METRICS_PORT on`)
}

/** Each process tells its own metrics: the first one at the port that is set, each other at the one behind. */
function withMetricsPort(env: ProcessesOptions['env'], number: number): ProcessesOptions['env'] {
  const first = Number(env.LARKWAY_METRICS_PORT ?? 0)
  return first === 0 ? env : { ...env, LARKWAY_METRICS_PORT: String(first + number - 1) }
}

/**
 * The port to share. It is tried without sharing first: the kernel would let another set of processes of the
 * same user have it too, and each would get a part of the other's connections.
 */
async function findPort(host: string, port: number): Promise<number> {
  const server = createServer()
  try {
    server.listen({ host, port, exclusive: true })
    await once(server, 'listening')
  } catch (cause) {
    throw new Error(`cannot listen on ${host}:${port}`, { cause })
  }
  const found = (server.address() as AddressInfo).port
  server.close()
  await once(server, 'close')
  return found
}

class Processes {
  readonly #options: ProcessesOptions
  readonly #port: number
  readonly #folder: SharedFolder
  readonly #stopping = new AbortController()
  readonly #running = new Set<ServingProcess>()
  /** One for each number, from 1 on: ends when that process is not started again. */
  readonly #kept: Promise<void>[] = []
  #exitCode = 0
  #hasStarted = false

  constructor(options: ProcessesOptions, port: number, folder: SharedFolder) {
    this.#options = options
    this.#port = port
    this.#folder = folder
  }

  async run(): Promise<number> {
    process.stdout.on('drain', readPaused).on('error', readPaused)
    process.on('SIGTERM', (signal) => this.#stop(signal))
    process.on('SIGINT', (signal) => this.#stop(signal))
    process.on('SIGHUP', () => {
      // One that is starting reads the newest configuration anyway, and would die of the signal.
      for (const { child, state } of this.#running) if (state !== 'starting') child.kill('SIGHUP')
    })
    this.#kept.push(this.#keep(1))
    for (const kept of this.#kept) await kept
    return this.#exitCode
  }

  #stop(signal: NodeJS.Signals): void {
    const again = this.#stopping.signal.aborted
    this.#stopping.abort()
    for (const { child } of this.#running) child.kill(again ? 'SIGKILL' : signal)
    if (again) process.exit(1)
  }

  /** Runs one process after another until all are to stop. */
  async #keep(number: number): Promise<void> {
    const { signal } = this.#stopping
    let earlyEnds = 0
    while (!signal.aborted) {
      const settled = await this.#runOne(number)
      if (signal.aborted) return
      earlyEnds = settled ? 0 : earlyEnds + 1
      if (this.#isHopeless(earlyEnds)) return this.#giveUp()
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, earlyEnds - 1), LONGEST_PAUSE_MS)
      await sleep(systemClock, pauseMs, { signal }).catch(() => {})
    }
  }

  /** @returns whether it had settled before it ended */
  async #runOne(number: number): Promise<boolean> {
    const { env, print, complain } = this.#options
    const place = this.#hasStarted ? 'further' : 'first'
    this.#hasStarted = true
    const running = startServing(withMetricsPort(env, number), place, print)
    this.#running.add(running)
    this.#folder.serve(running.child)
    let settling: Timer | undefined
    void running.listening.then((greeting) => {
      running.state = 'listening'
      settling = systemClock.after(SETTLED_MS, () => {
        running.state = 'settled'
      })
      this.#welcome(number, running.child, greeting)
    })
    const end = await running.ended
    settling?.close()
    this.#running.delete(running)
    const stopped = this.#stopping.signal.aborted
    // One that was stopped before it listened had nothing to finish.
    if (end === 'with 0' || (stopped && running.state === 'starting')) return true
    complain(`process ${number} (pid ${running.child.pid}) ended ${end}`)
    if (stopped) this.#exitCode = 1
    return running.state === 'settled'
  }

  #welcome(number: number, { pid }: ChildProcess, greeting: string): void {
    const { count, print } = this.#options
    const isFirst = this.#kept.length === 1
    print(`larkway: process ${number} of ${count} (pid ${pid}) listens on port ${this.#port}\n`)
    while (this.#kept.length < count) this.#kept.push(this.#keep(this.#kept.length + 1))
    if (isFirst) print(greeting)
  }

  #isHopeless(earlyEnds: number): boolean {
    const hasNeverServed = this.#kept.length === 1
    if (hasNeverServed) return true
    return earlyEnds >= EARLY_ENDS_MAX && ![...this.#running].some(({ state }) => state === 'settled')
  }

  #giveUp(): void {
    this.#exitCode = 1
    // The very first process has reported by itself why it cannot serve.
    if (this.#kept.length > 1) this.#options.complain('no process stays up')
    this.#stop('SIGTERM')
  }
}

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))
/** As `npm start` gives them to a single server. */
const NODE_FLAGS = ['--v8-pool-size=1']

/** One of several servers on a port. */
interface ServingProcess {
  state: 'starting' | 'listening' | 'settled'
  readonly child: ChildProcess
  /** Resolves with what a newcomer is told, once it listens; never when it ends before that. */
  readonly listening: Promise<string>
  /** Resolves when it has ended and its log is passed on: `with 1`, `by SIGKILL`, or why it never ran. */
  readonly ended: Promise<string>
}

/**
 * Starts a server that shares its port. It stops by itself when this process dies, of whatever: the channel
 * between them closes. It is in a process group of its own, else a terminal's Ctrl-C would reach it twice.
 * Further flags for its Node belong into NODE_OPTIONS.
 *
 * @param env   PORT in it is not 0
 * @param print takes its log, whole lines only: several processes that wrote long batches into one pipe
 *              themselves would cut into each other's lines
 */
function startServing(
  env: Readonly<Record<string, string | undefined>>,
  place: Exclude<NodePlace, 'alone'>,
  print: (lines: string) => void,
): ServingProcess {
  const child = spawn(process.execPath, [...NODE_FLAGS, MAIN, place], {
    env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    serialization: 'advanced',
    detached: true,
  })
  if (child.stdout) passLines(child.stdout, print)
  return { state: 'starting', child, listening: greetingOf(child), ended: exitOf(child) }
}

function greetingOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.on('message', (message) => {
      const { greeting } = Object(message) as { readonly greeting?: unknown }
      if (typeof greeting === 'string') resolve(greeting)
    })
  })
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve(`before it ran: ${message}`))
    const end = (code: number | null, signal: string | null) =>
      resolve(code === null ? `by ${signal}` : `with ${code}`)
    child.once('close', end)
    child.once('exit', (...how) => systemClock.after(LOG_READ_MS, () => end(...how)).unref())
  })
}

/** Logs that wait for standard output. Each process itself bounds what waits where nothing reads. */
const paused = new Set<Readable>()

function readPaused(): void {
  for (const from of paused) from.resume()
  paused.clear()
}

function passLines(from: Readable, print: (lines: string) => void): void {
  let begun = ''
  from.setEncoding('utf8')
  from.on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1
    if (end > 0) print(begun + text.slice(0, end))
    begun = end > 0 ? text.slice(end) : begun + text
    if (process.stdout.writableNeedDrain) paused.add(from.pause())
  })
  from.on('end', () => {
    if (begun !== '') print(`${begun}\n`)
  })
}
