import type { Audio } from './audio.ts'
import type { TranscriptionOptions } from './calls.ts'
import type { Selectors } from './catalog.ts'
import type { ErrorCode } from './errors.ts'
import type { KeptText } from './objects.ts'
import type { OperationName } from './operations.ts'
import type { UnitRates } from './rate-limit.ts'

export const JOB_STATUSES = ['queued', 'processing', 'succeeded', 'failed', 'cancelled'] as const
export type JobStatus = (typeof JOB_STATUSES)[number]

/** In which proportion workers take jobs: 6 : 3 : 1. Transcription jobs are `priority`. */
export const QUEUE_MODES = ['priority', 'standard', 'bulk'] as const
export type QueueMode = (typeof QUEUE_MODES)[number]

/** `transcription`: `tj_…`, whose result is kept and announced. `queue`: `qj_…`, whose output is not read. */
export type JobKind = 'transcription' | 'queue'

/** The work of a job: a call as its endpoint read it, so that a worker never parses a body again. */
export type JobWork =
  | {
      readonly operation: 'transcription' | 'translation'
      readonly options: TranscriptionOptions
      /** At rest in the object store or, at first, in the record; or to be fetched by the worker. */
      readonly audio: Audio | { readonly url: string }
    }
  | {
      readonly operation: Exclude<OperationName, 'transcription' | 'translation'>
      /** JSON of the call's payload. */
      readonly payload: KeptText
    }

/** The part of a job that never changes, unless its owner erases it. */
export interface JobSpec {
  /** As `newJobId` makes them. */
  readonly id: string
  readonly kind: JobKind
  readonly mode: QueueMode
  /** As the caller of the queue wrote it; `transcription` for transcription jobs. */
  readonly endpoint: string
  readonly workspace: string
  readonly app: string
  /** The key that submitted it. It may be revoked meanwhile: accepted jobs run all the same. */
  readonly keyId: string
  /** Cap of that key per calendar month in UTC, micro-USD; null: none. */
  readonly keyBudgetMicros: number | null
  /** Limits of its key on units; absent: none. */
  readonly keyRates?: UnitRates
  /** End user whom it is for, by the id as it is kept; absent: the caller has not said. */
  readonly endUser?: string
  /** Id of the submission; becomes the `id` of the result's envelope. */
  readonly requestId: string
  /** W3C trace context of the submission; null: none. */
  readonly traceparent: string | null
  readonly selectors: Selectors
  /** Lines for `warnings` that came up while the request was read. */
  readonly warnings: readonly string[]
  readonly work: JobWork
  /**
   * Id of the one webhook event that there will be, `cbk_…` where it goes to the callback; null for jobs of the queue,
   * which send none.
   */
  readonly eventId: string | null
  /** Absent: the job came by the gateway's own endpoints. */
  readonly door?: JobDoor
  /** Where its end is told instead of at the webhook of its workspace; absent: there. */
  readonly callback?: JobCallback
}

/** Where and how the end of a job is told in the format of its door. */
export interface JobCallback {
  /** Name of the door, which has the form of it. */
  readonly vendor: string
  /** `CallbackTerms` as JSON, sealed: an address may be a secret, a header is one. */
  readonly sealed: string
}

/** Facts of a job that a door in a vendor's wire format repeats. */
export interface JobDoor {
  /** Where the audio was said to be. */
  readonly audioUrl: string
  /** The models that were asked for; the route decides. */
  readonly models: readonly string[]
}

/** Error of a failed job, as of `GatewayError`. */
export interface JobError {
  readonly code: ErrorCode
  readonly message: string
  readonly param: string | null
  readonly details: Readonly<Record<string, unknown>>
}

/** How the job was routed, as far as that became known. In wire names. */
export interface JobFacts {
  readonly policy_version_id: string | null
  readonly lk_applied_purpose: string | null
  readonly lk_purpose_source: string | null
  /** Channels of the audio, for jobs whose callback tells them; null: unknown. */
  readonly audio_channels?: number | null
}

/** One line of a job's history, written by the very step that made the change. */
export interface JobChange {
  readonly atMs: number
  readonly status: JobStatus
  /** Fence of the claim that was in force. */
  readonly fence: number
}

