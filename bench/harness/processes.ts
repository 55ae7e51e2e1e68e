import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { TaskReply } from '../load/task.ts'
import { processTree } from './accounting.ts'
import type { Network } from './network.ts'

export const BENCH = fileURLToPath(new URL('..', import.meta.url))

/**
 * Placement of processes: the server has a core of its own, so that its cost does not depend on its callers. One whose
 * start is measured has all of them, since it has no calls meanwhile.
 */
export type Role = 'server' | 'start' | 'load' | 'pings'

export interface Launch {
  readonly name: string
  readonly role: Role
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly network: Network
  /** Where the log file goes. */
  readonly folder: string
}

/** No task takes that long; one that does hangs, and so would the bench. */
const TASK_MS_MAX = 180_000

const alive = new Set<Running>()
process.on('exit', () => {
  for (const running of alive) running.killNow()
})

/** A process of a run. */
export class Running {
  readonly name: string
  readonly pid: number
  readonly logPath: string
  readonly #child: ChildProcess
  readonly #ended: Promise<string>
  #taskId = 0

  constructor(child: ChildProcess, name: string, logPath: string) {
    this.#child = child
    this.name = name
    this.pid = child.pid ?? -1
    this.logPath = logPath
    this.#ended = new Promise((done) => {
      child.on('error', (error) => done(error.message))
      child.on('exit', (status, signal) => done(`ended with ${signal ?? status}`))
    })
    child.setMaxListeners(50)
    alive.add(this)
    this.#ended.then(() => alive.delete(this))
  }

  /** Has a process that uses `answerTasks` do something. Rejects when it fails or ends. */
  async run<Input, Output>(input: Input): Promise<Output> {
    const id = ++this.#taskId
    return await new Promise((done, fail) => {
      const late = setTimeout(() => fail(new Error(`${this.name}: a task hangs`)), TASK_MS_MAX)
      const onReply = (reply: TaskReply<Output>) => {
        if (reply.id !== id) return
        clearTimeout(late)
        this.#child.off('message', onReply)
        if ('error' in reply) fail(new Error(`${this.name}: ${reply.error}`))
        else done(reply.output)
      }
      this.#child.on('message', onReply)
      this.#ended.then((how) => {
        clearTimeout(late)
        fail(new Error(`${this.name} ${how}\n${this.lastLines()}`))
      })
      this.#child.send({ id, input })
    })
  }

  /** Resolves to how it ended. */
  get ended(): Promise<string> {
    return this.#ended
  }

  lastLines(): string {
    return readFileSync(this.logPath, 'utf8').trim().split('\n').slice(-8).join('\n')
  }

  /**
   * Little of a bench needs an orderly end: a polite signal first for those that have children, then none.
   *
   * @param withinMs for those that write something down as they end
   */
  async stop(withinMs = 300): Promise<void> {
    const tree = processTree(this.pid)
    this.#child.kill('SIGTERM')
    await Promise.race([this.#ended, sleep(withinMs)])
    for (const pid of tree) killIfThere(pid)
    await this.#ended
  }

  killNow(): void {
    for (const pid of processTree(this.pid)) killIfThere(pid)
  }
}

export function start(launch: Launch): Running {
  leaveServerCore()
  const logPath = join(launch.folder, `${launch.name.replaceAll(/[^a-z0-9]+/gi, '-')}.log`)
  const log = openSync(logPath, 'w')
  const line = [...launch.network.prefix, ...placement(launch.role), launch.command, ...launch.args]
  const { PATH, HOME } = process.env
  const isServer = launch.role === 'server' || launch.role === 'start'
  const child = spawn(line[0] ?? '', line.slice(1), {
    cwd: launch.folder,
    env: { PATH, HOME, NODE_ENV: 'production', ...launch.env },
    // A server is left without a channel: none has one in production.
    stdio: isServer ? ['ignore', log, log] : ['ignore', log, log, 'ipc'],
  })
  closeSync(log)
  return new Running(child, launch.name, logPath)
}

/** One of this folder's programs, by the Node that runs this one. */
export function startProgram(
  file: string,
  args: readonly string[],
  rest: Omit<Launch, 'command' | 'args'>,
): Running {
  return start({ ...rest, command: process.execPath, args: ['--no-warnings', join(BENCH, file), ...args] })
}

const CORES = availableParallelism()
const CAN_PIN = CORES > 1 && spawnSync('taskset', ['-c', '0', 'true']).status === 0
/** Each live session takes two files of a gateway. Beyond the hard limit only a privileged bench gets any. */
const FILES_WANTED = 65_536
const raised = ['prlimit', `--nofile=${FILES_WANTED}:${FILES_WANTED}`]
const CAN_RAISE = spawnSync(raised[0]!, [...raised.slice(1), 'true']).status === 0

/** Files that a process of a run may have open. */
export const FILES_MAX = CAN_RAISE ? FILES_WANTED : hardLimit()

function hardLimit(): number {
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })
  return stdout.trim() === 'unlimited' ? Number.POSITIVE_INFINITY : Number(stdout)
}

const CAN_PREFER = spawnSync('sh', ['-c', 'nice -n -15 true 2>&1 | grep . && exit 1; exit 0']).status === 0

let isAway = false

/**
 * Keeps this process, and with it what it starts without a place, off the server's core. Not where this file is only
 * imported: benches that place nothing need both cores.
 */
function leaveServerCore(): void {
  if (isAway || !CAN_PIN) return
  isAway = true
  spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', '1', String(process.pid)])
}

/** Description of `placement` in the results. */
export const PLACEMENT = CAN_PIN
  ? `server on cpu0; load generators and upstream on cpu1${CAN_PREFER ? ', pings there with a nice value of -15' : ''}`
  : 'nothing pinned: there is one core, or no taskset'

function placement(role: Role): string[] {
  const cores = { server: '0', start: `0-${CORES - 1}`, load: '1', pings: '1' }[role]
  const pin = CAN_PIN ? ['taskset', '-c', cores] : []
  // Pings share a core with the uploads: unless they come first there, they measure their own waiting. Not by
  // real-time priority: V8's threads spin for one another, and on one core such a spin never ends.
  const prefer = role === 'pings' && CAN_PREFER ? ['nice', '-n', '-15'] : []
  return [...pin, ...prefer, ...(CAN_RAISE ? raised : [])]
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
