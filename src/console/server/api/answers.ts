import type { Role } from '../../../admin/actor.ts'
import type { ManagedBy } from '../../../admin/parts.ts'
import type { AppFields, EndUserFields, ProviderFields, RouteFields } from '../../../catalog/file.ts'
import type { Capability, Feature, Hint } from '../../../contracts/calls.ts'
import type { Scope } from '../../../contracts/catalog.ts'
import type { BreakerView, RecordedFailure } from '../../../contracts/console.ts'
import type { Price } from '../../../contracts/facts.ts'
import type { JobStatus } from '../../../contracts/jobs.ts'
import type { SessionFacts, SessionKind } from '../../../contracts/live.ts'
import type { ExplainRow } from '../../../gateway/verdict.ts'
import type { ToldRecord } from '../../../usage/log-report.ts'

// What the console's API answers, in wire names. The page is typed by the same; timestamps are RFC 3339.

export type { ManagedBy, Role }

/** GET /sign-in: the ways in, for whoever has not signed in yet. */
export interface SignInAnswer {
  /** Whether API keys sign in. */
  readonly keys: boolean
  /** Null: there is no single sign-on. */
  readonly oidc: {
    /** Of the issuer, for the button. */
    readonly name: string
    /** Where the browser is to go; takes the parameter `return_to`, a path of the console. */
    readonly url: string
  } | null
}

/** Who signed in: the holder of a key, or a person. The other is null. */
interface Holder {
  readonly key: { readonly id: string; readonly name: string } | null
  /** `subject` is how their OpenID provider names them, for good. */
  readonly person: { readonly name: string; readonly subject: string } | null
}

/** GET and POST /session */
export interface SessionAnswer extends Holder {
  readonly role: Role
  /** Where the page begins: that of the key, or the first one. Null: there are no workspaces. */
  readonly workspace: string | null
  /** Those of an admin, who may see no others; empty for operators, who see all. */
  readonly workspaces: readonly string[]
  /** Goes into the header `x-lk-csrf` of everything but GET. */
  readonly csrf_token: string
  readonly expires_at: string
  /** Of Larkway. */
  readonly version: string
}

/** DELETE /session */
export interface SignOutAnswer {
  readonly ended: true
  /** Where the browser is to go to end the session at the issuer, too; absent: there is none. */
  readonly logout_url?: string
}

/** GET /sessions → {sessions}: of everybody for operators, else the viewer's own. */
export interface ListedSession extends Holder {
  readonly id: string
  /** It is the one that asks. */
  readonly current: boolean
  readonly own: boolean
  /** Null: it ends with its next request, since its key or its role is gone. */
  readonly role: Role | null
  readonly workspaces: readonly string[]
  readonly began_at: string
  /** To a minute or so. */
  readonly seen_at: string
  readonly expires_at: string
}

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
  /** Whether audio and transcripts of the workspace may be shown in the console. Off unless an admin says otherwise. */
  readonly content_shown: boolean
  readonly purposes: readonly PurposeAnswer[]
  readonly apps: readonly AppAnswer[]
}

/** GET /workspaces/:workspace/setup: what there is on the way to the first request. */
export interface SetupAnswer {
  /** Those that the workspace may use, its own first. */
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
  /** Whether a request was ever sent. */
  readonly called: boolean
}

