import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createLogger, type LogOutput } from '../../src/contracts/log.ts'
import type { Clock } from '../../src/contracts/time.ts'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { UWS_ENVIRONMENT } from '../../src/gateway/edge/uws.ts'
import { openServer, type RunningNode } from '../../src/gateway/node/serve.ts'
import { openState, STATE_FILE } from '../../src/gateway/node/stores.ts'
import type { Timing } from '../../src/gateway/node/timing.ts'
import { fileState } from './own-state.ts'
import type { Teardown } from './scratch.ts'
import { emptyStateIn } from './state-file.ts'
import { waitUntil } from './wait-until.ts'

/** Ends a gateway by SIGTERM and asserts that it leaves in order: nothing held or under way, nothing broke. */
export async function assertStopsClean(t: Test, gateway: Gateway): Promise<void> {
  t.equal(await gateway.signal('SIGTERM'), 0, 'ends with status 0')
  // The last lines of the pipe may be read after the process has ended.
  await waitUntil(() => gateway.log.at(-1)?.msg === 'stopped')
  const nothing = { held_bytes: 0, bodies: { arriving: 0, uploading: 0 } }
  t.match(gateway.log.at(-1), { msg: 'stopped', ...nothing }, 'nothing is held')
  const broken = gateway.log.filter(
    ({ level, error }) => level === 'error' || level === 'fatal' || error === 'INTERNAL',
  )
  t.same(broken.slice(0, 3), [], 'nothing broke')
}

/** How long idle connections of the test are waited for when its gateway stops: they are kept alive and never close. */
const IDLE_MS = 50

/** A gateway that a test has started, in its own process or in another. */
export interface Gateway {
  readonly url: string
  readonly port: number
  /** The demo's key, or the one that `config` was asked to name. */
  readonly key: string
  /** Where the demo's sandbox listens; undefined when a configuration is given. */
  readonly sandboxUrl: string | undefined
  readonly dataFolder: string
  /** Every line of the log, parsed. */
  readonly log: readonly Record<string, unknown>[]
  /** Every line that it wrote, to standard output or to standard error. */
  readonly output: readonly string[]
  /** Tells it to stop, and resolves with the exit code once it has ended. */
  signal(name: NodeJS.Signals): Promise<number | null>
}

export interface GatewayOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Content of larkway.yaml as JSON; absent: the demo. */
  readonly config?: unknown
  readonly key?: string
  readonly dataFolder?: string
  readonly timing?: Timing
  /** Moved by the test; absent: the machine's. */
  readonly clock?: Clock
}

/** Prepares the data folder and the environment of a gateway; the folder goes with the test unless it was given. */
export async function gatewayEnvironment(t: Teardown, options: GatewayOptions, key: string) {
  const dataFolder = options.dataFolder ?? (await newDataFolder())
  const env: Record<string, string> = {
    PORT: '0',
    HOST: '127.0.0.1',
    LARKWAY_DATA: dataFolder,
    LARKWAY_DEMO_KEY: key,
    LARKWAY_DRAIN_SECONDS: '0',
    // A node that closes makes files of its records, in a process of their own: what tests them switches them on.
    LARKWAY_USAGE: 'false',
    ...options.env,
  }
  if (options.config !== undefined) {
    env.LARKWAY_CONFIG = join(dataFolder, 'larkway.yaml')
    await writeFile(env.LARKWAY_CONFIG, JSON.stringify(options.config))
  }
  if (options.dataFolder === undefined) t.teardown(() => rm(dataFolder, { recursive: true, force: true }))
  return { dataFolder, env }
}

async function newDataFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'larkway-'))
  await emptyStateIn(folder)
  return folder
}

/**
 * Starts the product on a free port in the process of the test, which is much cheaper than one of its own, and closes
 * it with the test. It can be told to stop as by SIGTERM and SIGINT; what is to be killed needs `startLarkway`, and so
 * does what Node or a native library reads from the environment.
 */
export async function startGateway(t: Test, options: GatewayOptions = {}): Promise<Gateway> {
  const key = options.key ?? makeKey()
  const { dataFolder, env } = await gatewayEnvironment(t, options, key)
  const lines = { log: [] as Record<string, unknown>[], output: [] as string[] }
  Object.assign(process.env, UWS_ENVIRONMENT)
  const node = await openServer(env, ({ LOG_LEVEL }) => createLogger(LOG_LEVEL, collect(lines)), {
    timing: { drain: { idleMs: IDLE_MS }, ...options.timing },
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    state: async (environment, log, own) =>
      environment.REDIS_URL !== undefined
        ? openState(environment, log, own)
        : fileState(join(environment.LARKWAY_DATA, STATE_FILE), options.clock),
  })
  lines.output.push(...node.greeting.split('\n'))
  const stop = once(node)
  t.teardown(() => stop('SIGKILL'))
  const port = node.port ?? 0
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    key,
    sandboxUrl: node.sandboxUrl,
    dataFolder,
    ...lines,
    async signal(name) {
      if (name !== 'SIGTERM' && name !== 'SIGINT') throw new Error(`${name} needs a process of its own`)
      await stop(name)
      return 0
    },
  }
}

/** Stops the node by the first signal; every later one waits for the same end. */
function once(node: RunningNode): (signal: NodeJS.Signals) => Promise<void> {
  let ended: Promise<void> | undefined
  return (signal) => {
    ended ??= signal === 'SIGKILL' ? node.close() : node.stop(signal)
    return ended
  }
}

function collect({ log, output }: { log: Record<string, unknown>[]; output: string[] }): LogOutput {
  return {
    write(line) {
      output.push(line.trimEnd())
      log.push(JSON.parse(line) as Record<string, unknown>)
    },
  }
}
