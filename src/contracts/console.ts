import type { SessionFacts } from './live.ts'
import type { RecordedCall } from './sample.ts'
import type { ShadowPair } from './shadow.ts'
import type { UsageMarks } from './usage-lake.ts'

/** State of the console beside the catalog. Times and failures as in `CatalogStore`. */
export interface ConsoleState {
  readonly sessions: ConsoleSessions
  readonly requests: RequestRecords
  readonly samples: NodeSamples
  readonly keyUses: KeyUses
  readonly sessionEnds: SessionEnds
  readonly usageMarks: UsageMarks
}

/** Orders to end live sessions, from the node that was asked to the one that has the session. */
export interface SessionEnds {
  /** Orders the end of a session. The order stands until it is withdrawn, half a minute at least. */
  order(id: string): Promise<void>
  /** The sessions that are to end. */
  pending(): Promise<readonly string[]>
  /** Takes an order back, because it was carried out or there is no such session. */
  withdraw(id: string): Promise<void>
}

export interface ConsoleSession {
  /** SHA-256 of the cookie's token, lower-case hex: the token itself is never kept. */
  readonly id: string
  /** Digest of the API key that signed in; its principal is looked up again with every request. Null: a person did. */
  readonly keySha256: string | null
  /** Null: a key signed in. */
  readonly person: SessionPerson | null
  /** The person or key that signed in, as a text without blanks: the same for all sessions of a key or person. */
  readonly holder: string
  readonly csrfToken: string
  /** How long it lasts without a request; null: that does not matter. */
  readonly idleMs: number | null
  /** Where it was begun from. Null: that is no address, or an earlier version began it. */
  readonly address: string | null
  /** Browser and system that began it, such as `Firefox 145 on Linux`; null as for the address. */
  readonly browser: string | null
}

/** A person who signed in at an OpenID provider, and nothing more of them than their session needs. */
export interface SessionPerson {
  readonly issuer: string
  readonly clientId: string
  /** How the issuer names them, for good. */
  readonly subject: string
  /** How the audit list names them: an email address, mostly. */
  readonly name: string
  /** Their groups that the configuration named when they signed in; roles are looked up with every request. */
  readonly groups: readonly string[]
  /** Lower case, and verified by the issuer; null: it is not, or no role is given by it. */
  readonly email: string | null
  /** Names their session at the issuer; null: it did not say. */
  readonly issuerSession: string | null
  /** ID token, sealed, with which the issuer is asked to end that; null: it is not asked. */
  readonly sealedIdToken: string | null
}

/** A session that has begun. Times are epoch milliseconds. */
export interface KeptSession extends ConsoleSession {
  readonly beganAtMs: number
  /** When it was noted last that there are requests. */
  readonly seenAtMs: number
  /** Its end at the latest, whatever is requested. */
  readonly expiresAtMs: number
}

export interface ConsoleSessions {
  /** Begins a session unless there is one with its id. */
  begin(session: ConsoleSession, ttlMs: number): Promise<void>
  /** Null: unknown, ended, over, or idle for too long. */
  find(id: string): Promise<KeptSession | null>
  /** Notes that there was a request. */
  touch(id: string): Promise<void>
  end(id: string): Promise<void>
  /** Sessions that have not ended, the one that ends last first. @param holder whose; null: everyone's */
  list(holder: string | null, limit: number): Promise<readonly KeptSession[]>
  /**
   * Takes a mark that only one can have.
   *
   * @param mark lower-case hex
   * @returns true where it is new, within the time that it is remembered
   */
  claim(mark: string, ttlMs: number): Promise<boolean>
  /** True where a mark is taken, and remembered. @param mark lower-case hex */
  isClaimed(mark: string): Promise<boolean>
}

/** One request, or one run of a job, as the console shows it. Never a body, a transcript or a header. */
export interface RequestRecord {
  /** `rec_…`: unique, unlike the id of the request. Absent: written by an earlier version. */
  readonly recordId?: string
  /** `req_…`, or what the caller sent instead; of a run of a job, that of its submission. */
  readonly id: string
  /** When it ended, epoch milliseconds. */
  readonly atMs: number
  readonly workspace: string
  readonly app: string
  readonly keyId: string
  /** HTTP method; `RUN` for a run of a job. */
  readonly method: string
  /** The pattern of the path; `job` for a run of a job. */
  readonly path: string
  /** HTTP status; null for a run of a job. */
  readonly status: number | null
  readonly error: string | null
  /** Null: it did not fail, or its code says it all. Absent: written by an earlier version. */
  readonly failure?: RecordedFailure | null
  readonly milliseconds: number
  /** The part that this node itself took; null when it is unknown. */
  readonly addedMs: number | null
  readonly receivedBytes: number
  readonly sentBytes: number
  readonly route: string | null
  readonly policyVersionId: string | null
  readonly jobId: string | null
  readonly replayed: boolean
  /** The answer is speech that was made for another call, or not. Absent: its route keeps none. */
  readonly cache?: 'hit' | 'miss'
  readonly attempts: readonly RecordedAttempt[]
  readonly usage: Readonly<Record<string, number | null>> | null
  readonly costUsd: number | null
  /** Outcome of a live session; null: it was none. Absent: written by an earlier version. */
  readonly live?: SessionFacts | null
  /** Facts that selection looked at. Absent: it did not come to that, or an earlier version wrote it. */
  readonly call?: RecordedCall
}

