import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { State } from '../../src/contracts/state.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import type { Timing } from '../../src/gateway/node/timing.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { type Larkway, type LarkwayProcess, startLarkway, startWorker } from './larkway.ts'
import { type NginxServer, startNginx } from './nginx-server.ts'
import type { Program } from './program.ts'
import { type RedisOptions, type RedisServer, startRedis } from './redis-server.ts'
import { type Bucket, openBucket, type S3Server, type SharedS3 } from './s3-server.ts'
import { freePort, tempFolder } from './scratch.ts'
import { sharedS3 } from './shared-s3.ts'

type Fields = Readonly<Record<string, unknown>>
type Variables = Readonly<Record<string, string>>

/** A workspace with one app, one key and one route. */
export interface WorkspaceOptions {
  /** Of the route, in order. */
  readonly entries: readonly Fields[]
  /** Further members of the route. */
  readonly route?: Fields
  /** Further members of the key. */
  readonly key?: Fields
  /** Further members of the workspace: credits, trial, budget. */
  readonly terms?: Fields
}

export interface TenantsOptions {
  /** By name; a `byok` one names its workspace. */
  readonly providers: Readonly<Record<string, Fields>>
  readonly workspaces: Readonly<Record<string, WorkspaceOptions>>
  /** Further members of the configuration file. */
  readonly config?: Fields
}

/** Workspaces with a key each, and the configuration that serves them. */
export interface Tenants {
  readonly config: Fields
  readonly workspaces: readonly string[]
  /** The header for the key of a workspace. */
  authorizationOf(workspace: string): string
}

/** Makes keys and a configuration without a rate limit that matters. */
export function tenantsOf({ providers, workspaces, config = {} }: TenantsOptions): Tenants {
  const names = Object.keys(workspaces)
  const apiKeys = new Map(names.map((name) => [name, makeKey()]))
  const byName = (make: (name: string, options: WorkspaceOptions) => Fields) =>
    Object.fromEntries(Object.entries(workspaces).map(([name, options]) => [name, make(name, options)]))
  return {
    config: {
      rate_limit: { requests_per_minute: 100_000_000, burst: 100_000 },
      providers,
      routes: byName((workspace, { entries, route = {} }) => ({ workspace, entries, ...route })),
      workspaces: byName((name, { key = {}, terms = {} }) => {
        const keys = [{ id: keyIdOf(name), app: 'web', sha256: hashKey(apiKeys.get(name) ?? ''), ...key }]
        return { apps: { web: { route: name } }, keys, ...terms }
      }),
      ...config,
    },
    workspaces: names,
    authorizationOf: (workspace) => `Bearer ${apiKeys.get(workspace)}`,
  }
}

/** The id of a workspace's one key. */
export function keyIdOf(workspace: string): string {
  return `key_${workspace}`
}

export interface FleetOptions extends TenantsOptions {
  /** Servers; default: one. */
  readonly nodes?: number
  /** Processes that run jobs and nothing else; where this is given, be it 0, servers take jobs on and run none. */
  readonly workers?: number
  /** One to be started, or one that there is; absent: the state is embedded, in one folder. */
  readonly redis?: RedisOptions | { readonly url: string }
  /** A fresh bucket of `shared`, or of one that there is; absent: objects are in the folders of processes. */
  readonly s3?: 'shared' | S3Server
  /** Has the three nodes behind an nginx as it is deployed. */
  readonly nginx?: boolean
  /** Of every process. */
  readonly env?: Variables
  /** Of every process. */
  readonly timing?: Timing
  /** The program of the next node that starts; default: that of this tree. */
  readonly program?: () => Program | undefined
}

/** What one process has for itself. */
export interface ProcessOptions {
  readonly env?: Variables
  /** Default: of an embedded state, the fleet's; else a new one. */
  readonly dataFolder?: string
  /** Instead of those of the configuration: its own way to the same providers. */
  readonly providers?: TenantsOptions['providers']
}

/** Processes that serve the same workspaces under the same keys, and the servers that they share. */
export interface Fleet extends Tenants {
  /** By place: one that was restarted has the place of the one before. */
  readonly nodes: readonly Larkway[]
  readonly workers: readonly LarkwayProcess[]
  readonly redis: { readonly url: string } | null
  readonly s3: SharedS3 | null
  readonly bucket: Bucket | null
  readonly nginx: NginxServer | null
  /** Of an embedded state. */
  readonly folder: string
  /** @param at its place; default: the first */
  node(at?: number): Larkway
  /** Those that work on jobs: the workers, or the servers where there are none to be. */
  working(): readonly LarkwayProcess[]
  /** Starts one more, which takes the next place. */
  startNode(options?: ProcessOptions): Promise<Larkway>
  startWorker(options?: ProcessOptions): Promise<LarkwayProcess>
  /**
   * Ends a process, and starts it again on its folder and, behind nginx, its port.
   *
   * @param between awaited while it is down
   * @returns its exit code
   */
  restartNode(at: number, how?: NodeJS.Signals, between?: () => Promise<unknown>): Promise<number | null>
  restartWorker: Fleet['restartNode']
  /** Kills one of those that work on jobs, and has it started again: a server at once, a worker in the background. */
  kill(between?: () => Promise<unknown>): Promise<unknown>
  /** The state of all, looked at from outside. */
  openState(): Promise<State>
}

/** The servers that were asked for are there. */
type Asked<Options> = (Options extends { readonly redis: infer Redis }
  ? { readonly redis: Redis extends { readonly url: string } ? Redis : RedisServer }
  : unknown) &
  (Options extends { readonly s3: infer S3 }
    ? { readonly s3: S3 extends S3Server ? S3 : SharedS3; readonly bucket: Bucket }
    : unknown) &
  (Options extends { readonly nginx: true } ? { readonly nginx: NginxServer } : unknown)