/** A job as it stands. Moments are epoch milliseconds on the clock of the state. */
export interface Job extends JobSpec {
  readonly status: JobStatus
  readonly createdAtMs: number
  /** When it was first taken up. */
  readonly startedAtMs: number | null
  /** When it reached its last state. */
  readonly endedAtMs: number | null
  /** From this moment on it cannot be seen, whether or not it is purged yet; null until it has ended. */
  readonly expiresAtMs: number | null
  readonly cancelRequested: boolean
  /** Its owner has deleted what was sent and heard: the record alone is left, or will be once the job has ended. */
  readonly erased: boolean
  /** How often it was taken up: the fencing number of the newest claim; 0 before the first. */
  readonly fence: number
  /** Claims in a row that ended by their lease alone. */
  readonly stalled: number
  /** How often it was put back because a provider failed. */
  readonly retries: number
  /** How often it was put back because a store of ours, or this node, could not go on. */
  readonly returns: number
  readonly result: KeptText | null
  readonly error: JobError | null
  readonly facts: JobFacts | null
  /** Oldest first. */
  readonly history: readonly JobChange[]
  /** How many parts its audio is heard in, and how many are done, while it has not ended; absent: it is heard whole. */
  readonly parts?: PartCount
}

export interface PartCount {
  readonly done: number
  readonly total: number
}

/** Longest audio that the record of a job may have, bytes: a small object costs a third of all that a job does. */
export const INPUT_BYTES_MAX = 64 * 1024

export interface JobSubmission {
  readonly spec: JobSpec
  /**
   * The audio, at most `INPUT_BYTES_MAX`; the object that `spec` names does not have it yet. Only where the state has
   * `JobInputs`.
   */
  readonly input?: Uint8Array | undefined
  /** The caller's idempotency key; null without one. */
  readonly slot: {
    /** Lower-case hex. */
    readonly id: string
    /** Digest of the payload, lower-case hex. */
    readonly fingerprint: string
    /** Shortest time that it is remembered; it lives at least as long as the job's record. */
    readonly keepMs: number
  } | null
}

export type Submitted =
  /** `replayed`: the key was used for this payload before; `job` is that one, null when its time is over. */
  | { readonly state: 'accepted'; readonly replayed: boolean; readonly job: Job | null; readonly id: string }
  /** The key was used for another payload. */
  | { readonly state: 'reused' }

/** Owner that a job must have for an answer other than null. */
export interface JobOwner {
  readonly workspace: string
  readonly app: string
}

/** Which transcription jobs of an app to list. Ids are time-ordered. */
export interface JobPageFilter {
  readonly owner: JobOwner
  /** Null: of any. */
  readonly statuses: readonly JobStatus[] | null
  /** Only jobs whose id is greater; it need not be one of a job. */
  readonly after: string | null
  /** Only jobs whose id is smaller. */
  readonly before: string | null
  /** Where the page begins: behind `before`, or behind `after`. */
  readonly from: 'newest' | 'oldest'
  readonly limit: number
}

/** A job as lists have it. */
export type ListedJob = Pick<Job, 'id' | 'status' | 'endedAtMs' | 'error' | 'erased' | 'work' | 'door'>

export interface JobPage {
  /** In the order in which they were looked for. */
  readonly jobs: readonly ListedJob[]
  /** The last id that was looked at, after which the next page begins; null: the list ends here. */
  readonly next: string | null
}

/** Options of a claim, with those for jobs whose workers have died too often. */
export interface Claiming {
  /** Most jobs to take. */
  readonly limit: number
  /** The part of the state to look at, as a hint named it; absent: all of it. */
  readonly part?: number
  /** Most jobs of one workspace that run at a time, over all workers. */
  readonly perWorkspace: number
  readonly leaseMs: number
  /** Claims that may end by their lease alone; the job whose last one did fails with `poison`. */
  readonly stalledMax: number
  readonly poison: JobError
  readonly keep: Retention
}

/** How long jobs are kept after their end. */
export interface Retention {
  readonly transcriptionMs: number
  /** Retention of queue jobs that succeeded or were cancelled. */
  readonly queueMs: number
  /** Retention of queue jobs that failed: the dead list. */
  readonly deadMs: number
}

