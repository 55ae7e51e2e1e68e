import { usdOf } from '../../../gateway/micros.ts'
import type { Snapshot } from '../../../schema/catalog.ts'
import type { RateLimit } from '../../../schema/state.ts'
import type { StoredKey } from '../../../schema/stored-keys.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { accountOf } from './account.ts'
import type { KeyAnswer, ManagedBy } from './answers.ts'

/** A key as it is shown, wherever it is kept. */
export type ShownKey = Omit<StoredKey, 'sha256' | 'prefix' | 'workspace' | 'rateLimit' | 'createdAtMs'> & {
  readonly prefix: string | null
  readonly rateLimit: RateLimit
  readonly createdAtMs: number | null
  readonly managedBy: ManagedBy
}

/** Those of a workspace that the configuration has. Of them only the hash is known. */
export function fileKeys({ keys }: Snapshot, workspace: string): ShownKey[] {
  const own = [...keys.values()].filter((principal) => principal.workspace.id === workspace)
  return own.map(({ app, key }) => ({
    ...key,
    app: app.id,
    prefix: null,
    createdAtMs: null,
    revokedAtMs: null,
    managedBy: 'file',
  }))
}

/** @param key of the state */
export function storedKey({ sha256: _, ...key }: StoredKey, { rateLimit: fallback }: Snapshot): ShownKey {
  return { ...key, rateLimit: key.rateLimit ?? fallback, managedBy: 'console' }
}

/** What is told of keys of one workspace: with what they have spent this month, and when they were used last. */
export async function keyAnswers(
  desk: ConsoleDesk,
  workspace: string,
  shown: readonly ShownKey[],
): Promise<KeyAnswer[]> {
  const [account, uses] = await Promise.all([
    accountOf(desk, workspace),
    desk.state.keyUses.read(shown.map(({ id }) => id)),
  ])
  return shown.map((key) => {
    const spentMicros = account && (account.spentByKey[key.id] ?? 0)
    const { id, name, prefix, app, scopes, rateLimit, budgetMicros } = key
    return {
      id,
      name,
      prefix,
      app,
      scopes,
      rate_limit: { requests_per_minute: rateLimit.requestsPerMinute, burst: rateLimit.burst },
      budget_usd_per_month: budgetMicros === null ? null : usdOf(budgetMicros),
      spent_usd: spentMicros === null ? null : usdOf(spentMicros),
      created_at: timestamp(key.createdAtMs),
      expires_at: timestamp(key.expiresAtMs),
      revoked_at: timestamp(key.revokedAtMs),
      last_used_at: timestamp(uses[id] ?? null),
      managed_by: key.managedBy,
    }
  })
}
