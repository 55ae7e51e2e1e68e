import type { ManagedBy } from '../../../admin/parts.ts'
import type { RouteFields } from '../../../catalog/file.ts'
import type { BreakerView } from '../../../contracts/console.ts'
import type { ExplainRow } from '../../../gateway/verdict.ts'
import type { Coverage } from './requests.ts'

// Answers about routes, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces/:workspace/routes?search=…&limit=…&offset=… */
export interface RoutesAnswer {
  readonly routes: readonly RouteSummary[]
  readonly total: number
  readonly all: number
}

export interface RouteSummary {
  readonly name: string
  readonly managed_by: ManagedBy
  /** `pv_…` that serves; null: never published. */
  readonly version: string | null
  /** Number of the published version; null: never published, or managed by file. */
  readonly number: number | null
  /** False: its `published` is false, or it was never published. */
  readonly in_service: boolean
  readonly strategy: string
  /** `provider/model` of what serves, else of the draft. */
  readonly entries: readonly string[]
  readonly has_draft: boolean
  /** Apps that lead to it. */
  readonly apps: readonly string[]
  readonly published_at: string | null
  readonly published_by: string | null
  /** Why what was published is not in force; absent: it is. */
  readonly issues?: readonly string[]
}

/** GET /workspaces/:workspace/routes/:route/shadow: the pairs of the last hour, those with most calls first. */
export interface ShadowAnswer {
  readonly window_ms: number
  readonly pairs: readonly ShadowPairAnswer[]
}

/** An entry that answered, and the shadow that was asked beside it. */
export interface ShadowPairAnswer {
  readonly operation: string
  readonly entry: ShadowSideAnswer
  readonly shadow: ShadowSideAnswer
  readonly calls: number
  readonly failed: number
  readonly compared: number
  /** Words of the answers that were compared, and those in which the shadow differs. */
  readonly words: number
  readonly word_errors: number
  /** References that callers brought, their words, and those in which each side differs. */
  readonly references: Readonly<Record<'count' | 'words' | 'entry_errors' | 'shadow_errors', number>>
}

interface ShadowSideAnswer {
  readonly provider: string
  readonly model: string
  /** Null: it was not measured on both sides. */
  readonly p50_ms: number | null
  /** By price; null: one of the prices is not known. */
  readonly cost_usd: number | null
}

/** GET /workspaces/:workspace/routes/:route, and what changes one answers. */
export interface RouteAnswer {
  readonly name: string
  readonly workspace: string
  readonly managed_by: ManagedBy
  readonly apps: readonly string[]
  /** Null: never published, or removed from the file. */
  readonly published: {
    /** Null: managed by file. */
    readonly number: number | null
    readonly version: string
    readonly fields: RouteFields
    readonly published_at: string | null
    readonly published_by: string | null
    /** Why; null: no reason was given. */
    readonly note: string | null
  } | null
  readonly draft: {
    readonly revision: number
    readonly fields: RouteFields
    /** `pv_…` that it would have; null: it has issues. */
    readonly version: string | null
    readonly saved_at: string
    readonly saved_by: string
    /** Why it cannot be published, e.g. `/entries/0/model: …`. */
    readonly issues: readonly string[]
    /** Against what is published, e.g. `entry 2 removed: openai/whisper-1`. */
    readonly changes: readonly string[]
  } | null
  /** Why what was published is not in force; absent: it is. */
  readonly issues?: readonly string[]
}

/** GET /workspaces/:workspace/routes/:route/versions → {versions}, newest first */
export interface VersionAnswer {
  readonly number: number
  readonly version: string | null
  readonly hash: string
  readonly published_at: string
  readonly published_by: string
  readonly note: string | null
  readonly fields: RouteFields
  /** It is the one in force. */
  readonly current: boolean
}

/** POST /workspaces/:workspace/explain */
export interface ExplainAnswer {
  /** Why nothing would serve; null: the entry of rank 1 would. */
  readonly refusal: { readonly code: string; readonly message: string } | null
  readonly entries: readonly ExplainedEntry[]
  /** Why the fields that were sent are no route; then there are no entries. */
  readonly issues: readonly string[]
}

export interface ExplainedEntry extends ExplainRow {
  /** How it fares on the node that answers; absent: as usual. */
  readonly breaker?: BreakerView['state']
}

/** POST /workspaces/:workspace/routes/:route/impact: the newest recorded requests, judged by both versions */
export interface ImpactAnswer {
  /** Why the draft is no route; then nothing is judged. */
  readonly issues: readonly string[]
  /** Requests that were judged, and when the oldest and the newest of them ended. */
  readonly requests: number
  readonly from: string | null
  readonly to: string | null
  /** How much of the last hour of the workspace is recorded; null: nothing was counted. */
  readonly coverage: Coverage | null
  /** Recorded requests of the route that are not judged. */
  readonly left_out: {
    /** They failed before entries were selected, or an earlier version recorded them. */
    readonly not_recorded: number
    readonly app_gone: number
    /** From the cache, or under an idempotency key. */
    readonly answered_without_provider: number
  }
  /** How often each entry is selected first. */
  readonly entries: readonly (EntryName & { readonly published: number; readonly draft: number })[]
  readonly moves: readonly { readonly from: EntryName; readonly to: EntryName; readonly requests: number }[]
  readonly refused: {
    readonly published: number
    readonly draft: number
    /** By the draft alone, with the reasons. */
    readonly newly: number
    readonly reasons: readonly {
      readonly code: string
      readonly message: string
      readonly requests: number
    }[]
  }
  /** Cost of the requests that both versions serve, at the prices of the entries that they select first. */
  readonly cost: {
    /** Both costs are known. */
    readonly requests: number
    /** One of them is not. */
    readonly unknown: number
    readonly published_usd: number
    readonly draft_usd: number
  }
  /** Requests of which not everything is recorded that selection looks at, and what is missing. */
  readonly uncertain: number
  readonly unrecorded: readonly { readonly field: string; readonly requests: number }[]
}

/** GET /workspaces/:workspace/routes/:route/traffic: which entries served the recorded requests of the last hour */
export interface TrafficAnswer {
  readonly window_ms: number
  readonly requests: number
  readonly entries: readonly (EntryName & { readonly requests: number })[]
}

/** How the configuration names an entry. */
export interface EntryName {
  readonly provider: string
  readonly model: string
}
