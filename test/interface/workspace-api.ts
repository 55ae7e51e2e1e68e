import { pino } from 'pino'
import type { Test } from 'tap'
import type { Logger } from '../../src/contracts/log.ts'
import type { State } from '../../src/contracts/state.ts'
import { systemClock } from '../../src/contracts/time.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { createRoutes } from '../../src/gateway/api/table.ts'
import type { Services } from '../../src/gateway/call/context/services.ts'
import { createApiKeys } from '../../src/gateway/catalog/api-keys.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { createJobSignals } from '../../src/gateway/jobs/watch.ts'
import { SHIPPED } from '../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../src/gateway/providers/index.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { startEdge } from '../support/edge.ts'
import { readCatalog } from '../support/read-catalog.ts'
import { tempFolder } from '../support/scratch.ts'
import { emptyStateIn } from '../support/state-file.ts'

/** Keys of the two workspaces that there are, `acme` and `other`. */
export interface WorkspaceKeys {
  /** Of `acme`, with the scope `admin` and no other. */
  readonly admin: string
  /** Of `acme`, with every scope but `admin`. */
  readonly app: string
  /** Of `other`, with the scope `admin`. */
  readonly foreignAdmin: string
  /** Of `other`, without it. */
  readonly foreignApp: string
  /** Of `acme`, with the scope `admin`, and no longer valid. */
  readonly expired: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Parsed; `{}` where there is none. */
  readonly body: Readonly<Record<string, unknown>>
}

export interface AskOptions {
  /** Null: no key at all. Default: the admin's. */
  readonly key?: string | null
  /** Default: `acme`. */
  readonly workspace?: string
  /** Sent as JSON; text and bytes as they are. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface WorkspaceApi {
  readonly port: number
  readonly keys: WorkspaceKeys
  readonly state: State
  /** Every line of the log, as it was written. */
  readonly log: readonly string[]
  /** @param path what follows the workspace's id */
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>
}

export interface WorkspaceApiOptions {
  /** Default: a new one in a file of its own. */
  readonly state?: (log: Logger) => Promise<State>
  readonly secretKeys?: readonly Buffer[]
  readonly insecure?: boolean
  /** Of every key. */
  readonly burst?: number
  readonly keys?: WorkspaceKeys
}

export function workspaceKeys(): WorkspaceKeys {
  return {
    admin: makeKey(),
    app: makeKey(),
    foreignAdmin: makeKey(),
    foreignApp: makeKey(),
    expired: makeKey(),
  }
}

/** The workspace API on the real edge, with real state. Two may share one state. */
export async function startWorkspaceApi(
  t: Pick<Test, 'teardown'>,
  options: WorkspaceApiOptions = {},
): Promise<WorkspaceApi> {
  const {
    secretKeys = [Buffer.alloc(32, 7)],
    insecure = false,
    burst = 10_000,
    keys = workspaceKeys(),
  } = options
  const lines: string[] = []
  const log: Logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const openState =
    options.state ?? (async () => openEmbeddedState({ file: await emptyStateIn(await tempFolder(t)), log }))
  const state = await openState(log)
  t.teardown(() => state.close())
  const snapshot = snapshotOf(keys, burst)
  const book = createApiKeys({ snapshot: () => snapshot, isWhole: () => true, keys: state.keys, log })
  t.teardown(() => book.close())
  await book.ready()

  const never = () => {
    throw new Error('the workspace API needs nothing of that')
  }
  // The budget is the edge's own, known once it listens.
  let budget: Services['budget'] | undefined
  const services = {
    clock: systemClock,
    snapshot: () => snapshot,
    keys: book,
    state,
    get budget() {
      return budget ?? never()
    },
  } as unknown as Services
  const routes = createRoutes({
    ...({ services, log, jobs: { signals: createJobSignals() } } as Dependencies),
    readiness: { accepting: () => true, stateHealthy: never, stateBlocked: () => null },
    links: null,
    webhooks: { secretKeys, insecure },
  })
  const edge = await startEdge(t, routes)
  budget = edge.budget
  return {
    port: edge.port,
    keys,
    state,
    log: lines,
    async ask(method, path, { key = keys.admin, workspace = 'acme', body, headers = {} } = {}) {
      const asItIs = body === undefined || typeof body === 'string' || body instanceof Uint8Array
      const response = await fetch(`${edge.origin}/workspace/${workspace}${path}`, {
        method,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: asItIs ? (body as string) : JSON.stringify(body) }),
      })
      const text = await response.text()
      return {
        status: response.status,
        headers: response.headers,
        text,
        body: text === '' ? {} : JSON.parse(text),
      }
    },
  }
}

function snapshotOf(keys: WorkspaceKeys, burst: number) {
  const provider = (workspace: string) => ({
    kind: 'openai-compatible',
    access: 'byok',
    workspace,
    base_url: 'http://127.0.0.1:1/v1',
  })
  const entries = (name: string) => [{ provider: name, model: 'm', capabilities: ['text'] }]
  const key = (id: string, text: string, scopes: readonly string[], more: object = {}) => {
    return { id, app: 'web', sha256: hashKey(text), scopes, ...more }
  }
  const most = ['inference', 'jobs', 'queue']
  const file = {
    rate_limit: { requests_per_minute: 60, burst },
    providers: { one: provider('acme'), two: provider('other') },
    routes: {
      main: { workspace: 'acme', entries: entries('one') },
      theirs: { workspace: 'other', entries: entries('two') },
    },
    workspaces: {
      acme: {
        apps: { web: { route: 'main' } },
        keys: [
          key('key_admin', keys.admin, ['admin']),
          key('key_app', keys.app, most),
          key('key_expired', keys.expired, ['admin'], { expires_at: '2020-01-01T00:00:00Z' }),
        ],
      },
      other: {
        apps: { web: { route: 'theirs' } },
        keys: [
          key('key_their_admin', keys.foreignAdmin, ['admin']),
          key('key_theirs', keys.foreignApp, most),
        ],
      },
    },
  }
  const reading = readCatalog(JSON.stringify(file), {
    kinds: PROVIDERS,
    models: SHIPPED,
    env: {},
    readSecret: () => {
      throw new Error('there are no secrets')
    },
    open: () => null,
  })
  if ('issues' in reading) throw new Error(reading.issues.join('; '))
  return reading.snapshot
}
