import type { ManagedBy } from '../../../admin/parts.ts'
import type { Scope } from '../../../contracts/catalog.ts'

// Answers about API keys, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces/:workspace/keys?search=…&app=…&state=…&limit=…&offset=… */
export interface KeysAnswer {
  readonly keys: readonly KeyAnswer[]
  /** Keys that match, on all pages. */
  readonly total: number
  /** Keys of the workspace. */
  readonly all: number
}

export interface KeyAnswer {
  readonly id: string
  readonly name: string
  /** The first characters; null: the file has only the hash. */
  readonly prefix: string | null
  readonly app: string
  readonly scopes: readonly Scope[]
  readonly rate_limit: { readonly requests_per_minute: number; readonly burst: number }
  /** The rate limit is that of the configuration. */
  readonly rate_limit_is_default: boolean
  readonly budget_usd_per_month: number | null
  /** This month; null: the state does not answer. */
  readonly spent_usd: number | null
  readonly created_at: string | null
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** The key before the rotation, while it is still accepted. */
  readonly former: { readonly prefix: string; readonly until: string } | null
  readonly managed_by: ManagedBy
}

/** POST /workspaces/:workspace/keys and …/keys/:id/rotation: the only answers that show a key. */
export interface NewKeyAnswer extends KeyAnswer {
  readonly key: string
}

/** POST /workspaces/:workspace/playground-key: a key of one hour for the page itself. */
export interface PlaygroundKeyAnswer {
  /** With it the page revokes the key when it is left. */
  readonly id: string
  readonly key: string
  readonly app: string
  readonly expires_at: string
}
