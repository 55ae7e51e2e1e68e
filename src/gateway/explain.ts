import type { Consideration, Group, Left } from './consideration.ts'

/** What became of one entry, in wire names: what `larkway route explain` prints and `details.entries` hold. */
export interface ExplainRow {
  readonly route: string
  /** As the configuration names it. */
  readonly provider: string
  readonly model: string
  readonly group: Group
  /** Place among the candidates, from 1; null when left out. */
  readonly rank: number | null
  /** Why it is left out; null when it is not. */
  readonly left: Left['why'] | null
  /** The same in words; null when there is nothing to say. What follows is there where programs can use it. */
  readonly detail: string | null
  /** Capabilities or features that it lacks, or capabilities that the plan does not include. */
  readonly missing?: readonly string[]
  /** Features that it has and does not keep together. */
  readonly conflict?: readonly string[]
  /** The field of the request that is over a limit. */
  readonly param?: string
  /** How long it is not tried. */
  readonly retry_after_ms?: number
  /** Taken although its breaker is open, as every other is. */
  readonly last_resort?: true
}

/** One row per entry that was looked at, in that order. Pure, and without anything secret. */
export function explainRows(considered: readonly Consideration[]): ExplainRow[] {
  return considered.map(({ route, entry, group, rank, left, lastResort }) => ({
    route: route.name,
    provider: entry.provider.name,
    model: entry.model,
    group,
    rank,
    left: left?.why ?? null,
    detail: left === null ? (lastResort ? LAST_RESORT : null) : inWords(left),
    ...(left === null ? {} : forPrograms(left)),
    ...(lastResort ? { last_resort: true } : {}),
  }))
}

const LAST_RESORT = 'the breaker of every entry is open, and this one opened first'

function inWords(left: Left): string {
  switch (left.why) {
    case 'workspace':
      return 'it belongs to another workspace'
    case 'unpublished':
      return 'its route is not published'
    case 'not_pinned':
      return 'other entries of its route are pinned'
    case 'duplicate':
      return 'it was listed before'
    case 'capability':
      return `the model lacks ${left.missing.join(', ')}`
    case 'operation':
      return 'the model is not for this operation, or its provider has none such'
    case 'plan':
      return left.missing.length === 0
        ? 'it is for other plans'
        : `the plan does not include ${left.missing.join(', ')}`
    case 'features':
      return lackInWords(left)
    case 'limits':
      return left.message
    case 'cooling':
      return `the provider asked to be left alone, for ${seconds(left.retryAfterMs)} more`
    case 'breaker':
      return left.retryAfterMs === null
        ? 'its breaker is half-open, and another call is trying it'
        : `its breaker is open, for ${seconds(left.retryAfterMs)} more`
    case 'profile':
      return 'other entries have the response_profile'
  }
}

function lackInWords(left: Extract<Left, { readonly why: 'features' }>): string {
  const { missing, conflict, language, redactions } = left
  if (missing.length === 0) return `the model does not keep ${conflict.join(' and ')} together`
  const named = missing.map((feature) =>
    feature === 'redaction' && redactions.length > 0 ? `redaction of ${redactions.join(' and ')}` : feature,
  )
  const where = language === null ? '' : ` in the language ${language}`
  return `the model lacks ${named.join(', ')}${where}`
}

function seconds(milliseconds: number): string {
  return `${Math.ceil(milliseconds / 1000)} s`
}

function forPrograms(left: Left): Partial<ExplainRow> {
  switch (left.why) {
    case 'capability':
    case 'plan':
    case 'features': {
      const conflict = 'conflict' in left ? left.conflict : []
      return {
        ...(left.missing.length > 0 ? { missing: left.missing } : {}),
        ...(conflict.length > 0 ? { conflict } : {}),
      }
    }
    case 'limits':
      return { param: left.param }
    case 'cooling':
    case 'breaker':
      return left.retryAfterMs === null ? {} : { retry_after_ms: left.retryAfterMs }
    default:
      return {}
  }
}
