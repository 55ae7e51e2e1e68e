import type { Capability, Feature, Redaction } from '../schema/calls.ts'
import type { Entry, Route } from '../schema/catalog.ts'

/**
 * Which choice of a call an entry belongs to; they are tried in this order. `purpose`: the entries of the purpose's
 * route that carry its label, or all when none does; `purpose_route`: its others; `assigned_route`: those of the route
 * that serves without a purpose.
 */
export type Group = 'purpose' | 'purpose_route' | 'assigned_route'

/** Why an entry is left out, in wire names. */
export type Left =
  /** `workspace`: it belongs to another one, which the check of the configuration lets no file do. */
  | { readonly why: 'workspace' | 'unpublished' | 'not_pinned' | 'duplicate' }
  | { readonly why: 'capability'; readonly missing: readonly Capability[] }
  /** The model is for other operations, or its provider's protocol has none such. */
  | { readonly why: 'operation' }
  /** `missing`: what the plan does not include; empty when it is the entry that is for other plans. */
  | { readonly why: 'plan'; readonly missing: readonly Capability[] }
  | {
      readonly why: 'features'
      readonly missing: readonly Feature[]
      /** The language in which some of them are missing; null when they are in every one. */
      readonly language: string | null
      /** What it cannot redact, where it redacts other things; `redaction` is then missing. */
      readonly redactions: readonly Redaction[]
      /** Features that it has and does not keep together. */
      readonly conflict: readonly Feature[]
    }
  | { readonly why: 'limits'; readonly param: string; readonly message: string }
  /** Its provider asked to be left alone for so long. */
  | { readonly why: 'cooling'; readonly retryAfterMs: number }
  /**
   * Its breaker is open for so long; null: it is half-open, and its one trial is somebody else's. `openedAtMs` as in
   * `EntryHealth`.
   */
  | { readonly why: 'breaker'; readonly retryAfterMs: number | null; readonly openedAtMs: number }
  | { readonly why: 'profile' }

/** What became of one entry. */
export interface Consideration {
  readonly route: Route
  readonly entry: Entry
  readonly group: Group
  /** Place among the candidates, from 1; null when left out. */
  readonly rank: number | null
  readonly left: Left | null
  /** Every breaker is open, and this one opened first. */
  readonly lastResort: boolean
}

/** `message` is for the caller, who reads it when no other entry takes the call either. */
export function overLimit(param: string, message: string): Left {
  return { why: 'limits', param, message }
}
