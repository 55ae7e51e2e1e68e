import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { AccountTerms, AccountView } from '../../src/contracts/ledger.ts'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import { createRedisState } from '../../src/state/redis/state.ts'
import type { Larkway } from './larkway.ts'
import { type Nodes, nodesOf, type WorkspaceOptions } from './nodes.ts'
import { startRedis } from './redis-server.ts'
import { tempFolder } from './scratch.ts'
import { startUpstream, type Upstream } from './upstream/upstream.ts'

/** Gateways that share a state, and a look into it from outside. */
export interface PaidRig {
  readonly nodes: Nodes
  readonly gateways: readonly Larkway[]
  readonly upstream: Upstream
  show(workspace: string): Promise<AccountView>
}

/** What the provider tells of every call. */
export const CALL_USAGE = { prompt_tokens: 10, completion_tokens: 50, total_tokens: 60 }

/** The terms of an account that is only looked at. */
const NO_TERMS: AccountTerms = { grant: null, trial: null, budgetMicros: null }

/** The providers `platform` and `own`, which are one and the same server; `own` belongs to the workspace `mixed`. */
function paidNodes(upstream: Upstream, workspaces: Readonly<Record<string, WorkspaceOptions>>): Nodes {
  const provider = { kind: 'openai-compatible', base_url: upstream.url }
  return nodesOf({
    providers: {
      platform: { ...provider, access: 'platform' },
      own: { ...provider, access: 'byok', workspace: 'mixed' },
    },
    workspaces,
  })
}

/** Two processes and one Redis. */
export async function startPaidOnRedis(
  t: Test,
  workspaces: Readonly<Record<string, WorkspaceOptions>>,
): Promise<PaidRig> {
  const { url } = await startRedis(t)
  const upstream = await startUpstream(t, { script: { usage: CALL_USAGE } })
  const nodes = paidNodes(upstream, workspaces)
  const gateways = await Promise.all([nodes.start(t, { redisUrl: url }), nodes.start(t, { redisUrl: url })])
  const { accounts, close } = await createRedisState({ url, log: pino({ level: 'silent' }) })
  t.teardown(close)
  return { nodes, gateways, upstream, show: (workspace) => accounts.show(workspace, NO_TERMS) }
}

/** One process, and its file. */
export async function startPaidEmbedded(
  t: Test,
  workspaces: Readonly<Record<string, WorkspaceOptions>>,
): Promise<PaidRig> {
  const dataFolder = await tempFolder(t)
  const upstream = await startUpstream(t, { script: { usage: CALL_USAGE } })
  const nodes = paidNodes(upstream, workspaces)
  const gateways = [await nodes.start(t, { dataFolder })]
  const file = join(dataFolder, 'state.sqlite')
  const { accounts, close } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(close)
  return { nodes, gateways, upstream, show: (workspace) => accounts.show(workspace, NO_TERMS) }
}

/** Looks at an account until it is stopped. */
export function watch({ show }: Pick<PaidRig, 'show'>, workspace: string) {
  const views: AccountView[] = []
  let stopped = false
  const watching = (async () => {
    while (!stopped) {
      views.push(await show(workspace))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })()
  return {
    /** @returns all that was seen */
    async stop(): Promise<readonly AccountView[]> {
      stopped = true
      await watching
      return views
    },
  }
}
