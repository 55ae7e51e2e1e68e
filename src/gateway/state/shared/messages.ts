import type { ChildProcess } from 'node:child_process'
import type { SessionEnds } from '../../../contracts/console.ts'
import type { ErrorCode } from '../../../contracts/errors.ts'
import type { PermitLimit } from '../../../contracts/permits.ts'
import type { RateLimit, Take, UnitBucket, UnitDecision } from '../../../contracts/rate-limit.ts'
import type { Blocked } from '../../../contracts/state.ts'
import type { UsageMarks } from '../../../contracts/usage-lake.ts'
import type { Call } from '../embedded/commit.ts'
import type { SubjectName } from '../embedded/subjects.ts'
import type { BucketReply } from '../leasing-rate-limiter.ts'

/*
 * The processes of one machine and the one that started them, which has their state: each sends it what it asks, all
 * of a turn of its event loop at once, and is sent the answers. The channel is the one that Node gives a child, so that
 * either end learns at once that the other has died.
 */

/** Parts of the state that are not in the file: they are in the memory of the process that has it. */
export interface MemorySubjects {
  limits: {
    /** @param wanted tokens on top */
    take(take: Take, wanted: number): Promise<BucketReply>
    giveBack(keyId: string, limit: RateLimit, tokens: number): Promise<void>
  }
  units: { take(buckets: readonly UnitBucket[], units: number, isDue: boolean): Promise<UnitDecision> }
  permits: {
    /**
     * @param ticket names what is taken from then on
     * @returns the first name that has none left; null: all were taken
     */
    take(ticket: number, limits: readonly PermitLimit[]): Promise<string | null>
  }
  sessionEnds: SessionEnds
  usageMarks: UsageMarks
}

export const MEMORY_METHODS: {
  readonly [Name in keyof MemorySubjects]: Readonly<Record<keyof MemorySubjects[Name], true>>
} = {
  limits: { take: true, giveBack: true },
  units: { take: true },
  permits: { take: true },
  sessionEnds: { order: true, pending: true, withdraw: true },
  usageMarks: { note: true, forget: true, read: true },
}

export interface SharedCall extends Omit<Call, 'subject'> {
  readonly subject: SubjectName | keyof MemorySubjects
}

/** Not answered: the ticket is told once it is served. */
export interface PermitWait {
  readonly wait: number
  readonly limit: PermitLimit
  readonly workspace: string
}

/** Gives back what a ticket holds, or leaves the queue. */
export interface PermitEnd {
  readonly release: number
}

/** From a process, in the order in which it asked. */
export type ClientMessage = readonly (SharedCall | PermitWait | PermitEnd)[]

export type SharedAnswer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly code: ErrorCode; readonly reason: string }

/** To a process. */
export interface ServerMessage {
  readonly answers: readonly SharedAnswer[]
  /** Tickets that wait no longer. */
  readonly served: readonly number[]
  /** Ids of jobs that another process has ended or asked to be cancelled; null: it has changed keys or the catalog. */
  readonly changed: readonly (string | null)[]
  readonly blocked: Blocked | null
}

/** One end of the channel. */
export interface Channel<Sent, Received> {
  /** Sends nothing any more once it is closed. */
  send(message: Sent): void
  /** @param onClosed the process at the other end has died, or has closed it */
  listen(onMessage: (message: Received) => void, onClosed: () => void): void
}

export type ClientChannel = Channel<ClientMessage, ServerMessage>
export type ServerChannel = Channel<ServerMessage, ClientMessage>

/** The channel to a process that was started with one. Other messages of it are left alone. */
export function channelTo<Sent, Received>(other: ChildProcess | NodeJS.Process): Channel<Sent, Received> {
  return {
    // With a callback a channel that has just been closed is no error.
    send: (state) => void other.send?.({ state }, undefined, undefined, () => {}),
    listen(onMessage, onClosed) {
      other.on('message', (message: unknown) => {
        const { state } = Object(message) as { readonly state?: Received }
        if (state !== undefined) onMessage(state)
      })
      other.once('disconnect', onClosed)
    },
  }
}
