import type { Alerts } from '../../../contracts/alerts.ts'
import type { CatalogStore } from '../../../contracts/catalog-store.ts'
import type { ConsoleSessions, KeyUses, NodeSample, RequestFilter } from '../../../contracts/console.ts'
import type {
  Claimed,
  Claiming,
  JobEnding,
  JobInputs,
  JobSubmission,
  Jobs,
  Retention,
  Submitted,
} from '../../../contracts/jobs.ts'
import type { Accounts, CallLedger } from '../../../contracts/ledger.ts'
import type { Outbox } from '../../../contracts/outbox.ts'
import type { WorkspaceSettings } from '../../../contracts/settings.ts'
import type { Blocked } from '../../../contracts/state.ts'
import type { StoredKeys } from '../../../contracts/stored-keys.ts'
import type { Ended, Made } from '../new-job.ts'

/**
 * The parts of the state that live in the SQLite file, as the main thread calls them: mostly the contracts themselves.
 * JSON of the console crosses the threads as text, so that the thread that calls wait for never has to read it.
 */
export interface Subjects {
  ledger: CallLedger
  accounts: Accounts
  keys: StoredKeys
  settings: WorkspaceSettings
  jobs: Omit<Jobs, 'submit' | 'end' | 'claim' | 'listen'> & {
    submit(submission: JobSubmission): Promise<Submitted | Made>
    end(id: string, fence: number, ending: JobEnding, keep: Retention): Promise<Ended>
    /**
     * @param token identifies the claim: while it holds anything, a claim with the same token takes nothing new and
     *              gets that again, because its answer was lost
     */
    claim(claiming: Claiming, token?: string | null): Promise<readonly Claimed[]>
  }
  jobInputs: JobInputs
  outbox: Outbox
  alerts: Alerts
  catalog: CatalogStore
  sessions: ConsoleSessions
  requests: {
    /** @param records JSON of a list of `RequestRecord`, all of them of these workspaces */
    add(token: string, workspaces: readonly string[], records: string): Promise<void>
    /** @returns JSON of each `RequestRecord` */
    list(filter: RequestFilter): Promise<string[]>
    get(workspace: string, recordId: string): Promise<string | null>
  }
  samples: {
    /** @param sample JSON of the `NodeSample` */
    add(key: Pick<NodeSample, 'node' | 'atMs'>, keepMs: number, sample: string): Promise<void>
    /** @returns JSON of each `NodeSample` */
    since(atMs: number): Promise<string[]>
  }
  keyUses: KeyUses
  health: {
    /** Reads, and looks for room on the disk. @throws as a call that finds the disk full */
    ping(): Promise<boolean>
    /** Writes, where more room is found than `ping` looks for. */
    write(): Promise<boolean>
  }
}

export type SubjectName = keyof Subjects

/** A subject without its promises: as the state thread runs it, each method within a transaction of its caller. */
export type Operations<Subject> = {
  [Name in keyof Subject]: Subject[Name] extends (...args: infer Args) => Promise<infer Answer>
    ? (...args: Args) => Answer
    : never
}

/** A method that only reads need not wait until another process has written. */
type Access = 'read' | 'write'

/** Every method that crosses the threads. */
export const METHODS: { readonly [Name in SubjectName]: Readonly<Record<keyof Subjects[Name], Access>> } = {
  ledger: {
    begin: 'write',
    settle: 'write',
    cancel: 'write',
    lease: 'write',
    recover: 'write',
    look: 'read',
  },
  accounts: {
    show: 'write',
    addCredits: 'write',
    addUsage: 'write',
    endUsersSpent: 'read',
    lost: 'write',
    recorded: 'write',
  },
  keys: {
    create: 'write',
    replace: 'write',
    revoke: 'write',
    forget: 'write',
    list: 'read',
    page: 'read',
    changes: 'read',
    version: 'read',
  },
  settings: {
    audioUrlDomains: 'read',
    putAudioUrlDomains: 'write',
    webhook: 'read',
    putWebhook: 'write',
    resealWebhook: 'write',
    removeWebhook: 'write',
    contentShown: 'read',
    putContentShown: 'write',
    forget: 'write',
  },
  jobs: {
    submit: 'write',
    get: 'read',
    cancel: 'write',
    erase: 'write',
    page: 'read',
    claim: 'write',
    renew: 'write',
    end: 'write',
    takeExpired: 'write',
    forget: 'write',
    takeAbandoned: 'write',
    recorded: 'write',
    known: 'read',
    list: 'read',
    retry: 'write',
    waiting: 'read',
    figures: 'read',
  },
  jobInputs: { hasRoom: 'read', take: 'write', moved: 'write' },
  outbox: { claim: 'write', end: 'write', list: 'read', redeliver: 'write', givenUp: 'read' },
  alerts: { open: 'read', begin: 'write', update: 'write', end: 'write' },
  catalog: {
    version: 'read',
    published: 'read',
    get: 'read',
    list: 'read',
    versions: 'read',
    versionOf: 'read',
    change: 'write',
    note: 'write',
    audit: 'read',
    models: 'read',
    putModels: 'write',
  },
  sessions: {
    begin: 'write',
    find: 'read',
    touch: 'write',
    end: 'write',
    list: 'read',
    claim: 'write',
    isClaimed: 'read',
  },
  requests: { add: 'write', list: 'read', get: 'read' },
  samples: { add: 'write', since: 'read' },
  keyUses: { note: 'write', read: 'read' },
  health: { ping: 'read', write: 'write' },
}

export interface Runner {
  /**
   * Runs a method of a subject. Its effects are on the disk when it answers.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE
   */
  call(subject: SubjectName, method: string, args: readonly unknown[]): Promise<unknown>
  /** Why nothing can be written, as the last call found it. */
  blocked(): Blocked | null
  close(): Promise<void>
}

/** The subjects whose methods `runner` runs. Made once, so that a call costs no more than its message. */
export function subjectsOf(runner: Runner): Subjects {
  return remotesOf<Subjects>(METHODS, (subject, method, args) => runner.call(subject, method, args))
}

/** Subjects whose methods `call` runs elsewhere. @param methods the names of all of each */
export function remotesOf<Remote>(
  methods: { readonly [Name in keyof Remote]: Readonly<Record<keyof Remote[Name], unknown>> },
  call: (subject: keyof Remote, method: string, args: readonly unknown[]) => Promise<unknown>,
): Remote {
  const names = Object.keys(methods) as (keyof Remote)[]
  const remote = (subject: keyof Remote) =>
    Object.fromEntries(
      Object.keys(methods[subject]).map((method) => [
        method,
        (...args: unknown[]) => call(subject, method, args),
      ]),
    )
  return Object.fromEntries(names.map((name) => [name, remote(name)])) as unknown as Remote
}
