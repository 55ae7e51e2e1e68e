import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { makeKey } from '../../src/catalog/key.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const CLI = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

/** A process of the product. */
export interface LarkwayProcess {
  readonly pid: number
  readonly dataFolder: string
  /** Every line of the log, parsed. */
  readonly log: readonly Record<string, unknown>[]
  /** Every line that it wrote, to standard output or to standard error. */
  readonly output: readonly string[]
  /** Resolves with the exit code once the process has ended. */
  signal(name: NodeJS.Signals): Promise<number | null>
  /** Peak resident memory so far, MiB. */
  peakRssMiB(): Promise<number>
}

export interface Larkway extends LarkwayProcess {
  readonly url: string
  readonly port: number
  /** The demo's key, or the one that `config` was asked to name. */
  readonly key: string
  /** Where the demo's sandbox listens; undefined when a configuration is given. */
  readonly sandboxUrl: string | undefined
}

export interface LarkwayOptions {
  /** The Node to run it with; default: that of the tests. */
  readonly node?: string
  readonly env?: Readonly<Record<string, string>>
  /** Content of larkway.yaml as JSON; absent: the demo. */
  readonly config?: unknown
  readonly key?: string
  readonly dataFolder?: string
}

/** Starts the product as its own process on a free port, and stops it with the test. */
export async function startLarkway(t: Test, options: LarkwayOptions = {}): Promise<Larkway> {
  const key = options.key ?? makeKey()
  const { started, ...process } = await launch(t, [MAIN], 'listening', options, key)
  const port = Number(started.port)
  return {
    ...process,
    url: `http://127.0.0.1:${port}`,
    port,
    key,
    sandboxUrl: started.sandbox === undefined ? undefined : String(started.sandbox),
  }
}

/** Starts a process that works on jobs and nothing else, and stops it with the test. */
export async function startWorker(t: Test, options: LarkwayOptions): Promise<LarkwayProcess> {
  const { started: _, ...process } = await launch(t, [CLI, 'worker'], 'working', options, makeKey())
  return process
}

/** @param ready what the line of the log says with which it is up */
async function launch(
  t: Test,
  program: readonly string[],
  ready: string,
  options: LarkwayOptions,
  demoKey: string,
): Promise<LarkwayProcess & { readonly started: Record<string, unknown> }> {
  const dataFolder = options.dataFolder ?? (await mkdtemp(join(tmpdir(), 'larkway-')))
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    HOST: '127.0.0.1',
    LARKWAY_DATA: dataFolder,
    LARKWAY_DEMO_KEY: demoKey,
    LARKWAY_DRAIN_SECONDS: '0',
    ...options.env,
  }
  if (options.config !== undefined) {
    env.LARKWAY_CONFIG = join(dataFolder, 'larkway.yaml')
    await writeFile(env.LARKWAY_CONFIG, JSON.stringify(options.config))
  }
  const child = spawn(options.node ?? process.execPath, program, {
    env,
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
    if (options.dataFolder === undefined) await rm(dataFolder, { recursive: true, force: true })
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
