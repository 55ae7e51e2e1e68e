import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import type { Timing } from '../../src/gateway/node/timing.ts'
import { childEnvironment } from './child-environment.ts'
import { type Gateway, type GatewayOptions, gatewayEnvironment } from './gateway.ts'
import { type Program, programOf } from './program.ts'
import type { Teardown } from './scratch.ts'

/** A process of the product. */
export interface LarkwayProcess extends Pick<Gateway, 'dataFolder' | 'log' | 'output' | 'signal'> {
  readonly pid: number
  /** Peak resident memory so far, MiB. */
  peakRssMiB(): Promise<number>
}

export interface Larkway extends LarkwayProcess, Gateway {}

export interface LarkwayOptions extends GatewayOptions {
  /** The Node to run it with; default: that of the tests. */
  readonly node?: string
  /** The program of the server; default: that of this tree. */
  readonly program?: Program | undefined
}

/** Starts the product as its own process on a free port, and stops it with the test. */
export async function startLarkway(t: Teardown, options: LarkwayOptions = {}): Promise<Larkway> {
  const key = options.key ?? makeKey()
  const program = options.program ?? (await programOf('main.ts'))
  const { started, ...process } = await launch(t, program, [], 'listening', options, key)
  const port = Number(started.port)
  return {
    ...process,
    url: `http://127.0.0.1:${port}`,
    port,
    key,
    sandboxUrl: started.sandbox === undefined ? undefined : String(started.sandbox),
  }
}

/** Environment of a store that nobody asks: the process takes nothing up. */
export const UNUSED_STORE = {
  S3_ENDPOINT: 'http://127.0.0.1:1',
  S3_BUCKET: 'nothing',
  S3_ACCESS_KEY_ID: 'nobody',
  S3_SECRET_ACCESS_KEY: 'nothing',
}

/** Starts a process that works on jobs and nothing else, and stops it with the test. */
export async function startWorker(t: Teardown, options: LarkwayOptions): Promise<LarkwayProcess> {
  const { started: _, ...process } = await launch(
    t,
    await programOf('cli.ts'),
    ['worker'],
    'working',
    options,
    makeKey(),
  )
  return process
}

/** @param ready what the line of the log says with which it is up */
async function launch(
  t: Teardown,
  program: Program,
  args: readonly string[],
  ready: string,
  options: LarkwayOptions,
  demoKey: string,
): Promise<LarkwayProcess & { readonly started: Record<string, unknown> }> {
  const { dataFolder, env } = await gatewayEnvironment(t, options, demoKey)
  const child = spawn(options.node ?? process.execPath, [...program.args, ...args], {
    env: childEnvironment({ ...program.env, ...env, ...testTiming(options.timing) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const log: Record<string, unknown>[] = []
  const output: string[] = []
  child.stderr.pipe(process.stderr, { end: false })
  createInterface({ input: child.stderr }).on('line', (text) => output.push(text))
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })
  return {
    started: await readLog(child, { log, output }, ready),
    pid: child.pid ?? 0,
    dataFolder,
    log,
    output,
    async signal(name) {
      // Who was killed by a signal has no exit code, and its event does not come again.
      const ended = child.exitCode !== null || child.signalCode !== null
      const exited = ended ? null : once(child, 'exit')
      child.kill(name)
      await exited
      return child.exitCode
    },
    peakRssMiB: () => peakRssMiB(child.pid ?? 0),
  }
}

/** Those of a node's processes that live, if it has several on one port; in the order of their starts. */
export function processesOf({ log }: Pick<LarkwayProcess, 'log'>): number[] {
  const pids = log.flatMap(({ msg, pid }) => (msg === 'listening' && typeof pid === 'number' ? [pid] : []))
  return pids.filter(isAlive)
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Gives a process durations of its own; an environment of `env` may do the same for a whole fleet. */
export function testTiming(timing: Timing | undefined): Record<string, string> {
  return timing === undefined ? {} : { NODE_ENV: 'test', LARKWAY_TEST_TIMING: JSON.stringify(timing) }
}

/** Collects the log and resolves with the line that says that the process is up. */
function readLog(
  child: ChildProcess,
  { log, output }: { log: Record<string, unknown>[]; output: string[] },
  ready: string,
): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) =>
      reject(new Error(`larkway exited with ${code}: ${JSON.stringify(log.slice(-3))}`)),
    )
    if (child.stdout === null) return reject(new Error('larkway has no output'))
    createInterface({ input: child.stdout }).on('line', (text) => {
      output.push(text)
      if (!text.startsWith('{')) return
      const line = JSON.parse(text) as Record<string, unknown>
      log.push(line)
      if (line.msg === ready) resolve(line)
    })
  })
}

async function peakRssMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
