import type { Test } from 'tap'
import type { Clock } from '../../src/contracts/time.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import type { Timing } from '../../src/gateway/node/timing.ts'
import { type Gateway, type GatewayOptions, startGateway } from './gateway.ts'
import { type Larkway, startLarkway } from './larkway.ts'
import { RawClient } from './raw-client.ts'
import { waitUntil } from './wait-until.ts'

type Fields = Readonly<Record<string, unknown>>

export interface RouteGatewayOptions {
  /** By name; `kind` and where it is. A key is given as `api_key: secret('NAME')`, and its value in `env`. */
  readonly providers: Readonly<Record<string, Fields>>
  /** Entries of the one route, in order. */
  readonly entries: readonly Fields[]
  /** Further members of the route. */
  readonly route?: Fields
  /** The providers are the platform's, and the workspace has so many credits, USD; absent: they are its own. */
  readonly credits?: number
  /** Further members of the configuration file. */
  readonly config?: Fields
  readonly env?: Readonly<Record<string, string>>
  readonly timing?: Timing
  readonly clock?: Clock
}

/** An answer whose body is taken at the test's own pace; see `RawClient` for what follows. */
export interface RawRequest {
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

export type RouteGateway = Gateway & RouteCalls

interface RouteCalls {
  readonly authorization: { readonly authorization: string }
  /** POSTs JSON, or `body` as it is when it is text, bytes or a form. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
  /** Sends a POST over a connection of its own and reads nothing. */
  send(path: string, request: RawRequest): Promise<RawClient>
  /** The log line of a request, which may come out after its answer. */
  logLine(requestId: string | null | undefined): Promise<Readonly<Record<string, unknown>>>
}

/** How a configuration names a secret of the environment. */
export function secret(name: string): string {
  return `\${${name}}`
}

/** Starts a gateway with one route, to providers of the workspace's own. */
export function startRouteGateway(t: Test, options: RouteGatewayOptions): Promise<RouteGateway> {
  return routeGateway(t, options, startGateway)
}

/** The same as a process of its own, where its memory is measured or it is killed. */
export function startRouteProcess(t: Test, options: RouteGatewayOptions): Promise<Larkway & RouteCalls> {
  return routeGateway(t, options, startLarkway)
}

async function routeGateway<Started extends Gateway>(
  t: Test,
  options: RouteGatewayOptions,
  start: (t: Test, options: GatewayOptions) => Promise<Started>,
): Promise<Started & RouteCalls> {
  const key = makeKey()
  const workspace = 'acme'
  const owned = Object.entries(options.providers).map(([name, fields]) => {
    const access = options.credits === undefined ? { access: 'byok', workspace } : { access: 'platform' }
    return [name, { ...access, ...fields }] as const
  })
  const config = {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: Object.fromEntries(owned),
    routes: { main: { workspace, entries: options.entries, ...options.route } },
    workspaces: {
      acme: {
        ...(options.credits === undefined ? {} : { credits_usd: options.credits, grant_id: 'first' }),
        apps: { web: { route: 'main' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
    },
    ...options.config,
  }
  const { env, timing, clock } = options
  const larkway = await start(t, {
    key,
    config,
    ...(env && { env }),
    ...(timing && { timing }),
    ...(clock && { clock }),
  })
  const authorization = `Bearer ${key}`
  return {
    ...larkway,
    authorization: { authorization },
    post(path, body, headers = {}) {
      const asItIs = typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData
      const type: Record<string, string> =
        body instanceof FormData ? {} : { 'content-type': 'application/json' }
      return fetch(larkway.url + path, {
        method: 'POST',
        headers: { authorization, ...type, ...headers },
        body: asItIs ? (body as NonNullable<RequestInit['body']>) : JSON.stringify(body),
      })
    },
    async send(path, { headers = {}, body }) {
      const client = await RawClient.connect(larkway.port)
      t.teardown(() => client.destroy())
      const length = Buffer.byteLength(body)
      const fields = { host: 'a', authorization, 'content-length': String(length), ...headers }
      const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
      await client.send(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, body)
      return client
    },
    async logLine(requestId) {
      const find = () => larkway.log.find((line) => line.request_id === requestId && line.msg === 'request')
      await waitUntil(() => find() !== undefined)
      const line = find()
      if (line === undefined) throw new Error(`no log line for ${requestId}`)
      return line
    },
  }
}
