import type { Capability, Feature, ProtocolFeature, Redaction } from '../../../contracts/calls.ts'
import type { Entry, Route } from '../../../contracts/catalog.ts'
import type { ExtraName } from '../../../contracts/extras.ts'
import type { ResidencyPromise } from '../../../contracts/requirements.ts'

/**
 * Groups of entries, in the order in which they are tried. `purpose`: the entries of the purpose's route that are
 * tagged with its label, or all when none is; `purpose_route`: its others; `assigned_route`: those of the route that
 * serves without a purpose.
 */
export type Group = 'purpose' | 'purpose_route' | 'assigned_route'

/** Why an entry cannot serve a call, in wire names. */
export type Exclusion =
  /** `workspace`: it belongs to another one, which the check of the configuration rules out. */
  | { readonly why: 'workspace' | 'unpublished' | 'not_pinned' | 'duplicate' }
  | { readonly why: 'capability'; readonly missing: readonly Capability[] }
  /** The model is for other operations, or its provider's protocol lacks this one. */
  | { readonly why: 'operation' }
  /** `missing`: capabilities that the plan does not include; empty when the entry is for other plans. */
  | { readonly why: 'plan'; readonly missing: readonly Capability[] }
  | {
      readonly why: 'features'
      readonly missing: readonly (Feature | ProtocolFeature | ExtraName)[]
      /** The language in which some of them are missing; null when they are in every one. */
      readonly language: string | null
      /** Kinds that it cannot redact, where it redacts others; `redaction` is then missing. */
      readonly redactions: readonly Redaction[]
      /** Features that it has but cannot combine. */
      readonly conflict: readonly Feature[]
    }
  /** It does not promise what is demanded of its handling of the content. */
  | { readonly why: 'residency'; readonly missing: readonly ResidencyPromise[]; readonly message: string }
  | {
      readonly why: 'limits'
      readonly param: string
      readonly message: string
      /** Formats that it makes, where the requested one is not among them. */
      readonly made?: readonly string[]
      /** Parts of the audio would keep to the limit. */
      readonly isOfLength?: true
      /** Transcoded audio would be taken. */
      readonly isOfFormat?: true
    }
  /** Its provider has limited the rate, and sent a `Retry-After`. */
  | { readonly why: 'cooling'; readonly retryAfterMs: number }
  /**
   * Its breaker is open for that long; null: it is half-open, and another call has its one trial. `openedAtMs` as in
   * `EntryHealth`.
   */
  | { readonly why: 'breaker'; readonly retryAfterMs: number | null; readonly openedAtMs: number }
  | { readonly why: 'profile' }

/** Result of selection for one entry. */
export interface Verdict {
  readonly route: Route
  readonly entry: Entry
  readonly group: Group
  /** Place among the candidates, from 1; null when it is excluded. */
  readonly rank: number | null
  readonly exclusion: Exclusion | null
  /** The breaker of every entry is open, and this one opened first. */
  readonly lastResort: boolean
}

/** @param message for the caller, who reads it when no other entry takes the call either */
export function overLimit(param: string, message: string): Exclusion & { readonly why: 'limits' } {
  return { why: 'limits', param, message }
}

/** A verdict in wire names, as `larkway route explain` prints it and `details.entries` hold it. */
export interface ExplainRow {
  readonly route: string
  /** As the configuration names it. */
  readonly provider: string
  readonly model: string
  readonly group: Group
  /** Place among the candidates, from 1; null when it is excluded. */
  readonly rank: number | null
  /** Why it is excluded; null when it is not. */
  readonly left: Exclusion['why'] | null
  /** The same in words; null when there is nothing to say. The fields below are for programs. */
  readonly detail: string | null
  /** Capabilities or features that it lacks, or capabilities that the plan does not include. */
  readonly missing?: readonly string[]
  /** Features that it has but cannot combine. */
  readonly conflict?: readonly string[]
  /** The field of the request that is over a limit. */
  readonly param?: string
  /** How long it is not tried. */
  readonly retry_after_ms?: number
  /** It is tried although its breaker is open, since all are. */
  readonly last_resort?: true
}

/** Explains verdicts, one row each, in their order. Pure, and free of secrets. */
export function explainRows(considered: readonly Verdict[]): ExplainRow[] {
  return considered.map(({ route, entry, group, rank, exclusion, lastResort }) => ({
    route: route.name,
    provider: entry.provider.name,
    model: entry.model,
    group,
    rank,
    left: exclusion?.why ?? null,
    detail: exclusion === null ? (lastResort ? LAST_RESORT : null) : inWords(exclusion),
    ...(exclusion === null ? {} : forPrograms(exclusion)),
    ...(lastResort ? { last_resort: true } : {}),
  }))
}

const LAST_RESORT = 'the breaker of every entry is open, and this one opened first'

function inWords(exclusion: Exclusion): string {
  switch (exclusion.why) {
    case 'workspace':
      return 'it belongs to another workspace'
    case 'unpublished':
      return 'its route is not published'
    case 'not_pinned':
      return 'other entries of its route are pinned'
    case 'duplicate':
      return 'an earlier entry sends the same to this model'
    case 'capability':
      return `the model lacks ${exclusion.missing.join(', ')}`
    case 'operation':
      return 'the model is for other operations, or its provider lacks this one'
    case 'plan':
      return exclusion.missing.length === 0
        ? 'it is for other plans'
        : `the plan does not include ${exclusion.missing.join(', ')}`
    case 'features':
      return featuresInWords(exclusion)
    case 'limits':
    case 'residency':
      return exclusion.message
    case 'cooling':
      return `the provider is rate limited for another ${seconds(exclusion.retryAfterMs)}`
    case 'breaker':
      return exclusion.retryAfterMs === null
        ? 'its breaker is half-open, and another call is trying it'
        : `its breaker is open for another ${seconds(exclusion.retryAfterMs)}`
    case 'profile':
      return 'other entries have the response_profile'
  }
}

function featuresInWords(lack: Extract<Exclusion, { readonly why: 'features' }>): string {
  const { missing, conflict, language, redactions } = lack
  if (missing.length === 0) return `the model cannot combine ${conflict.join(' and ')}`
  const named = missing.map((feature) =>
    feature === 'redaction' && redactions.length > 0 ? `redaction of ${redactions.join(' and ')}` : feature,
  )
  const where = language === null ? '' : ` in the language ${language}`
  return `the model lacks ${named.join(', ')}${where}`
}

function seconds(milliseconds: number): string {
  return `${Math.ceil(milliseconds / 1000)} s`
}

function forPrograms(exclusion: Exclusion): Partial<ExplainRow> {
  switch (exclusion.why) {
    case 'capability':
    case 'plan':
    case 'features': {
      const conflict = 'conflict' in exclusion ? exclusion.conflict : []
      return {
        ...(exclusion.missing.length > 0 ? { missing: exclusion.missing } : {}),
        ...(conflict.length > 0 ? { conflict } : {}),
      }
    }
    case 'residency':
      return { missing: exclusion.missing }
    case 'limits':
      return { param: exclusion.param }
    case 'cooling':
    case 'breaker':
      return exclusion.retryAfterMs === null ? {} : { retry_after_ms: exclusion.retryAfterMs }
    default:
      return {}
  }
}
