/** What the console keeps in the state beside the catalog. Times and failures as in `CatalogStore`. */
export interface ConsoleState {
  readonly sessions: ConsoleSessions
  readonly requests: RequestRecords
  readonly samples: NodeSamples
  readonly keyUses: KeyUses
}

export interface ConsoleSession {
  /** SHA-256 of the cookie's token, lower-case hex: the token itself is never kept. */
  readonly id: string
  /** Of the API key that signed in: whom the session stands for is looked up anew with every request. */
  readonly keySha256: string
  readonly csrfToken: string
}

export interface ConsoleSessions {
  begin(session: ConsoleSession, ttlMs: number): Promise<void>
  /** Null: unknown, ended or over. */
  find(id: string): Promise<(ConsoleSession & { readonly expiresAtMs: number }) | null>
  end(id: string): Promise<void>
}

/** One request, or one run of a job, as the console shows it. Never a body, a transcript or a header. */
export interface RequestRecord {
  /** `req_…`, or what the caller sent instead; of a run of a job, that of its submission. */
  readonly id: string
  /** When it ended, epoch milliseconds. */
  readonly atMs: number
  readonly workspace: string
  readonly app: string
  readonly keyId: string
  /** Of HTTP; `RUN` for a run of a job. */
  readonly method: string
  /** The pattern of the path; `job` for a run of a job. */
  readonly path: string
  /** HTTP status; null for a run of a job. */
  readonly status: number | null
  readonly error: string | null
  readonly milliseconds: number
  /** Of them, those that this node itself took; null: it cannot be said. */
  readonly addedMs: number | null
  readonly receivedBytes: number
  readonly sentBytes: number
  readonly route: string | null
  readonly policyVersionId: string | null
  readonly jobId: string | null
  readonly replayed: boolean
  readonly attempts: readonly RecordedAttempt[]
  readonly usage: Readonly<Record<string, number | null>> | null
  readonly costUsd: number | null
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
  /** `ok`: under 400; `failed`: 400 and over, or a run that failed. */
  readonly outcome: 'ok' | 'failed' | null
  readonly path: string | null
  readonly app: string | null
  readonly keyId: string | null
  readonly jobId: string | null
  /** Only those that ended before; epoch milliseconds. */
  readonly beforeMs: number | null
  readonly limit: number
}

/** The newest thousand requests of each workspace, for a week at most. */
export interface RequestRecords {
  /** Idempotent by the token of the batch. */
  add(token: string, records: readonly RequestRecord[]): Promise<void>
  /** Newest first. */
  list(filter: RequestFilter): Promise<readonly RequestRecord[]>
  /** The newest one with this id; null: unknown, or of another workspace. */
  get(workspace: string, id: string): Promise<RequestRecord | null>
}

/** What a node saw in one step of time. */
export interface NodeSample {
  readonly node: string
  /** End of the step, epoch milliseconds. */
  readonly atMs: number
  readonly stepMs: number
  readonly memoryUsedBytes: number
  readonly memoryLimitBytes: number
  readonly inFlight: number
  readonly breakers: readonly BreakerView[]
  /** Of all workspaces together. */
  readonly all: CallsSample
  /** The busiest ones. */
  readonly workspaces: readonly WorkspaceSample[]
}

/** An entry of a route that is not closed. */
export interface BreakerView {
  readonly workspace: string
  readonly route: string
  readonly provider: string
  readonly model: string
  readonly state: 'half_open' | 'open' | 'cooling'
}

export interface WorkspaceSample extends CallsSample {
  readonly workspace: string
}

export interface CallsSample {
  readonly requests: number
  /** Answered with 400 or more. */
  readonly errors: number
  /** Of the requests that were looked at closely; null: of none. */
  readonly addedP50Ms: number | null
  readonly addedP95Ms: number | null
  readonly upstream: readonly UpstreamSample[]
}

/** Attempts at a provider, those of jobs among them. */
export interface UpstreamSample {
  readonly provider: string
  readonly calls: number
  readonly failed: number
  /** Of the last ones of the step. */
  readonly p50Ms: number
  readonly p95Ms: number
}

/** What the nodes saw during the last hour. */
export interface NodeSamples {
  /** Idempotent by node and moment. */
  add(sample: NodeSample, keepMs: number): Promise<void>
  /** Of all nodes, oldest first: steps that ended after this moment. */
  since(atMs: number): Promise<readonly NodeSample[]>
}

/** When API keys were used last, to a few seconds. */
export interface KeyUses {
  /** Key id → epoch milliseconds. An older moment changes nothing. */
  note(uses: Readonly<Record<string, number>>): Promise<void>
  read(keyIds: readonly string[]): Promise<Readonly<Record<string, number>>>
}
