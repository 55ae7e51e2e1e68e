import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * For tests that need a real server: `test(name, { skip: withoutServers }, …)`. Such a test counts as skipped where
 * LARKWAY_TEST_SKIP_SERVERS=1 is set; without it a server that cannot be had is a failure.
 */
export const withoutServers: string | false =
  process.env.LARKWAY_TEST_SKIP_SERVERS === '1' && 'LARKWAY_TEST_SKIP_SERVERS is set'

const SERVERS = fileURLToPath(new URL('../../scripts/servers.mjs', import.meta.url))

/** How to run a program: what to call, and the environment that it needs on top of ours. */
export type Program = { command: string[]; env?: Record<string, string>; root?: string }

/** What the run of the tests has found already is not looked for by each file. */
const found = JSON.parse(process.env.LARKWAY_TEST_SERVERS ?? '{}') as Record<string, Program>
const located = new Map(Object.entries(found).map(([name, program]) => [name, Promise.resolve(program)]))

/** Finds a server or the browser, or fetches it into `.larkway/` (once, up to a minute). */
export function locate(server: 'redis' | 'nginx' | 's3' | 'browser'): Promise<Program> {
  let program = located.get(server)
  if (!program) {
    program = promisify(execFile)(process.execPath, [SERVERS, server]).then(
      ({ stdout }) => JSON.parse(stdout) as Program,
      (error: { stderr?: string }) => Promise.reject(new Error(error.stderr?.trim() || String(error))),
    )
    located.set(server, program)
  }
  return program
}

const alive = new Set<ChildProcess>()

// A test file that crashes runs no teardown.
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

/** One process of a server, which a test can crash and freeze. */
export class Daemon {
  readonly name: string
  readonly #program: Program
  readonly #args: string[]
  readonly #logPath: string
  #child: ChildProcess | undefined

  /** @param logPath file that its output is appended to, told when it does not start */
  constructor(name: string, program: Program, args: string[], logPath: string) {
    this.name = name
    this.#program = program
    this.#args = args
    this.#logPath = logPath
  }

  get pid(): number {
    const pid = this.#child?.pid
    if (pid === undefined) throw new Error(`${this.name} is not running`)
    return pid
  }

  /**
   * @param isReady asked until it says yes, 20 times a second
   * @throws Error with the end of its output when it ends first, or is not ready after 60 s
   */
  async start(isReady: () => Promise<boolean>): Promise<void> {
    const [file = '', ...before] = this.#program.command
    const log = openSync(this.#logPath, 'a')
    const child = spawn(file, [...before, ...this.#args], {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...this.#program.env },
    })
    this.#child = child
    alive.add(child)
    child.once('exit', () => alive.delete(child))
    child.once('error', () => alive.delete(child))
    const deadline = Date.now() + 60_000
    while (!(await isReady())) {
      if (!alive.has(child))
        throw new Error(`${this.name} ended (${child.exitCode ?? child.signalCode})\n${await this.#tail()}`)
      if (Date.now() > deadline)
        throw new Error(`${this.name} is not ready after 60 s\n${await this.#tail()}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  /** As a crash: SIGKILL. Back when the process is gone. */
  kill(): Promise<void> {
    return this.end('SIGKILL')
  }

  /** Does nothing when it has ended. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (!child || !alive.has(child)) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }

  /** Connections stay open and nobody answers: on a busy machine a thread goes on until it is its turn to stop. */
  freeze(): void {
    process.kill(this.pid, 'SIGSTOP')
    const deadline = performance.now() + STOP_MS
    while (!isStopped(this.pid)) {
      if (performance.now() > deadline) throw new Error(`${this.pid} goes on in spite of SIGSTOP`)
      Atomics.wait(NEVER, 0, 0, 1)
    }
  }

  thaw(): void {
    process.kill(this.pid, 'SIGCONT')
  }

  async #tail(): Promise<string> {
    return (await readFile(this.#logPath, 'utf8')).split('\n').slice(-30).join('\n')
  }
}

/** Longest that a process may take until all of its threads have stopped. */
const STOP_MS = 5_000
/** Nobody writes it. */
const NEVER = new Int32Array(new SharedArrayBuffer(4))

function isStopped(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
      // Behind the name, which may have anything in it.
      return text.slice(text.lastIndexOf(')') + 2).startsWith('T')
    } catch {
      // It has ended meanwhile.
      return true
    }
  })
}
