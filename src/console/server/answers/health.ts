import type { BreakerView } from '../../../contracts/console.ts'

// Answers about overview and health, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /overview?workspace=…&since=<epoch ms>: of one workspace, or (operators) of all */
export interface OverviewAnswer {
  readonly now: string
  /** Oldest first; only steps that ended after `since`. */
  readonly steps: readonly OverviewStep[]
  /** Null for admins, as all that is about nodes. */
  readonly nodes:
    | readonly {
        readonly node: string
        readonly at: string
        readonly in_flight: number
        readonly memory_used_bytes: number
        readonly memory_limit_bytes: number
      }[]
    | null
  readonly breakers: readonly BreakerAnswer[]
  readonly queue: { readonly ready: number; readonly delayed: number; readonly oldest_seconds: number } | null
  /** Open incidents of the workspace, or of all. Absent: alerts are off. */
  readonly incidents?: readonly IncidentAnswer[]
  /** Why the newest file or published catalog is not in force at the node that answers; empty: it is. */
  readonly refused: readonly string[] | null
  readonly credits_usd: number | null
  /** A published route of the workspace has an entry of a shared provider. Null: it is about all workspaces. */
  readonly credits_used: boolean | null
}

export interface IncidentAnswer {
  readonly id: string
  /** Name of the rule in the configuration. */
  readonly rule: string
  /** The affected part by its names, e.g. `provider` and `model`. */
  readonly subject: Readonly<Record<string, string>>
  readonly since: string
  /** Current value, in the unit of the rule. */
  readonly value: number
  readonly threshold: number
  /** The budget has nothing left, or too little for a call. */
  readonly exhausted: boolean
}

export interface OverviewStep {
  /** End of the step, epoch milliseconds. */
  readonly at_ms: number
  readonly step_ms: number
  readonly requests: number
  /** Answered with 4xx: the callers' own. */
  readonly client_errors: number
  /** Answered with 5xx, or broken off: the gateway's or its providers'. */
  readonly server_errors: number
  readonly added_p50_ms: number | null
  readonly added_p95_ms: number | null
  readonly upstream: readonly UpstreamAnswer[]
  readonly memory_used_bytes: number | null
  readonly memory_limit_bytes: number | null
}

/** Attempts at a provider in a step, those of jobs among them. */
export interface UpstreamAnswer {
  readonly provider: string
  readonly calls: number
  readonly failed: number
  /** Over answered attempts alone; null: none was answered. */
  readonly p50_ms: number | null
  readonly p95_ms: number | null
}

/** An entry whose breaker is not closed, or whose provider asked for a pause. */
export interface BreakerAnswer extends Omit<BreakerView, 'sinceMs' | 'lastFailure'> {
  /** When it came into this state; null: a node of an earlier version has not said. */
  readonly since: string | null
  readonly last_error: ErrorAnswer | null
}

/** A failed attempt, in our words. */
export interface ErrorAnswer {
  readonly at: string
  readonly status: number | null
  readonly reason: string
}

/** GET /health?workspace=…: how providers fared in the last minutes, in one workspace or (operators) in all */
export interface HealthAnswer {
  readonly now: string
  readonly window_ms: number
  /** Only models that were called. */
  readonly providers: readonly {
    readonly provider: string
    readonly calls: number
    readonly failed: number
    /** Over answered calls; null: none was answered. */
    readonly p95_ms: number | null
    readonly last_error: ErrorAnswer | null
    /** A breaker is open, or its last trial has just failed, and no attempt succeeded since. */
    readonly is_down: boolean
    readonly models: readonly ModelHealth[]
  }[]
  /** As any node has it where it is worst. */
  readonly breakers: readonly BreakerAnswer[]
}

export interface ModelHealth {
  readonly model: string
  readonly calls: number
  readonly failed: number
  /** Over answered calls; null: none was answered, or by nodes of an earlier version. */
  readonly p95_ms: number | null
  readonly last_error: ErrorAnswer | null
  /** As of the provider. */
  readonly is_down: boolean
}