/** Progress that a worker leaves for the one that takes over. Plain JSON. */
export interface JobProgress {
  /** Audio that was fetched and is kept for the job. */
  readonly audio: Audio | null
  /** A job at a provider, which is paid for: it is looked after, not made again. */
  readonly upstream: UpstreamProgress | null
  /** Charge of earlier runs of the job, micro-USD; absent: nothing. */
  readonly chargedMicros?: number
  /** Absent: its audio is heard whole, or was not cut yet. */
  readonly parts?: PartedProgress
}

/** Progress of audio that is heard in parts. All texts are objects. */
export interface PartedProgress {
  readonly total: number
  /** JSON of the parts. */
  readonly cut: KeptText
  /** JSON of what was heard, by the index of the part. */
  readonly heard: Readonly<Record<string, KeptText>>
  /** Work at providers, by the index of the part. */
  readonly upstream: Readonly<Record<string, UpstreamProgress>>
}

/** Counts the parts of a job; an empty object: it is heard whole. */
export function partCount(progress: JobProgress | null): { readonly parts?: PartCount } {
  const parts = progress?.parts
  return parts === undefined ? {} : { parts: { done: Object.keys(parts.heard).length, total: parts.total } }
}

export interface UpstreamProgress {
  /** Which entry of which route: see `entryKey`. */
  readonly entry: string
  /** At which of its servers: see `replicaKey`. Absent: written before there were several. */
  readonly replica?: string
  /** As the provider's operation wrote it. */
  readonly state: unknown
}

export interface Claimed {
  readonly job: Job
  readonly progress: JobProgress
  /** Its audio; absent: it is in the object that the job names. */
  readonly input?: Uint8Array | undefined
}

export interface Renewed {
  /** False: another worker has the job, or it has ended. It was not changed. */
  readonly held: boolean
  readonly cancelRequested: boolean
}

/** How a claim ends. */
export type JobEnding =
  | { readonly state: 'succeeded'; readonly result: KeptText | null; readonly facts: JobFacts }
  | { readonly state: 'failed'; readonly error: JobError; readonly facts: JobFacts }
  | { readonly state: 'cancelled'; readonly facts: JobFacts | null }
  /**
   * Back to the queue after `delayMs`. `counts`: which number of the job grows. `nothing` is a graceful return: it
   * waits at the front.
   */
  | { readonly state: 'queued'; readonly delayMs: number; readonly counts: 'retry' | 'return' | 'nothing' }

/** A job that no worker has ended, and what its runs were charged by then, micro-USD. */
export interface AbandonedJob {
  readonly job: Job
  readonly chargedMicros: number
}

/** Which jobs to list. */
export interface JobFilter {
  readonly workspace: string | null
  readonly kind: JobKind | null
  readonly status: JobStatus | null
  readonly limit: number
}

/** The part of a job's record that refers to its objects. */
export interface KnownJob {
  readonly status: JobStatus
  readonly kind: JobKind
  readonly fence: number
  readonly result: KeptText | null
  /** Work of a failed job of the queue, which may be retried; null for any other. */
  readonly work: JobWork | null
}

/**
 * Durable jobs. Every method is one atomic step for each job, takes its time from the clock of the state, answers
 * within 2 s, and throws GatewayError DEPENDENCY_UNAVAILABLE when the state does not answer; it may have been done all
 * the same. Sent again with the same ids it changes nothing more. What it answered survives a crash.
 *
 * queued → processing → succeeded | failed | cancelled; queued → cancelled. The last three never change again, and the
 * step that reaches one of them writes the webhook event (`Outbox`), the history and the moment of the purge with it.
 */