/** Starts processes of one configuration with what they share, and ends all of it with the test. */
export async function startFleet<const Options extends FleetOptions>(
  t: Test,
  options: Options,
): Promise<Fleet & Asked<Options>> {
  const { nodes: nodeCount = 1, workers: workerCount = 0, timing } = options
  const tenants = tenantsOf(options)
  const { redis, s3, bucket, env } = await startShared(t, options)
  const folder = await tempFolder(t)
  const ports = await Promise.all(Array.from({ length: options.nginx ? nodeCount : 0 }, () => freePort()))
  const jobs = options.workers === undefined ? {} : { LARKWAY_JOBS: '0' }
  const launched = ({ providers, env: own = {}, dataFolder }: ProcessOptions) => ({
    config: providers === undefined ? tenants.config : { ...tenants.config, providers },
    env: { ...env, ...own },
    ...(dataFolder !== undefined ? { dataFolder } : redis === null ? { dataFolder: folder } : {}),
    ...(timing === undefined ? {} : { timing }),
  })
  const nodes = places((own, at) => {
    const port = ports[at] === undefined ? {} : { PORT: String(ports[at]) }
    const program = options.program?.()
    return startLarkway(t, { ...launched({ ...own, env: { ...jobs, ...port, ...own.env } }), program })
  })
  const workers = places((own) => startWorker(t, launched(own)))
  await Promise.all(Array.from({ length: nodeCount }, () => nodes.start()))
  await Promise.all(Array.from({ length: workerCount }, () => workers.start()))
  const fleet: Fleet = {
    ...tenants,
    ...{ nodes: nodes.processes, workers: workers.processes, redis, s3, bucket, folder },
    nginx: options.nginx ? await startNginx(t, ports as [number, number, number]) : null,
    node: (at = 0) => nodes.at(at),
    working: () => (options.workers === undefined ? nodes.processes : workers.processes),
    startNode: nodes.start,
    startWorker: workers.start,
    restartNode: nodes.restart,
    restartWorker: workers.restart,
    kill:
      options.workers === undefined ? (between) => nodes.restart(0, 'SIGKILL', between) : killerOf(workers),
    openState: () => openState(t, redis?.url ?? null, folder),
  }
  return fleet as Fleet & Asked<Options>
}

/** Processes of one kind, each of which can be had again in its place. */
interface Places<Process> {
  readonly processes: readonly Process[]
  at(at: number): Process
  start(options?: ProcessOptions): Promise<Process>
  restart: Fleet['restartNode']
}

function places<Process extends LarkwayProcess>(
  launch: (options: ProcessOptions, at: number) => Promise<Process>,
): Places<Process> {
  const processes: Process[] = []
  const options: ProcessOptions[] = []
  const at = (place: number) => {
    const process = processes[place]
    if (process === undefined) throw new Error(`no process is at place ${place}`)
    return process
  }
  return {
    processes,
    at,
    async start(own = {}) {
      const place = options.push(own) - 1
      const process = await launch(own, place)
      processes[place] = process
      return process
    },
    async restart(place, how = 'SIGKILL', between) {
      const { dataFolder, signal } = at(place)
      const code = await signal(how)
      await between?.()
      processes[place] = await launch({ ...options[place], dataFolder }, place)
      return code
    },
  }
}

/** What all processes have together, and the environment that says so. */
async function startShared(t: Test, { redis, s3, env = {} }: FleetOptions) {
  const [sharedRedis, store] = await Promise.all([
    redis === undefined || 'url' in redis ? (redis ?? null) : startRedis(t, redis),
    s3 === 'shared' ? sharedS3(t) : (s3 ?? null),
  ])
  const bucket = store === null ? null : await openBucket(t, store)
  const ofRedis = sharedRedis === null ? {} : { REDIS_URL: sharedRedis.url, LARKWAY_SECRET_KEYS: SECRET_KEYS }
  return {
    redis: sharedRedis,
    s3: store,
    bucket,
    env: { LARKWAY_INSECURE_WEBHOOKS: 'true', ...ofRedis, ...bucket?.env, ...env },
  }
}

const SECRET_KEYS = Buffer.alloc(32, 'k').toString('base64')

/** Kills workers while others start: a busy machine takes seconds for one, in which another can be killed. */
function killerOf({ processes, at, restart }: Places<LarkwayProcess>): Fleet['kill'] {
  /** Places whose worker is on its way. */
  const starting = new Map<number, Promise<unknown>>()
  return async () => {
    if (starting.size === processes.length) await Promise.race(starting.values())
    const up = [...processes.keys()].filter((place) => !starting.has(place))
    const place = up[Math.floor(Math.random() * up.length)] ?? 0
    await at(place).signal('SIGKILL')
    starting.set(
      place,
      restart(place).finally(() => starting.delete(place)),
    )
  }
}

/** A state that logs nothing, closed with the test. */
async function openState(t: Test, redisUrl: string | null, folder: string): Promise<State> {
  const log = pino({ level: 'silent' })
  const file = join(folder, 'state.sqlite')
  const state = await (redisUrl === null
    ? openEmbeddedState({ file, log })
    : createRedisState({ url: redisUrl, log }))
  t.teardown(() => state.close())
  return state
}

/**
 * Kills one after the other of those that work, with pauses of any length up to two seconds.
 *
 * @param goesOn told how many were killed
 * @returns how many
 */
export async function killNowAndThen(
  { kill }: Pick<Fleet, 'kill'>,
  goesOn: (killed: number) => boolean,
): Promise<number> {
  let killed = 0
  while (goesOn(killed)) {
    await sleep(200 + Math.random() * 1_800)
    await kill()
    killed += 1
  }
  return killed
}