export interface PurposeAnswer {
  readonly purpose: string
  readonly description: string
  readonly enabled: boolean
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
  /** Of the published version; null: never published, or managed by file. */
  readonly number: number | null
  /** False: its `published` is false, or it was never published. */
  readonly in_service: boolean
  readonly strategy: string
  /** Of what serves, else of the draft: `provider/model`. */
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
    /** Why; null: nobody said. */
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
  /** Of the requests that both versions serve, at the prices of the entries that they select first. */
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

/** GET /workspaces/:workspace/models */
export interface ModelsAnswer {
  /** What the workspace may build routes of: its own providers and those of the platform. */
  readonly providers: readonly {
    readonly name: string
    readonly kind: string
    readonly access: 'byok' | 'platform'
    readonly models: readonly ModelAnswer[]
    /** It also takes models that are not listed: their capabilities have to be declared. */
    readonly open: boolean
  }[]
}

export interface ModelAnswer {
  readonly model: string
  readonly capabilities: readonly Capability[]
  readonly features: readonly Feature[]
  readonly hints: readonly Hint[]
  /** Today's; null: unknown. */
  readonly price: Price | null
  readonly translates: boolean
  /** One sentence for whoever routes to it; absent: none is needed. */
  readonly note?: string
}

/** GET /workspaces/:workspace/providers and GET /providers (of the platform) → {providers, kinds} */
export interface ProviderAnswer {
  readonly name: string
  readonly kind: string
  readonly access: 'byok' | 'platform'
  readonly workspace: string | null
  /** Null: for operators only, or the kind's own. */
  readonly base_url: string | null
  /** `reference`: read from the environment or a file. The credential itself is never returned. */
  readonly credential: 'stored' | 'reference' | 'none'
  readonly managed_by: ManagedBy
  /** What was declared beside that: price, capabilities, … */
  readonly facts: Omit<
    ProviderFields,
    'kind' | 'access' | 'workspace' | 'api_key' | 'base_url' | 'base_urls' | 'health'
  >
  /** Its servers in place of `base_url`, and how they are probed; absent: for operators only, or it has one address. */
  readonly base_urls?: readonly string[]
  readonly health?: NonNullable<ProviderFields['health']>
  /** The same in force, in that order; absent: it has one address. */
  readonly replicas?: readonly ReplicaAnswer[]
  /** Why it is not in force; absent: it is. */
  readonly issues?: readonly string[]
}

/** A server of a provider, as the node that answers sees it. */
export interface ReplicaAnswer {
  /** It gets calls. */
  readonly up: boolean
  /** Calls and live sessions that are under way. */
  readonly calls: number
  /** How often it was passed over since a call at it had failed. */
  readonly ejections: number
  /** Why its probes fail, in our words; null: they do not. */
  readonly trouble: string | null
}

export interface KindAnswer {
  readonly kind: string
  readonly needs_credential: boolean
  /** Null: it has to be given. */
  readonly base_url: string | null
}

/** GET /workspaces/:workspace/providers/:name; GET /providers/:name, for operators, of any owner */
export interface ProviderDetailAnswer {
  readonly name: string
  readonly kind: string
  readonly access: 'byok' | 'platform'
  /** Its owner; null: the platform. */
  readonly workspace: string | null
  /** Null: it is not the viewer's to see. */
  readonly credential: ProviderAnswer['credential'] | null
  readonly managed_by: ManagedBy | null
  /** Why it is not in force; absent: it is. */
  readonly issues?: readonly string[]
  /** Published routes with an entry of it, and whom they serve. */
  readonly used_by: readonly ProviderUse[]
  /** Routes that there are, listed or not. */
  readonly used_by_total: number
}

export interface ProviderUse {
  readonly workspace: string
  readonly route: string
  /** Its models in the route, in the order of the entries. */
  readonly models: readonly string[]
  /** Entries of other providers beside them. */
  readonly others: number
  /** Apps that lead to the route. */
  readonly apps: readonly string[]
}

/** POST …/providers/:name/check */
export interface ProviderCheckAnswer {
  readonly ok: boolean
  readonly models: readonly string[]
  /** In our words; null when it answered well. */
  readonly trouble: string | null
}

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
  /** What it was before it was rotated, while that is taken too. */
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

/** GET /workspaces/:workspace/audio-url-domains */
export interface DomainsAnswer {
  readonly domains: readonly string[]
  readonly max_domains: number
  /** Those of the configuration, which every workspace may use. */
  readonly platform_domains: readonly string[]
}

/** GET /workspaces/:workspace/webhook; PUT answers `signing_secret` with it, once. */
export interface WebhookAnswer {
  readonly webhook: { readonly url: string; readonly created_at: string } | null
  readonly signing_secret?: string
}

/** GET …/webhook/deliveries → {deliveries}: those that wait or were given up, newest first */
export interface DeliveryAnswer {
  readonly id: string
  readonly job_id: string
  readonly status: JobStatus
  readonly occurred_at: string
  readonly attempts: number
  /** Null: it was given up. */
  readonly next_attempt_at: string | null
  readonly reason: string | null
}

/** POST …/webhook/test */
export interface WebhookTestAnswer {
  readonly ok: boolean
  readonly status: number | null
  readonly milliseconds: number
  /** In our words; null when it was taken. */
  readonly reason: string | null
}

/** GET /workspaces/:workspace/jobs → {jobs}, newest first */
export interface JobAnswer {
  readonly id: string
  readonly kind: 'transcription' | 'queue'
  readonly endpoint: string
  readonly mode: string
  readonly app: string
  readonly key_id: string
  readonly status: JobStatus
  readonly cancel_requested: boolean
  readonly created_at: string
  readonly started_at: string | null
  readonly completed_at: string | null
  readonly expires_at: string | null
  /** Times that it was taken up. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly policy_version_id: string | null
  /** It failed in the queue: it may be tried again. */
  readonly can_retry: boolean
  readonly has_result: boolean
}

/** GET /workspaces/:workspace/jobs/:job */
export interface JobDetailAnswer extends JobAnswer {
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly request_id: string
  readonly history: readonly { readonly at: string; readonly status: JobStatus; readonly claim: number }[]
  /** Its runs, newest first, with what was tried in each. */
  readonly runs: readonly RequestAnswer[]
}

/** GET /workspaces/:workspace/requests, newest first */
export interface RequestsAnswer {
  readonly requests: readonly RequestAnswer[]
  /** Null: the workspace had no requests in the last hour, or too few to be counted. */
  readonly coverage: Coverage | null
}

/** How much of the last hour was recorded. */
export interface Coverage {
  readonly requests: number
  readonly recorded: number
  /** Failed requests that are not recorded, since there were too many at once. */
  readonly failures_dropped: number
}

/** One of them; GET …/requests/:record, by its `record_id` or (the newest) by the id of the request */
export interface RequestAnswer {
  /** Unique. The id of a request is not: a job has its submission and its runs, and callers may repeat one. */
  readonly record_id: string
  readonly id: string
  readonly at: string
  readonly app: string
  readonly key_id: string
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly method: string
  readonly path: string
  readonly status: number | null
  readonly error: string | null
  /** Null: it did not fail, or its code says it all. */
  readonly failure: FailureAnswer | null
  readonly milliseconds: number
  readonly added_milliseconds: number | null
  readonly received_bytes: number
  readonly sent_bytes: number
  readonly route: string | null
  readonly policy_version_id: string | null
  readonly job_id: string | null
  readonly replayed: boolean
  /** Whether the answer is speech that was made for another call; null: its route keeps none. */
  readonly cache: 'hit' | 'miss' | null
  readonly attempts: readonly {
    readonly provider: string
    readonly model: string
    /** Place of the server in the provider's `base_urls`; absent: it has one address. */
    readonly replica?: number
    readonly status: number | null
    readonly milliseconds: number
    readonly reason: string
  }[]
  readonly usage: Readonly<Record<string, number | null>> | null
  readonly cost_usd: number | null
  /** What became of a live session; null: it was none. */
  readonly live: SessionFacts | null
}

/** GET /log?workspace=…, newest first */
export interface LogAnswer {
  /** This node keeps records; false: there may be some of others, or of earlier. */
  readonly is_recorded: boolean
  readonly records: readonly LogRecordAnswer[]
  /** Goes on as `after`; null: there are no more. */
  readonly next: string | null
  /** All that ended in between was looked at. */
  readonly searched: { readonly from: string; readonly to: string }
  /** How many there are; null: that is not known. */
  readonly total: number | null
}

/** A record of the usage ledger, by the names of its columns. */
export type LogRecordAnswer = ToldRecord & {
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  /** The general sentence of its error; null: there is none. */
  readonly error_message: string | null
  /** Where its trace is looked at; null: there is none, or the configuration does not say where. */
  readonly trace_url: string | null
  /** `attempt_reasons`, taken apart; `ok` is the reason of the one that answered. */
  readonly tries: readonly { readonly provider: string; readonly model: string; readonly reason: string }[]
}

/** GET /log/:record?workspace=… */
export interface OneLogRecordAnswer {
  readonly record: LogRecordAnswer
  /** Ids of the records next to it under the same filters; null: there is none. */
  readonly newer: string | null
  readonly older: string | null
}

/** GET /live?workspace=…: live sessions that are open, newest first, of one workspace or (operators) of all */
export interface LiveSessionsAnswer {
  readonly sessions: readonly LiveSessionAnswer[]
  /** More are open than are listed. */
  readonly is_cut: boolean
}

export interface LiveSessionAnswer {
  readonly id: string
  readonly workspace: string
  readonly app: string
  readonly key_id: string
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly route: string | null
  /** Null: it is being connected. */
  readonly entry: { readonly provider: string; readonly model: string } | null
  readonly started_at: string
  readonly kind: SessionKind
  /** Null: it speaks. */
  readonly audio_seconds: number | null
  /** Sent to be spoken; null: it transcribes. */
  readonly characters: number | null
  readonly switches: number
  /** So far; null: a price is not known. */
  readonly cost_usd: number | null
  /** Null: for operators only. */
  readonly node: string | null
}

/** Why a request failed. Names and words of ours, and never what was sent. */
export interface FailureAnswer
  extends Pick<RecordedFailure, 'param' | 'rule' | 'reason' | 'missing' | 'limit'> {
  /** The general sentence of its code. */
  readonly message: string
  readonly entries: readonly VerdictAnswer[]
  readonly more_entries: number
}

export type VerdictAnswer = Pick<ExplainRow, 'route' | 'provider' | 'model' | 'missing' | 'conflict'> & {
  readonly left: string | null
  readonly param: string | null
  readonly retry_after_ms: number | null
}

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
  /** What alerts have told of and is not over, of the workspace or of all. Absent: nothing is watched. */
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
  /** What breaks it, e.g. `provider` and `model`. */
  readonly subject: Readonly<Record<string, string>>
  readonly since: string
  /** When it began, in the unit of the rule. */
  readonly value: number
  readonly threshold: number
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
  /** Of answered attempts alone; null: none was answered. */
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
  /** Those that were called. */
  readonly providers: readonly {
    readonly provider: string
    readonly calls: number
    readonly failed: number
    /** Of answered calls; null: none was answered. */
    readonly p95_ms: number | null
    readonly last_error: ErrorAnswer | null
    readonly models: readonly ModelHealth[]
  }[]
  /** As any node has it where it is worst. */
  readonly breakers: readonly BreakerAnswer[]
}

