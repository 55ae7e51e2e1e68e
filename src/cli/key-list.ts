import { formatUsd } from '../catalog/money.ts'
import type { Snapshot } from '../schema/catalog.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import { CommandFailure, parse } from './arguments.ts'
import { type Desk, environmentOf, listed, servedAt } from './desk.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

const FLAGS = {
  workspace: { type: 'string' },
  config: { type: 'string' },
  json: { type: 'boolean' },
} as const

/** A key as it is listed; of the key itself only the prefix, and that only where it is known. */
type Row = Omit<StoredKey, 'sha256' | 'prefix' | 'createdAtMs'> & {
  readonly source: 'file' | 'state'
  readonly prefix: string | null
  readonly createdAtMs: number | null
  /** `unserved`: the configuration has its workspace or app no more. */
  readonly state: 'active' | 'revoked' | 'expired' | 'unserved'
}

/**
 * `larkway key list`: the keys of the configuration, then those of the state, the revoked ones too.
 *
 * @throws UsageError, CatalogError, CommandFailure for a workspace of which nobody has heard
 */
export async function listKeys(args: readonly string[], desk: Desk): Promise<void> {
  const { workspace, config, json } = parse(args, FLAGS, 0).values
  const environment = environmentOf(desk)
  const { snapshot, stored } = await withState(environment, async (state) => ({
    snapshot: await servedAt(desk, config, state),
    stored: await state.keys.list(),
  }))
  const all = [...fileRows(snapshot), ...stored.map((key) => storedRow(key, snapshot))]
  const rows = all.filter((row) => workspace === undefined || row.workspace === workspace)
  if (workspace !== undefined && rows.length === 0 && !snapshot.apps.has(workspace))
    throw new CommandFailure(`there is no workspace "${workspace}"; there ${listed(snapshot.apps)}`)
  desk.print(json === true ? `${JSON.stringify(rows.map(inJson), null, 2)}\n` : rendered(rows, snapshot))
}

function fileRows({ keys }: Snapshot): Row[] {
  return [...keys.values()].map(({ workspace, app, key }) => ({
    ...key,
    workspace: workspace.id,
    app: app.id,
    source: 'file',
    prefix: null,
    createdAtMs: null,
    revokedAtMs: null,
    state: isExpired(key.expiresAtMs) ? 'expired' : 'active',
  }))
}

function storedRow({ sha256: _, ...key }: StoredKey, { apps }: Snapshot): Row {
  const served = apps.get(key.workspace)?.has(key.app) === true
  const ended = key.revokedAtMs !== null ? 'revoked' : isExpired(key.expiresAtMs) ? 'expired' : null
  return { ...key, source: 'state', state: ended ?? (served ? 'active' : 'unserved') }
}

function isExpired(expiresAtMs: number | null): boolean {
  return expiresAtMs !== null && expiresAtMs <= Date.now()
}

function rendered(rows: readonly Row[], { rateLimit: fallback }: Snapshot): string {
  const cells = rows.map((row) => {
    const { requestsPerMinute, burst } = row.rateLimit ?? fallback
    return [
      row.id,
      row.workspace,
      row.app,
      row.source,
      row.state,
      row.prefix ?? '-',
      row.name,
      row.scopes.join(','),
      timeOf(row.expiresAtMs) ?? 'never',
      `${requestsPerMinute}/min, burst ${burst}`,
      row.budgetMicros === null ? '-' : `${formatUsd(row.budgetMicros)}/month`,
    ]
  })
  const head = ['KEY', 'WORKSPACE', 'APP', 'SOURCE', 'STATE', 'PREFIX', 'NAME', 'SCOPES', 'EXPIRES']
  return table([[...head, 'RATE LIMIT', 'BUDGET USD'], ...cells])
}

function inJson({ rateLimit, budgetMicros, createdAtMs, expiresAtMs, revokedAtMs, ...row }: Row) {
  return {
    ...row,
    rate_limit: rateLimit && {
      requests_per_minute: rateLimit.requestsPerMinute,
      burst: rateLimit.burst,
    },
    budget_usd: budgetMicros === null ? null : budgetMicros / 1_000_000,
    created_at: timeOf(createdAtMs),
    expires_at: timeOf(expiresAtMs),
    revoked_at: timeOf(revokedAtMs),
  }
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
