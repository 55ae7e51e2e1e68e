import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import { type Larkway, startLarkway } from './larkway.ts'

type Fields = Readonly<Record<string, unknown>>

/** A workspace with one app, one key and one route. */
export interface WorkspaceOptions {
  /** Of the route, in order. */
  readonly entries: readonly Fields[]
  /** Further members of the key. */
  readonly key?: Fields
  /** Further members of the workspace: credits, trial, budget. */
  readonly terms?: Fields
}

export interface NodesOptions {
  /** By name; a `byok` one names its workspace. */
  readonly providers: Readonly<Record<string, Fields>>
  readonly workspaces: Readonly<Record<string, WorkspaceOptions>>
  /** Further members of the configuration file. */
  readonly config?: Fields
}

export interface NodeOptions {
  /** Default: the embedded state. */
  readonly redisUrl?: string
  readonly dataFolder?: string
  /** Instead of those of the configuration: a node's own way to the same providers. */
  readonly providers?: NodesOptions['providers']
  readonly env?: Readonly<Record<string, string>>
}

/** Gateway processes that serve the same workspaces under the same keys. */
export interface Nodes {
  /** What the header says for the key of a workspace. */
  authorizationOf(workspace: string): string
  start(t: Test, options?: NodeOptions): Promise<Larkway>
}

/** A configuration without a rate limit that matters, for as many processes as are started. */
export function nodesOf({ providers, workspaces, config = {} }: NodesOptions): Nodes {
  const names = Object.keys(workspaces)
  const apiKeys = new Map(names.map((name) => [name, makeKey()]))
  const shared = {
    rate_limit: { requests_per_minute: 100_000_000, burst: 100_000 },
    routes: Object.fromEntries(names.map((name) => [name, routeOf(name, workspaces)])),
    workspaces: Object.fromEntries(
      names.map((name) => {
        const { key = {}, terms = {} } = workspaces[name] ?? {}
        const keys = [{ id: keyIdOf(name), app: 'web', sha256: hashKey(apiKeys.get(name) ?? ''), ...key }]
        return [name, { apps: { web: { route: name } }, keys, ...terms }]
      }),
    ),
    ...config,
  }
  return {
    authorizationOf: (workspace) => `Bearer ${apiKeys.get(workspace)}`,
    start: (t, { redisUrl, dataFolder, providers: own = providers, env = {} } = {}) =>
      startLarkway(t, {
        config: { ...shared, providers: own },
        env: { ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }), ...env },
        ...(dataFolder === undefined ? {} : { dataFolder }),
      }),
  }
}

/** The id of a workspace's one key. */
export function keyIdOf(workspace: string): string {
  return `key_${workspace}`
}

function routeOf(workspace: string, workspaces: NodesOptions['workspaces']): object {
  return { workspace, entries: workspaces[workspace]?.entries ?? [] }
}
