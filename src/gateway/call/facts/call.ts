import type { Entry, Selectors } from '../../../contracts/catalog.ts'
import type { UpstreamProgress } from '../../../contracts/jobs.ts'
import type { Calls, OperationName } from '../../../contracts/operations.ts'
import type { AudioPart, HeardPart } from '../../../contracts/parts.ts'
import type { CachePlace } from '../../../contracts/speech-cache.ts'

/** A call of one operation. */
export interface CallOf<K extends OperationName> {
  readonly operation: K
  readonly payload: Calls[K]
  readonly selectors: Selectors
  /** Lines for `warnings` that came up while the request was read. */
  readonly warnings: readonly string[]
  /** Absent: its body is read each time that it comes. */
  readonly again?: CallAgain
}

/** Results that follow from the payload alone, kept for a call that may be made again and again. */
export interface CallAgain {
  /** The payload that it follows from: a door may make another call of the same body, such as one in another format. */
  readonly payload: object
  /** The kept selection that has no entry which the payload excludes; null: none was asked. */
  accepted: object | null
  /** Where the speech is kept that an entry makes of it; null: it was not looked for. */
  place: EntryPlace | null
  /** The metered quantities, in wire names. */
  usage: Readonly<Record<string, number | null>> | null
}

/** Results noted for a call with this very payload; undefined: none are kept. */
export function againOf({ again, payload }: Call): CallAgain | undefined {
  return again?.payload === payload ? again : undefined
}

/** A place, and the entry whose speech it is. */
export interface EntryPlace extends CachePlace {
  readonly entry: Entry
}

/**
 * A call as a door hands it over once its body is complete. Without a type argument it is the union over all
 * operations, which `operation` tells apart.
 */
export type Call<K extends OperationName = OperationName> = { readonly [Name in K]: CallOf<Name> }[K]

/** The claim of a job that a call is made for. */
export interface JobContext {
  /** Token of the reservation: the customer is charged once for it, however many workers take the job up. */
  readonly id: string
  /** Fencing number of the claim. */
  readonly claim: number
  /** How often the job was tried before and providers failed. */
  readonly retries: number
  /** How long the call may take, in place of the synchronous deadline. */
  readonly deadlineMs: number
  /** State of the upstream work that an earlier claim began; null: there is none. */
  readonly progress: UpstreamProgress | null
  /**
   * Records what the provider is working on. The call continues meanwhile, even when recording fails. Null: there is
   * nothing left to resume.
   */
  note(progress: UpstreamProgress | null): void
  /** Its audio was not known when it was accepted, so that rate limits count it when it is made. */
  readonly isUncounted?: boolean
  /** Keeps what became of the parts of its audio, where it is heard in parts; absent: it is not. */
  readonly parts?: PartStore
  /** Whether the job is tried again after this, so that nothing is charged yet. Absent: it is not. */
  isRetried?(thrown: unknown): boolean
}

/** Keeps for a job what was heard of its audio in parts, so that none is heard, and paid for, twice. */
export interface PartStore {
  /** The parts that an earlier claim has cut; null: none has. */
  cut(): Promise<readonly AudioPart[] | null>
  keepCut(parts: readonly AudioPart[]): Promise<void>
  /** The transcript that an earlier claim has of a part; null: none. */
  heard(index: number): Promise<HeardPart | null>
  /** @returns whether the state knows of it: only then nothing asks for the part's audio any more */
  keepHeard(index: number, heard: HeardPart): Promise<boolean>
  /** As `JobContext.progress` and `JobContext.note`, of one part. */
  upstream(index: number): UpstreamProgress | null
  noteUpstream(index: number, progress: UpstreamProgress | null): void
}

/**
 * Abort reason of a job's signal when another claim resumes the job: this call ends without telling the state, and
 * leaves its reservation to the next claim.
 */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}
