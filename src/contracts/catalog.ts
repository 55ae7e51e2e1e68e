import type { AlertTerms } from './alerts.ts'
import type { Capability } from './calls.ts'
import type { AccountTerms } from './ledger.ts'
import type { Limits } from './limits.ts'
import type { TranscriptionTask } from './operations.ts'
import type { ModelFacts } from './provider.ts'
import type { RateLimit, UnitRates } from './rate-limit.ts'
import type { Requirements } from './requirements.ts'
import type { UploadUser } from './uploads.ts'
import type { UsageRetention } from './usage-lake.ts'

export const STRATEGIES = ['priority', 'weighted', 'lowest_latency', 'lowest_cost'] as const
export type Strategy = (typeof STRATEGIES)[number]

export const LIVE_FALLBACKS = ['none', 'batch'] as const
export type LiveFallback = (typeof LIVE_FALLBACKS)[number]

export const PROFILES = ['fast', 'balanced', 'thinking'] as const
export type Profile = (typeof PROFILES)[number]

export const SCOPES = ['inference', 'jobs', 'queue', 'admin', 'operator'] as const
export type Scope = (typeof SCOPES)[number]

/** Scopes of a key that names none. */
export const DEFAULT_SCOPES: readonly Scope[] = ['inference', 'jobs', 'queue']

/** A provider as the configuration names it: a protocol, an address and a credential. */
export interface ConfiguredProvider {
  readonly name: string
  /** Names the protocol, e.g. `openai-compatible`. */
  readonly kind: string
  /** A pool has that of its first replica. */
  readonly baseUrl: string
  /** Servers that answer alike, of which each call is made at one; null: there is the one at `baseUrl`. */
  readonly pool: PoolSettings | null
  readonly credential: string | null
  readonly access: 'byok' | 'platform'
  /** Owner of a byok provider; null for platform. */
  readonly workspace: string | null
  /** Calls at once, over all nodes; null: as many as come. */
  readonly concurrency: number | null
  /** How long a call waits for one of these before it is made at the next entry, ms. */
  readonly queueMs: number
  /** Limits of the account over all nodes; absent: none. */
  readonly unitRates?: UnitRates
}

/** Replicas of a provider, and how they are probed. */
export interface PoolSettings {
  /** One of each replica, in the order of the configuration, which numbers them from 0. */
  readonly baseUrls: readonly string[]
  readonly probe: ProbeSettings
}

/** How a replica is asked whether it is well. */
export interface ProbeSettings {
  /** From the root of the server, with a slash before it; null: the list of models below the base URL. */
  readonly path: string | null
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Probes in a row that fail until no call is made at it. */
  readonly unhealthyAfter: number
  /** Probes in a row that succeed until calls are made at it again. */
  readonly healthyAfter: number
}

export const ACCEPT_RULES = [
  'repeats',
  'compression_ratio',
  'silence',
  'language',
  'words_per_second',
  'confidence',
] as const
/** A rule that a transcript can break. */
export type AcceptRule = (typeof ACCEPT_RULES)[number]

/** Rules that a transcript has to keep to be the answer; each only where it is set. */
export interface AcceptRules {
  /** Most times that the same words may follow one another. */
  readonly repeats?: number
  /** Largest ratio of a stretch of the text to the same compressed by zlib. */
  readonly compression_ratio?: number
  /** There may be no more words than the speech in the audio can hold. */
  readonly silence?: boolean
  /** The text has to be in the language of the hint, as far as its provider and its script tell. */
  readonly language?: boolean
  /** Bounds for the whole audio; `min` from 3 s of it on. */
  readonly words_per_second?: { readonly min?: number; readonly max?: number }
  /** Least mean of the confidence of its words, else of its segments, where they have one. */
  readonly confidence?: number
  /** Broken rules are counted, and the transcript is the answer all the same. */
  readonly shadow?: boolean
  /** The answer of the last entry is taken, with a warning, whatever rule it breaks. */
  readonly last_resort?: boolean
}

