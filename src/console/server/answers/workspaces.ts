import type { ManagedBy } from '../../../admin/parts.ts'
import type { AppFields, EndUserFields } from '../../../catalog/file.ts'
import type { Capability } from '../../../contracts/calls.ts'
import type { RequireFields } from '../../../contracts/requirements.ts'

// Answers about workspaces and their apps, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces → {workspaces} */
export interface WorkspaceSummary {
  readonly id: string
  readonly name: string
  readonly plan: string | null
  readonly managed_by: ManagedBy
  readonly apps: number
  readonly routes: number
}

/** GET /workspaces/:workspace, and what changes one answers. */
export interface WorkspaceAnswer {
  readonly id: string
  readonly name: string
  readonly plan: string | null
  /** Plans that there are, for the operator who may choose. */
  readonly plans: readonly string[]
  readonly managed_by: ManagedBy
  readonly budget_usd_per_month: number | null
  /** As it was set; null: there is none. */
  readonly trial?: { readonly allowance_usd: number; readonly expires_at: string } | null
  /** As in the configuration; null: nothing is said of them. */
  readonly end_users: EndUserFields | null
  /** Null: the state does not answer. */
  readonly account: {
    readonly credits_usd: number
    readonly reserved_usd: number
    readonly spent_usd: number
    readonly month: string
    readonly trial_spent_usd: number
    readonly trial_allowance_usd: number | null
  } | null
  /** The console may show audio and transcripts of the workspace; off by default. */
  readonly content_shown: boolean
  readonly purposes: readonly PurposeAnswer[]
  readonly apps: readonly AppAnswer[]
}

/** GET /workspaces/:workspace/setup: what there is on the way to the first request. */
export interface SetupAnswer {
  /** Routes that the workspace may use, its own first. */
  readonly providers: readonly string[]
  /** The published route that an app uses, else any; null: there is none. */
  readonly route: {
    readonly name: string
    /** `provider/model` of its first entry. */
    readonly entry: string | null
    readonly kind: string | null
    readonly capabilities: readonly Capability[]
  } | null
  /** An app that uses a published route. */
  readonly app: string | null
  /** Keys that are valid now, those of the file among them. */
  readonly keys: number
  /** A request was sent at least once. */
  readonly called: boolean
}

export interface PurposeAnswer {
  readonly purpose: string
  readonly description: string
  readonly enabled: boolean
  /** Conditions that its calls put on entries; absent: none. */
  readonly require?: RequireFields
  readonly managed_by: ManagedBy
}

export interface AppAnswer {
  readonly id: string
  readonly fields: AppFields
  readonly managed_by: ManagedBy
  /** Why it is not in force; absent: it is. */
  readonly issues?: readonly string[]
}

/** GET /workspaces/:workspace/apps?search=…&limit=…&offset=… */
export interface AppsAnswer {
  readonly apps: readonly AppAnswer[]
  readonly total: number
  readonly all: number
}

/** GET /workspaces/:workspace/names?of=…&search=…&limit=…: what a picker offers; of routes, those that are published */
export interface NamesAnswer {
  readonly names: readonly {
    readonly id: string
    /** Not unique. */
    readonly name: string
  }[]
  readonly total: number
}