/**
 * Why a request failed, as far as closed lists can say it: documented field names, names of the configuration, and
 * words of ours. Never a text that a caller or a provider has written.
 */
export interface RecordedFailure {
  /** The request field at fault, e.g. `messages[2].content`; null: none, or none that is documented. */
  readonly param: string | null
  /** How the field breaks the rules, one of `FIELD_RULES`; null: in another way. */
  readonly rule: string | null
  /** Why the provider refused the input, one of a closed list; null: not known. */
  readonly reason: string | null
  /** Features, capabilities or the scope that were missing. */
  readonly missing: readonly string[]
  /** The limit that was crossed, e.g. `max_audio_bytes`. */
  readonly limit: {
    readonly name: string
    readonly max: number | null
    readonly actual: number | null
  } | null
  /** Verdicts of the first entries that were considered. */
  readonly entries: readonly RecordedVerdict[]
  /** Entries beyond those. */
  readonly moreEntries: number
}

/** Why selection left an entry out. */
export interface RecordedVerdict {
  readonly route: string
  readonly provider: string
  readonly model: string
  /** As in `ExplainRow`; null: it was not left out. */
  readonly left: string | null
  readonly missing: readonly string[]
  readonly conflict: readonly string[]
  readonly param: string | null
  readonly retryAfterMs: number | null
}

export interface RecordedAttempt {
  readonly provider: string
  readonly model: string
  readonly status: number | null
  readonly milliseconds: number
  /** `ok`, or why it failed, in our words. */
  readonly reason: string
}

export interface RequestFilter {
  readonly workspace: string
  /** `failed`: 400 and over, or with an error: a run that failed, an answer that broke off after its 200. */
  readonly outcome: 'ok' | 'failed' | null
  readonly path: string | null
  readonly app: string | null
  readonly keyId: string | null
  readonly jobId: string | null
  readonly requestId: string | null
  /** Only those that ended before; epoch milliseconds. */
  readonly beforeMs: number | null
  /** Only those that ended after; epoch milliseconds. */
  readonly afterMs: number | null
  readonly limit: number
}

/**
 * The newest thousand failed requests of each workspace, and the newest thousand others, for a week at most: a busy
 * workspace does not push its failures out.
 */
export interface RequestRecords {
  /** Idempotent by the token of the batch. */
  add(token: string, records: readonly RequestRecord[]): Promise<void>
  /** Newest first. */
  list(filter: RequestFilter): Promise<readonly RequestRecord[]>
  /** By its `recordId`; null: unknown, or of another workspace. */
  get(workspace: string, recordId: string): Promise<RequestRecord | null>
}

/** Measurements of a node in one step of time. */
export interface NodeSample {
  readonly node: string
  /** End of the step, epoch milliseconds. */
  readonly atMs: number
  readonly stepMs: number
  readonly memoryUsedBytes: number
  readonly memoryLimitBytes: number
  readonly inFlight: number
  /** To be shown: there is room for so many entries, and no more. */
  readonly breakers: readonly BreakerView[]
  /** Live sessions that are open, and some of them. Absent: written by an earlier version, or by a worker. */
  readonly live?: { readonly open: number; readonly sessions: readonly LiveSample[] }
  /** Findings of shadows. Absent: written by an earlier version. */
  readonly shadows?: readonly ShadowSample[]
  /** End users who are near the end of their budgets, some of them; absent: they are not watched, or none was seen. */
  readonly endUsers?: readonly EndUserSample[]
  /** Budgets that did not cover a call, some of them; absent: none, or written by an earlier version. */
  readonly refusedBudgets?: readonly BudgetName[]
  /** Figures for alerts, of all workspaces together. Absent: written by an earlier version. */
  readonly attempts?: readonly ModelAttempts[]
  /** The same of models with an entry whose breaker is not closed and that is tried. Absent: by an earlier version. */
  readonly unwell?: readonly UnwellModel[]
  /** Models with an entry that is half-open and not tried. Absent: none, or by an earlier version. */
  readonly untried?: readonly UnwellModel[]
  /** Calls of all workspaces together. */
  readonly all: CallsSample
  /** The busiest ones. */
  readonly workspaces: readonly WorkspaceSample[]
}

/**
 * An end user who has spent the share of its budget that an alert watches, or whom its budget was refused: as this node
 * was told last, so that who wants to know it has to ask.
 */
