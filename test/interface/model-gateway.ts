import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

/** One entry of the route; the model's name says which behaviour of the upstream it meets. */
export interface ModelEntry {
  readonly model: string
  readonly capabilities: readonly string[]
  readonly [field: string]: unknown
}

export interface ModelGateway extends Gateway {
  readonly upstream: Upstream
  /** POSTs JSON, or `body` as it is when it is a string. */
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>
  /** The log line of a request, which may come out after its answer. */
  logLine(requestId: string | null): Promise<Record<string, unknown>>
}

/** A gateway process whose one route leads to models of an upstream in the test's process. */
export async function startModelGateway(
  t: Test,
  entries: readonly ModelEntry[],
  options: { readonly config?: object; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<ModelGateway> {
  const upstream = await startUpstream(t)
  const key = makeKey()
  const config = {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: {
      models: { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: upstream.url },
    },
    routes: {
      main: { workspace: 'acme', entries: entries.map((entry) => ({ provider: 'models', ...entry })) },
    },
    workspaces: {
      acme: { apps: { web: { route: 'main' } }, keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }] },
    },
    ...options.config,
  }
  const larkway = await startGateway(t, {
    key,
    config,
    ...(options.env === undefined ? {} : { env: options.env }),
  })
  return {
    ...larkway,
    upstream,
    post: (path, body, { headers, ...init } = {}) =>
      fetch(`${larkway.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
      }),
    async logLine(requestId) {
      const find = () => larkway.log.find((line) => line.request_id === requestId)
      await waitUntil(() => find() !== undefined)
      const line = find()
      if (line === undefined) throw new Error(`no log line for ${requestId}`)
      return line
    },
  }
}