/** One candidate of a route, with all that selection needs to know of it. */
export interface Entry {
  readonly provider: ConfiguredProvider
  readonly model: string
  readonly facts: ModelFacts
  readonly weight: number
  readonly profile: Profile | null
  readonly purposes: readonly string[]
  /** Plans that may use it; empty: all. */
  readonly plans: readonly string[]
  readonly pinned: boolean
  /** The caller's voice names → this provider's. */
  readonly voices: Readonly<Record<string, string>>
  readonly retryEmpty: boolean
  /** Rules for its transcripts; null: there are none. */
  readonly accept: AcceptRules | null
  /** Its provider is handed a URL of stored audio and fetches it. */
  readonly pull: boolean
  /** Its provider is sent audio while it is still coming, where that cannot be billed before its end. */
  readonly cutThrough: boolean
  /** Speech in formats that its provider lacks is made here, out of samples; absent: it is not. */
  readonly encode?: true
  readonly options: Readonly<Record<string, unknown>>
  /** Last day of its model as the configuration says it, `2027-01-31`; absent: it does not. */
  readonly endsOn?: string
}

/** How long and how much of the speech of a route is kept. */
export interface CacheTerms {
  readonly ttlSeconds: number
  /** Most that the workspace keeps in the object store, bytes. */
  readonly maxBytes: number
}

/** An entry that a part of a route's answered calls is sent to as well, to compare what it answers. */
export interface Shadow {
  readonly entry: Entry
  /** Share of these calls, from 0 to 1. */
  readonly share: number
  readonly operations: readonly TranscriptionTask[]
  /** Labels of the calls that are meant; empty: all, and those without one. */
  readonly purposes: readonly string[]
  /** How long both texts are kept for a reference that the caller may bring; null: they are not. */
  readonly references: { readonly ttlSeconds: number } | null
}

export interface Route {
  readonly name: string
  readonly workspace: string
  readonly strategy: Strategy
  readonly published: boolean
  /** How a live session continues when no entry for live audio is left: `batch`, transcription of files. */
  readonly liveFallback: LiveFallback
  /** Its speech is kept, and given again to who asks for the same; absent: it is not. */
  readonly cache?: CacheTerms
  /** Long silence is left out before a provider is asked, unless the call says otherwise; absent: it is not. */
  readonly skipsSilence?: true
  /** Audio in formats that none of its entries takes is made into one that they take; absent: it is refused. */
  readonly transcodes?: true
  /** Null: nothing is compared. */
  readonly shadow: Shadow | null
  /** `pv_` and the first 16 hex characters of the SHA-256 of the route's canonical JSON. */
  readonly version: string
  readonly entries: readonly Entry[]
}

/** Limits of the spending and the calls of one end user. */
export interface EndUserTerms {
  /** Cap per calendar month in UTC, micro-USD; null: none. */
  readonly budgetMicros: number | null
  /** Null: only the key is limited. */
  readonly rateLimit: RateLimit | null
}

/** Settings of a workspace for its end users: the customers of its own for whom it makes calls. */
export interface EndUserSettings {
  /** They are known by a keyed hash of what callers send, and by nothing else. */
  readonly isHashed: boolean
  readonly terms: EndUserTerms
  /** Terms of single ones, by the id as it is kept. */
  readonly overrides: ReadonlyMap<string, EndUserTerms>
}

/** Names an end user, in UTF-8. It wins over fields of a body. */
export const END_USER_HEADER = 'x-lk-end-user'

/** An end user, of whom nothing is kept in the process but for its calls under way. */
export interface EndUser {
  /** As it is kept: what the caller sent, or its keyed hash. */
  readonly id: string
  /** Names its counters: a digest of the id in base64url. */
  readonly account: string
  readonly terms: EndUserTerms
}

export interface Purpose {
  readonly purpose: string
  readonly description: string
  readonly enabled: boolean
  /** Demands of its calls on the entries, also while it is not enabled; absent: nothing. */
  readonly require?: Requirements
  /** The route that the app binds the label to; null when it binds none. */
  readonly route: Route | null
}