export interface EndUserSample {
  readonly workspace: string
  /** As `EndUser.account`. */
  readonly account: string
  /** As it is kept; null: its id must not be. */
  readonly id: string | null
  /** The budget did not cover a call. */
  readonly isRefused?: true
}

/** The budget of a workspace, or of one of its keys. */
export interface BudgetName {
  readonly workspace: string
  /** Null: it is the workspace's own. */
  readonly key: string | null
}

/** Sums of a pair in one step of time. */
export interface ShadowSample extends ShadowPair {
  /** Without those that were given up. */
  readonly calls: number
  readonly failed: number
  readonly compared: number
  /** Figures of the answers that were compared. */
  readonly words: number
  readonly errors: number
  /** Comparisons in which both prices are known, and what these come to. */
  readonly priced: number
  readonly entryUsd: number
  readonly shadowUsd: number
  /** Figures of the entry and of the shadow, of some calls. */
  readonly milliseconds: readonly (readonly [entry: number, shadow: number])[]
  /** References that callers brought, and words in which each answer differs. Absent: written by an earlier version. */
  readonly references?: Readonly<Record<'count' | 'words' | 'entryErrors' | 'shadowErrors', number>>
}

/** A live session that is open. */
export interface LiveSample {
  /** `live_…` */
  readonly id: string
  readonly workspace: string
  readonly app: string
  readonly keyId: string
  readonly route: string | null
  /** Null: it is being connected. */
  readonly entry: { readonly provider: string; readonly model: string } | null
  /** Epoch milliseconds. */
  readonly startedAtMs: number
  readonly audioSeconds: number
  /** Sent to be spoken; absent: the session transcribes. */
  readonly characters?: number
  readonly switches: number
  /** So far; null: a price is not known. */
  readonly costUsd: number | null
}

/**
 * A breaker that is half-open for so long has not been tried: there are no calls. Whether the entry is well is not
 * known then, and it is no incident any more.
 */
export const UNTRIED_MS = 15 * 60_000

/** An entry of a route whose breaker is not closed, or whose provider asked for a pause. */
export interface BreakerView {
  readonly workspace: string
  readonly route: string
  readonly provider: string
  readonly model: string
  readonly state: 'half_open' | 'open' | 'cooling'
  /** When it came into this state, epoch milliseconds. Absent: written by an earlier version. */
  readonly sinceMs?: number
  /** The last failure that counted against it; null: none is known. */
  readonly lastFailure?: SampledFailure | null
}

/** A failed attempt, in our words. */
export interface SampledFailure {
  /** Epoch milliseconds. */
  readonly atMs: number
  /** The provider's HTTP status; null: there was no answer. */
  readonly status: number | null
  readonly reason: string
}

export interface WorkspaceSample extends CallsSample {
  readonly workspace: string
}

export interface CallsSample {
  readonly requests: number
  /** Answered with 400 or more, or broken off. */
  readonly errors: number
  /** The part caused by the gateway or by providers. Absent when written by an earlier version. */
  readonly serverErrors?: number
  /** Requests that were recorded, and failed ones that were not, since there were too many at once. */
  readonly recorded?: number
  readonly failuresDropped?: number
  /** Median of the sampled requests that were sent to a provider; null without any. */
  readonly addedP50Ms: number | null
  readonly addedP95Ms: number | null
  readonly upstream: readonly UpstreamSample[]
}

/** Attempts at a provider, those of jobs among them. */
export interface UpstreamSample {
  readonly provider: string
  readonly calls: number
  readonly failed: number
  /** Median of the last answered attempts of the step; null without any. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  /** The same calls by model, the failing ones first. Absent when written by an earlier version. */
  readonly models?: readonly ModelSample[]
}

export interface ModelSample {
  readonly model: string
  readonly calls: number
  readonly failed: number
  readonly lastFailure: SampledFailure | null
  /** Latency of the last answered attempts of the step; null without any. Absent when written by an earlier version. */
  readonly p95Ms?: number | null
}

/**
 * Attempts at a model that were sent, and those of them in which the provider failed, rather than the caller. Every
 * model that was called in a step has them, so that sums over steps are right; a tuple, since there are so many.
 */
export type ModelAttempts = readonly [provider: string, model: string, sent: number, failed: number]
/** Each is told once, however many entries it has: those of one provider leave no other one without a place. */
export type UnwellModel = readonly [provider: string, model: string]

/** Measurements of all nodes during the last hour. */
export interface NodeSamples {
  /** Idempotent by node and time. */
  add(sample: NodeSample, keepMs: number): Promise<void>
  /** Lists the steps of all nodes that ended after this time, oldest first. */
  since(atMs: number): Promise<readonly NodeSample[]>
}

/** When API keys were used last, to a few seconds. */
export interface KeyUses {
  /** Key id → epoch milliseconds. An older moment changes nothing. */
  note(uses: Readonly<Record<string, number>>): Promise<void>
  read(keyIds: readonly string[]): Promise<Readonly<Record<string, number>>>
}
