import type { Test } from 'tap'
import { startSandboxThread } from '../../src/sandbox/thread.ts'
import { startFleet } from '../support/fleet.ts'
import type { Larkway } from '../support/larkway.ts'

export const EDGE_WORKSPACE = 'acme'

export interface EdgeProduct extends Larkway {
  /** What the header Authorization says. */
  readonly authorization: string
}

export interface EdgeProductOptions {
  readonly env?: Readonly<Record<string, string>>
  /** `limits` of the configuration. */
  readonly limits?: Readonly<Record<string, number>>
  /** Options of the route's one entry: faults of the sandbox. */
  readonly entry?: Readonly<Record<string, unknown>>
}

/** The product as its own process, one key with every scope, and a sandbox in a thread of its own behind its route. */
export async function startEdgeProduct(t: Test, options: EdgeProductOptions = {}): Promise<EdgeProduct> {
  const { env = {}, limits = {}, entry = {} } = options
  const sandbox = await startSandboxThread({}, (error) => t.fail(error.message))
  t.teardown(() => sandbox.close())
  const fleet = await startFleet(t, {
    env,
    providers: {
      sandbox: { kind: 'sandbox', access: 'byok', workspace: EDGE_WORKSPACE, base_url: sandbox.url },
    },
    workspaces: {
      [EDGE_WORKSPACE]: {
        entries: [{ provider: 'sandbox', model: 'morse-1', options: entry }],
        key: { scopes: ['inference', 'jobs', 'queue', 'admin'] },
      },
    },
    config: { limits },
  })
  return { ...fleet.node(), authorization: fleet.authorizationOf(EDGE_WORKSPACE) }
}