export interface ModelHealth {
  readonly model: string
  readonly calls: number
  readonly failed: number
  /** Of answered calls; null: none was answered, or by nodes of an earlier version. */
  readonly p95_ms: number | null
  readonly last_error: ErrorAnswer | null
}

/** GET /usage?workspace=…&by=…: as `GET /v1/usage` answers, of one workspace or (operators) of all */
export interface UsageAnswer {
  /** RFC 3339: when the first step begins, and the last one ends. */
  readonly from: string
  readonly to: string
  readonly step: 'none' | 'hour' | 'day'
  /** What ended later may be missing. */
  readonly complete_until: string
  /** Groups that there are, told or not. */
  readonly groups: number
  readonly truncated: boolean
  /** The node that answers keeps records; false: there may be some of others, or of earlier. */
  readonly is_recorded: boolean
  readonly names: UsageNames
  /** One for each group and step of which there are records, the most first. */
  readonly data: readonly UsageRow[]
  readonly total: UsageSums
}

/** Names of keys by their ids. */
export type UsageNames = Readonly<Record<string, string>>

export interface UsageSums
  extends Readonly<
    Record<
      | 'calls'
      | 'errors'
      | 'cost_usd'
      | 'audio_seconds'
      | 'input_tokens'
      | 'output_tokens'
      | 'characters'
      | 'images',
      number
    >
  > {
  /** From the request to the end of its answer. Null: there is none. */
  readonly total_ms: UsagePercentiles | null
  /** To the first byte of the answer. */
  readonly first_ms: UsagePercentiles | null
}

export type UsagePercentiles = Readonly<Record<'p50' | 'p95' | 'p99', number>>

/** The value of each dimension that was asked for stands under its name; null: the records have none. */
export interface UsageRow extends UsageSums {
  /** When its hour or day begins. */
  readonly time?: string
  readonly [dimension: string]: string | number | null | undefined | UsagePercentiles
}

/** GET /audit?workspace=…&actor=…&target=…&from=…&to=…&below=<number> */
export interface AuditListAnswer {
  /** Newest first. */
  readonly lines: readonly AuditAnswer[]
  /** The next page goes on below it; null: there is none. */
  readonly next: number | null
}

export interface AuditAnswer {
  readonly number: number
  readonly at: string
  readonly by: {
    readonly via: 'console' | 'api' | 'cli'
    readonly key_id: string | null
    readonly name: string
    /** How their OpenID provider names a person, for good; absent: it was none. */
    readonly subject?: string
  }
  readonly action: string
  readonly workspace: string | null
  readonly target: string
  readonly before: string | null
  readonly after: string | null
  readonly detail: string | null
}
