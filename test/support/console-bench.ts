import { pino } from 'pino'
import type { Test } from 'tap'
import type { State } from '../../src/contracts/state.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { openSession, type SignedIn } from './console-session.ts'
import { type Gateway, startGateway } from './gateway.ts'
import { type Larkway, startLarkway } from './larkway.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { tempFolder } from './scratch.ts'
import { withoutServers } from './servers.ts'
import { emptyStateIn } from './state-file.ts'

export interface Told {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Parsed; `{}` where there is none. */
  readonly body: Readonly<Record<string, unknown>>
}

/** A signed-in visitor. */
export interface Visitor {
  /** @param path what follows `/console/api/` */
  ask(method: string, path: string, body?: unknown): Promise<Told>
  get(path: string): Promise<Told>
  /** The same session at another node. */
  at(url: string): Visitor
}

export type Who = 'operator' | 'admin' | 'foreign'

/** A server with its console and its state; only the test takes up its jobs. */
export interface ConsoleBench {
  readonly larkway: Gateway
  readonly state: State
  /** Null: the state is embedded. */
  readonly redis: RedisServer | null
  /** `operator` is of the workspace `home`, `admin` of `acme`, `foreign` an admin of `other`, `app` of `acme`. */
  readonly keys: Readonly<Record<Who | 'app', string>>
  readonly visitors: Readonly<Record<Who, Visitor>>
  /** @param key of whoever signs in */
  signIn(key: string): Promise<Visitor>
  /** Another server with the same configuration and the same Redis. */
  startAnother(): Promise<Larkway>
}

export const STORES: readonly (readonly ['embedded' | 'redis', { readonly skip: string | false }])[] = [
  ['embedded', { skip: false }],
  ['redis', { skip: withoutServers }],
]

export interface BenchOptions {
  /** Default: the embedded one; `redis.long.test.ts` runs what leaves it open with Redis, too. */
  readonly store?: 'embedded' | 'redis'
  readonly env?: Readonly<Record<string, string>>
}

const JSON_TYPE = { 'content-type': 'application/json' }

const log = pino({ level: 'silent' })

export async function startConsoleBench(
  t: Test,
  { store = process.env.LARKWAY_TEST_STORE === 'redis' ? 'redis' : 'embedded', env = {} }: BenchOptions = {},
): Promise<ConsoleBench> {
  const keys = { operator: makeKey(), admin: makeKey(), foreign: makeKey(), app: makeKey() }
  const dataFolder = await tempFolder(t)
  const file = await emptyStateIn(dataFolder)
  const redis = store === 'redis' ? await startRedis(t) : null
  const node = {
    config: configOf(keys),
    env: { LARKWAY_JOBS: '0', ...(redis === null ? {} : { REDIS_URL: redis.url }), ...env },
  }
  const larkway = await startGateway(t, { ...node, dataFolder })
  const state =
    redis === null ? await openEmbeddedState({ file, log }) : await createRedisState({ url: redis.url, log })
  t.teardown(() => state.close())
  const signIn = (key: string) => visit(larkway.url, key)
  const [operator, admin, foreign] = [
    await signIn(keys.operator),
    await signIn(keys.admin),
    await signIn(keys.foreign),
  ]
  return {
    larkway,
    state,
    redis,
    keys,
    visitors: { operator, admin, foreign },
    signIn,
    startAnother: () => startLarkway(t, node),
  }
}

type AuditLine = Told['body'] & { readonly number: number }

/** @returns reads the lines that the audit list of a visitor has more than now, newest first */
export async function auditAfter(visitor: Visitor): Promise<() => Promise<readonly AuditLine[]>> {
  const read = async () => (await visitor.get('audit')).body.lines as readonly AuditLine[]
  const last = (await read())[0]?.number ?? 0
  return async () => (await read()).filter(({ number }) => number > last)
}

/** The text of an answer without the id of its request. */
export function sameFor({ status, text, headers }: Told): string {
  return `${status} ${text.replaceAll(headers.get('x-lk-request-id') ?? '-', 'ID')}`
}

/** Signs in at a node. */
export async function visit(url: string, key: string): Promise<Visitor> {
  return visitor(url, await openSession(url, key))
}

function visitor(url: string, signedIn: SignedIn): Visitor {
  const { cookie, csrf } = signedIn
  const ask: Visitor['ask'] = async (method, path, body) => {
    const change = method === 'GET' ? {} : { ...JSON_TYPE, 'x-lk-csrf': csrf }
    const response = await fetch(`${url}/console/api/${path}`, {
      method,
      headers: { cookie, ...change },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isFile = response.headers.get('content-type')?.startsWith('text/csv') === true
    const told = isFile ? {} : JSON.parse(text || '{}')
    return { status: response.status, headers: response.headers, text, body: told }
  }
  return { ask, get: (path) => ask('GET', path), at: (other) => visitor(other, signedIn) }
}

function configOf(keys: ConsoleBench['keys']) {
  const provider = (workspace: string) => ({
    kind: 'openai-compatible',
    access: 'byok',
    workspace,
    base_url: 'http://127.0.0.1:1/v1',
  })
  const route = (workspace: string) => ({
    workspace,
    entries: [{ provider: workspace, model: 'm', capabilities: ['text', 'audio_input'] }],
  })
  const key = (id: string, plain: string, scopes: readonly string[]) => {
    return { id, app: 'web', sha256: hashKey(plain), scopes }
  }
  const workspaces = ['home', 'acme', 'other']
  const of = (make: (workspace: string) => object) =>
    Object.fromEntries(workspaces.map((workspace) => [workspace, make(workspace)]))
  return {
    rate_limit: { requests_per_minute: 600_000, burst: 10_000 },
    audio_url_domains: ['cdn.example.com'],
    providers: of(provider),
    routes: of(route),
    workspaces: {
      home: { apps: { web: { route: 'home' } }, keys: [key('key_operator', keys.operator, ['operator'])] },
      acme: {
        apps: { web: { route: 'acme' }, back: { route: 'acme' } },
        credits_usd: 10,
        grant_id: 'first',
        keys: [
          key('key_admin', keys.admin, ['admin']),
          key('key_app', keys.app, ['inference', 'jobs', 'queue']),
        ],
      },
      other: { apps: { web: { route: 'other' } }, keys: [key('key_foreign', keys.foreign, ['admin'])] },
    },
  }
}
