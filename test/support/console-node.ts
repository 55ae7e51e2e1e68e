import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { openSession, type SignedIn } from './console-session.ts'
import { type Gateway, startGateway } from './gateway.ts'

type Json = Readonly<Record<string, unknown>>

/** An answer of the console's API. */
export interface Told {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Parsed; `{}` where there is no JSON. */
  readonly body: Json
  /** `details.issues` of an error. */
  readonly issues: readonly string[]
}

export interface AskOptions {
  readonly method?: string
  readonly body?: unknown
  /** Instead of those that a browser sends; undefined takes one away. */
  readonly headers?: Readonly<Record<string, string | undefined>>
}

/** A signed-in visitor: cookie and CSRF token go with every request. */
export interface Visitor extends SignedIn {
  get(path: string): Promise<Told>
  put(path: string, body: unknown): Promise<Told>
  post(path: string, body?: unknown): Promise<Told>
  delete(path: string): Promise<Told>
  ask(path: string, options: AskOptions): Promise<Told>
}

/** Keys of the workspaces of the file: `ops` has the operator, `acme` and `other` an admin each. */
export interface ConsoleKeys {
  readonly operator: string
  readonly admin: string
  /** A key of `acme`, for calls only. */
  readonly app: string
  readonly foreignAdmin: string
}

export interface ConsoleNode extends Gateway {
  readonly keys: ConsoleKeys
  readonly sandboxOrigin: string
  signIn(key: string, headers?: Readonly<Record<string, string>>): Promise<Visitor>
  /** @param path below `/console/api` */
  ask(path: string, options?: AskOptions): Promise<Told>
}

export interface ConsoleNodeOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Changes the configuration file before it is written. */
  readonly config?: (config: Json) => Json
  readonly keys?: ConsoleKeys
  readonly sandboxOrigin?: string
}

export function consoleKeys(): ConsoleKeys {
  return { operator: makeKey(), admin: makeKey(), app: makeKey(), foreignAdmin: makeKey() }
}

/** A node with three workspaces in its file, a provider of the platform and one of each of two workspaces. */
export async function startConsoleNode(t: Test, options: ConsoleNodeOptions = {}): Promise<ConsoleNode> {
  const { env = {}, config = (same) => same, keys = consoleKeys() } = options
  const sandboxOrigin = options.sandboxOrigin ?? (await openSandbox(t))
  const larkway = await startGateway(t, { env, config: config(configuration(keys, sandboxOrigin)) })
  const ask = (path: string, asked: AskOptions = {}) => askAt(`${larkway.url}/console/api${path}`, asked)
  return {
    ...larkway,
    keys,
    sandboxOrigin,
    ask,
    signIn: async (key, headers) => visitor(larkway.url, await openSession(larkway.url, key, headers)),
  }
}

export async function openSandbox(t: Test): Promise<string> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  return new URL(sandbox.url).origin
}

function visitor(url: string, { cookie, csrf }: SignedIn): Visitor {
  const ask: Visitor['ask'] = (path, { method = 'GET', body, headers = {} }) => {
    const change = method === 'GET' ? {} : { 'x-lk-csrf': csrf, 'content-type': 'application/json' }
    return askAt(`${url}/console/api${path}`, { method, body, headers: { cookie, ...change, ...headers } })
  }
  return {
    cookie,
    csrf,
    ask,
    get: (path) => ask(path, {}),
    put: (path, body) => ask(path, { method: 'PUT', body }),
    post: (path, body = {}) => ask(path, { method: 'POST', body }),
    delete: (path) => ask(path, { method: 'DELETE' }),
  }
}

async function askAt(url: string, { method = 'GET', body, headers = {} }: AskOptions): Promise<Told> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const typed = body === undefined ? {} : { 'content-type': 'application/json' }
  const set = Object.entries({ ...typed, ...headers }).filter(
    (pair): pair is [string, string] => pair[1] !== undefined,
  )
  const response = await fetch(url, {
    method,
    headers: Object.fromEntries(set),
    // For bytes fetch adds no type of its own.
    ...(text === undefined ? {} : { body: Buffer.from(text) }),
  })
  const answer = await response.text()
  const isJson = (response.headers.get('content-type') ?? '').startsWith('application/json')
  const parsed = isJson ? (JSON.parse(answer) as Json) : {}
  const { details } = (parsed.error ?? {}) as { details?: { issues?: readonly string[] } }
  const { status, headers: got } = response
  return { status, headers: got, text: answer, body: parsed, issues: details?.issues ?? [] }
}

function configuration(keys: ConsoleKeys, sandboxOrigin: string): Json {
  const sandbox = { kind: 'sandbox', base_url: `${sandboxOrigin}/v1` }
  const key = (name: keyof ConsoleKeys, scopes?: readonly string[]) => ({
    id: `key_${name}`,
    name,
    app: 'web',
    sha256: hashKey(keys[name]),
    ...(scopes === undefined ? {} : { scopes }),
  })
  const workspace = (route: string, more: Json) => ({ apps: { web: { route } }, ...more })
  return {
    rate_limit: { requests_per_minute: 100_000, burst: 10_000 },
    plans: { small: { includes: ['audio_input'] } },
    providers: {
      house: {
        ...sandbox,
        access: 'platform',
        capabilities: ['audio_input', 'audio_output'],
        price: { per_hour_usd: 1, per_1k_characters_usd: 1 },
      },
      'acme-own': { ...sandbox, access: 'byok', workspace: 'acme' },
      'other-own': { ...sandbox, access: 'byok', workspace: 'other' },
    },
    routes: {
      voice: { workspace: 'acme', entries: [{ provider: 'acme-own', model: 'morse-1' }] },
      'other-voice': { workspace: 'other', entries: [{ provider: 'other-own', model: 'morse-1' }] },
      'ops-voice': { workspace: 'ops', entries: [{ provider: 'house', model: 'morse-1' }] },
    },
    workspaces: {
      ops: workspace('ops-voice', { keys: [key('operator', ['operator'])] }),
      acme: workspace('voice', {
        name: 'Acme',
        credits_usd: 5,
        grant_id: 'first',
        purposes: { notes: { description: 'taking notes' } },
        keys: [key('admin', ['admin']), key('app')],
      }),
      other: workspace('other-voice', { keys: [key('foreignAdmin', ['admin'])] }),
    },
  }
}
