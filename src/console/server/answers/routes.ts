import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

// Answers about routes. The page is typed by the same.

/** GET /workspaces/:workspace/routes?search=…&limit=…&offset=… */
export interface RoutesAnswer {
  readonly routes: readonly RouteSummary[]
  readonly total: number
  readonly all: number
}

export type RouteSummary = Static<typeof shapes.RouteSummary>

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
export type RouteAnswer = Static<typeof shapes.Route>

/** GET /workspaces/:workspace/routes/:route/versions → {versions}, newest first */
export type VersionAnswer = Static<typeof shapes.Version>

/** POST /workspaces/:workspace/explain */
export type ExplainAnswer = Static<typeof shapes.Explanation>

export type ExplainedEntry = ExplainAnswer['entries'][number]

/** POST /workspaces/:workspace/routes/:route/impact: the newest recorded requests, judged by both versions */
export type ImpactAnswer = Static<typeof shapes.Impact>

/** GET /workspaces/:workspace/routes/:route/traffic: which entries served the recorded requests of the last hour */
export type TrafficAnswer = Static<typeof shapes.Traffic>

/** How the configuration names an entry. */
export type EntryName = ImpactAnswer['moves'][number]['from']
