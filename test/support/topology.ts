import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import { openBucket } from './bucket.ts'
import { type Larkway, startLarkway } from './larkway.ts'
import { type NginxServer, startNginx } from './nginx-server.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { startS3 } from './s3-server.ts'

type Fields = Readonly<Record<string, unknown>>

/** What `scripts/deploy/compose.yaml` runs, as plain processes. */
export interface Topology {
  readonly redis: RedisServer
  readonly nodes: readonly [Larkway, Larkway, Larkway]
  readonly nginx: NginxServer
  /** With the key of the app that has this route. */
  authorization(route: string): { readonly authorization: string }
}

export interface TopologyOptions {
  /** Base URL of the one provider. */
  readonly upstreamUrl: string
  readonly kind: string
  /**
   * By name: the entries of each route, in order, all of that provider. Each has an app and a key of its own.
   */
  readonly routes: Readonly<Record<string, readonly Fields[]>>
  /** Further members of the configuration. */
  readonly config?: Fields
  readonly env?: Readonly<Record<string, string>>
}

/** A durable Redis, an S3 server with a bucket, three nodes of one configuration, and nginx before them. */
export async function startTopology(t: Test, options: TopologyOptions): Promise<Topology> {
  const [redis, s3] = await Promise.all([startRedis(t, { durable: true }), startS3(t)])
  const bucket = await openBucket(t, s3)
  const keys = new Map(Object.keys(options.routes).map((route) => [route, makeKey()]))
  const secretKeys = Buffer.alloc(32, 'k').toString('base64')
  const env = { REDIS_URL: redis.url, LARKWAY_SECRET_KEYS: secretKeys, ...bucket.env, ...options.env }
  const config = configuration(keys, options)
  const start = () => startLarkway(t, { env, config })
  const nodes = await Promise.all([start(), start(), start()])
  const [first, second, third] = nodes
  const nginx = await startNginx(t, [first.port, second.port, third.port])
  const authorization = (route: string) => ({ authorization: `Bearer ${keys.get(route)}` })
  return { redis, nodes, nginx, authorization }
}

function configuration(
  keys: ReadonlyMap<string, string>,
  { upstreamUrl, kind, routes, config = {} }: TopologyOptions,
): Fields {
  const workspace = 'acme'
  const entriesOf = (entries: readonly Fields[]) =>
    entries.map((entry) => ({ provider: 'upstream', ...entry }))
  const named = <Value>(make: (name: string) => Value) =>
    Object.fromEntries([...keys.keys()].map((name) => [name, make(name)]))
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { upstream: { kind, access: 'byok', workspace, base_url: upstreamUrl } },
    routes: named((name) => ({ workspace, entries: entriesOf(routes[name] ?? []) })),
    workspaces: {
      [workspace]: {
        apps: named((name) => ({ route: name })),
        keys: [...keys].map(([app, key]) => ({ id: `key_${app}`, app, sha256: hashKey(key) })),
      },
    },
    ...config,
  }
}