export interface Jobs {
  submit(submission: JobSubmission): Promise<Submitted>
  /** Null: unknown, past its `expiresAtMs`, or no id of a job. */
  get(id: string): Promise<Job | null>
  /**
   * Cancels a job that is queued, asks for it when it is processing, and changes nothing when it has ended.
   *
   * @returns the job after that; null when there is none, or it is not the owner's
   */
  cancel(id: string, owner: JobOwner, keep: Retention): Promise<Job | null>
  /**
   * Deletes what was sent and heard of a transcription job: from the record at once where the job is queued, which
   * cancels it, or has ended; with its end where it is processing, which asks for its cancellation. Objects are left to
   * the caller, and to the sweep.
   *
   * @param spec takes the place of the job's own; id, workspace and app are those of the job
   * @returns the job after that; null when there is none, or it is not the owner's
   */
  erase(spec: JobSpec, keep: Retention): Promise<Job | null>
  /** A page of an app's transcription jobs. It costs the same however many there are, so that it may be short. */
  page(filter: JobPageFilter): Promise<JobPage>
  /**
   * Takes jobs up: those whose lease is over are put back first (or failed, or cancelled), and those whose delay is
   * over made ready. Modes are served 6 : 3 : 1, workspaces within a mode in turn, jobs of a workspace in order.
   */
  claim(claiming: Claiming): Promise<readonly Claimed[]>
  /** Keeps a claim, and keeps `progress` with it unless that is null. */
  renew(id: string, fence: number, leaseMs: number, progress: JobProgress | null): Promise<Renewed>
  /**
   * Ends a claim. A job whose cancellation was requested is cancelled instead of succeeded or queued, in the same step:
   * a worker need not look for that before.
   *
   * @returns the job after that; null when the claim was not in force any more, and nothing changed
   */
  end(id: string, fence: number, ending: JobEnding, keep: Retention): Promise<Job | null>
  /**
   * Marks jobs whose time is over, so that they cannot be seen from now on. One that is not forgotten within some
   * minutes is handed out again.
   */
  takeExpired(limit: number): Promise<readonly Job[]>
  /** Deletes the record of a marked job. */
  forget(id: string): Promise<void>
  /**
   * Jobs that ended without a worker: cancelled while they waited, or given up since their workers died. One that was
   * not told to be `recorded` within a minute is handed out again, until its record is deleted or it is retried.
   */
  takeAbandoned(limit: number): Promise<readonly AbandonedJob[]>
  /** The usage of an abandoned job is recorded. */
  recorded(id: string): Promise<void>
  /** The ids among them that have a record, marked ones too. */
  known(ids: readonly string[]): Promise<ReadonlyMap<string, KnownJob>>
  /** Newest first. For operators: looks through records, not through an index. */
  list(filter: JobFilter): Promise<readonly Job[]>
  /** For operators: a failed job of the queue is queued again, its counts at zero. @returns whether it was one */
  retry(id: string): Promise<boolean>
  /** Jobs that wait to be taken up, delayed ones too. */
  waiting(): Promise<number>
  /** For monitoring: costs the same however many jobs there are. */
  figures(): Promise<JobFigures>
}

/** Audio in the records of jobs until they end. If the state has no room, audio of jobs that wait moves to objects. */
export interface JobInputs {
  /** True while the state may take more. */
  hasRoom(): Promise<boolean>
  /**
   * Takes audio of jobs that wait, if it was put into the record `ageMs` ago or earlier. It is handed out again unless
   * it is `moved` within a minute.
   */
  take(limit: number, ageMs: number): Promise<readonly WaitingInput[]>
  /** The object is there: the record lets go of the audio. @returns false: the object is not needed */
  moved(id: string): Promise<boolean>
}

export interface WaitingInput {
  readonly job: Job
  readonly input: Uint8Array
}

/** Counts of waiting and ended jobs on all nodes together. */
export interface JobFigures {
  /** Only of kinds and modes that any job waits in. */
  readonly waiting: readonly WaitingJobs[]
  /** Only of ends that ever came about. */
  readonly ended: readonly EndedJobs[]
}

export interface WaitingJobs {
  readonly kind: JobKind
  readonly mode: QueueMode
  /** They may be taken up. */
  readonly ready: number
  /** They are tried again later. */
  readonly delayed: number
  /** For how long the first of the ready ones has been ready; 0: there is none. */
  readonly oldestMs: number
}

export interface EndedJobs {
  readonly kind: JobKind
  readonly status: JobStatus
  /** How often a job came to that end, since the state was made. */
  readonly jobs: number
}
