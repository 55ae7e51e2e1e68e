import { DEFAULT_SCOPES } from '../schema/catalog.ts'
import type { RateLimit } from '../schema/state.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import type { KeyFields } from './file.ts'
import { instantMs } from './instant.ts'
import { parseUsd } from './money.ts'
import type { WorkspaceKey } from './split.ts'
import { rateLimitOf } from './workspace.ts'

/** What all keys begin with: of a key of a file no more than its hash is known. */
const PREFIX = 'lk_live_'

/** A key of the state as the file has it. */
export function fieldsOfKey(key: StoredKey): WorkspaceKey {
  const { id, name, app, sha256, scopes, rateLimit, budgetMicros, expiresAtMs } = key
  const fields: KeyFields = {
    id,
    ...(name === id ? {} : { name }),
    app,
    sha256,
    scopes: [...scopes],
    ...(expiresAtMs === null ? {} : { expires_at: new Date(expiresAtMs).toISOString() }),
    ...(rateLimit === null
      ? {}
      : { rate_limit: { requests_per_minute: rateLimit.requestsPerMinute, burst: rateLimit.burst } }),
    ...(budgetMicros === null ? {} : { budget_usd: { per_month: budgetMicros / 1_000_000 } }),
  }
  return { workspace: key.workspace, fields }
}

/**
 * A key of a valid file as the state has it.
 *
 * @param fallback what a rate limit does not say
 */
export function keyOfFields(
  { workspace, fields }: WorkspaceKey,
  fallback: RateLimit,
  nowMs: number,
): StoredKey {
  const { id, name = id, app, sha256, scopes = DEFAULT_SCOPES, expires_at, rate_limit, budget_usd } = fields
  return {
    id,
    sha256: sha256.toLowerCase(),
    prefix: PREFIX,
    workspace,
    app,
    name,
    scopes,
    rateLimit: rate_limit === undefined ? null : rateLimitOf(rate_limit, fallback),
    budgetMicros: budget_usd === undefined ? null : parseUsd(String(budget_usd.per_month)),
    expiresAtMs: expires_at === undefined ? null : instantMs(expires_at),
    createdAtMs: nowMs,
    revokedAtMs: null,
  }
}