/** The app and workspace of a key, resolved once when the configuration is read. */
export interface Principal {
  readonly workspace: {
    readonly id: string
    readonly name: string
    readonly plan: string | null
    /** Capabilities that the plan includes; null without a plan: all of them. */
    readonly includes: ReadonlySet<Capability> | null
    readonly terms: AccountTerms
    /** Demands of all its calls on the entries; absent: nothing. */
    readonly require?: Requirements
    /** Absent: they are known as callers name them, and not limited. */
    readonly endUsers?: EndUserSettings
    /** Limits of all its keys together; absent: none. */
    readonly unitRates?: UnitRates
  }
  readonly app: { readonly id: string }
  /** Its own limits, those that it shares with everyone included; absent: the limits of the snapshot. */
  readonly limits?: Limits
  readonly key: {
    readonly id: string
    readonly name: string
    readonly scopes: readonly Scope[]
    readonly rateLimit: RateLimit
    /** Epoch milliseconds; null: never. */
    readonly expiresAtMs: number | null
    /** Cap per calendar month in UTC, micro-USD; null: none. */
    readonly budgetMicros: number | null
    /** Absent: a key that a person made. */
    readonly kind?: 'playground'
  }
  readonly route: Route
  /** Routes that replace the assigned one for a capability. */
  readonly capabilityRoutes: ReadonlyMap<Capability, Route>
  readonly purposes: readonly Purpose[]
}

/** The part of a principal that all keys of an app share. */
export type AppPrincipal = Omit<Principal, 'key'>

/** Every route that calls of an app may lead to, each once. */
export function routesOf({
  route,
  capabilityRoutes,
  purposes,
}: Pick<Principal, 'route' | 'capabilityRoutes' | 'purposes'>): Set<Route> {
  const bound = purposes.flatMap((purpose) => purpose.route ?? [])
  return new Set([route, ...capabilityRoutes.values(), ...bound])
}

/** The limits of a caller. */
export function limitsOf({ limits }: Pick<Principal, 'limits'>, snapshot: Pick<Snapshot, 'limits'>): Limits {
  return limits ?? snapshot.limits
}

/** A caller as the uploads know it. */
export function uploadUser(principal: Principal, snapshot: Pick<Snapshot, 'limits'>): UploadUser {
  const { max_audio_bytes: maxBytes } = limitsOf(principal, snapshot)
  return { workspace: principal.workspace.id, app: principal.app.id, maxBytes }
}

/** The limits of an app, for what is done without its caller; those of all where it is gone. */
export function limitsOfApp(
  { workspace, app }: { readonly workspace: string; readonly app: string },
  snapshot: Pick<Snapshot, 'limits' | 'apps'>,
): Limits {
  return limitsOf(snapshot.apps.get(workspace)?.get(app) ?? {}, snapshot)
}

/** The whole configuration at one moment. Immutable; a reload makes a new one. */
export interface Snapshot {
  readonly limits: Limits
  /** From the end of the body to the end of the answer. */
  readonly deadlineMs: number
  /** The same for a video, which takes longer. */
  readonly videoDeadlineMs: number
  /** SHA-256 of the key in lower-case hex → its principal. */
  readonly keys: ReadonlyMap<string, Principal>
  /** Workspace id → app id → the principal of its keys, for keys that are kept in the state. */
  readonly apps: ReadonlyMap<string, ReadonlyMap<string, AppPrincipal>>
  /** How old the list of the state's keys may be while it cannot be read; absent: any age. */
  readonly keysStaleAfterMs?: number
  /** Rate limit of keys that have none of their own. */
  readonly rateLimit: RateLimit
  readonly audioUrlDomains: readonly string[]
  /** Absent: nothing is watched. */
  readonly alerts?: AlertTerms
  /** Address of a trace, with `{trace_id}` in place of its id; absent: there is none. */
  readonly traceUrl?: string
  /** The label by which metrics tell tenants apart, and how many of them; absent: they do not. */
  readonly tenantLabels?: { readonly labels: readonly TenantLabel[]; readonly most: number }
  /** How long records of usage are kept; absent: for good. */
  readonly usageRetention?: UsageRetention
  /** When the document of facts was issued by which its models are known. */
  readonly modelsIssuedAt?: string
}

export type TenantLabel = 'workspace' | 'app'

/** Principals of API keys: of those in the configuration and those in the state. */
export interface ApiKeys {
  /**
   * No I/O. Undefined when no key has this digest, or it was revoked.
   *
   * @param sha256 of the key, lower-case hex
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the configuration has no such key and those of the state could
   *         never be read since the start, or not for longer than `keysStaleAfterMs`
   */
  find(sha256: string): Principal | undefined
}

/** How a call chooses among the entries of its route. Plain data, so a job record can hold it. */
export interface Selectors {
  /** Label in the body or the header; null when none was sent. */
  readonly purpose: { readonly label: string; readonly source: 'body' | 'header' } | null
  readonly responseProfile: Profile | null
  /** Demands of the call itself on the entries; absent: nothing. */
  readonly require?: Requirements
}
