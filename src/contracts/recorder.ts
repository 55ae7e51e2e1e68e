import type { Principal } from './catalog.ts'
import type { GatewayError } from './errors.ts'
import type { Job } from './jobs.ts'
import type { HeldMoney, UsageBatch } from './ledger.ts'
import type { SessionFacts } from './live.ts'
import type { OperationName } from './operations.ts'
import type { RecordedCall } from './sample.ts'
import type { Failure } from './upstream.ts'

/** One attempt at an entry, for the log, the recorder and `details.attempts`. */
export interface AttemptRecord {
  readonly provider: string
  readonly model: string
  /** Where the entry handles content, as far as that is declared. */
  readonly region?: string | undefined
  /** Which of the provider's replicas, by its place in `base_urls`; null: it has one address. */
  readonly replica: number | null
  readonly status: number | null
  readonly milliseconds: number
  /** `ok`, or why it failed, in our words. */
  readonly reason: string
  readonly failure: Failure | null
}

/** Measured consumption and its price. */
interface Consumption {
  readonly usage: Readonly<Record<string, number | null>> | null
  readonly costUsd: number | null
}

/** Where a call went. */
export interface EndedRouting {
  /** Name of the route of `policyVersionId`; null where only the version is known. */
  readonly route: string | null
  readonly policyVersionId: string | null
  /** Null: no route was chosen. */
  readonly purpose: {
    readonly requested: string | null
    readonly otherwise: string
    readonly source: string | null
  } | null
  /** The entry tried last is the purpose's own. */
  readonly forPurpose: boolean
  readonly attempts: readonly AttemptRecord[]
  /** Outcome of an attempt that was begun while its audio came; null: none was. */
  readonly cutThrough: 'used' | 'dropped' | null
}

/** The consumption of a call, and the end of its reservations. */
export interface EndedMoney extends Consumption {
  /** Where nothing was measured: estimated for an attempt without a known end; null: there is none. */
  readonly estimated: Consumption | null
  /** Sum of its settled reservations so far, micro-USD. */
  readonly chargedMicros: number
  /** Cost so far of the part that is not settled, as it would be charged if this node died now. */
  readonly accruedMicros: number
  /** True: none is still to be settled. */
  readonly isSettled: boolean
  /** @param listener called when the last of them is settled, as often as that happens */
  onSettled(listener: (() => void) | null): void
}

/** Facts of a call that has ended, as the log line, the span and the record of its request tell them. */
export interface EndedCall {
  /** Null: the caller was not authenticated. */
  readonly principal: Principal | null
  /** Id of whom the call was for, as far as it may be kept. Not for logs, spans and metrics. */
  readonly keptEndUser: string | null
  readonly routing: EndedRouting
  readonly money: EndedMoney
  readonly answer: {
    /** `hit`: the answer is speech that was made for another call; null: its route keeps none. */
    readonly cache: 'hit' | 'miss' | null
    /** The answer was given before. */
    readonly replayed: boolean
  }
  /** Milliseconds spent waiting for others than this node and its stores. */
  readonly upstreamWaitMs: number
  /** Null: it ended before one was known. */
  readonly operation: OperationName | null
  /** Job that the request is about; null: none. */
  readonly jobId: string | null
  /** Outcome of a live session; null: it is none. */
  readonly live: SessionFacts | null
  /** Id of that session. */
  readonly sessionId: string | null
  /** That of its spans, or of its caller; null: it has neither. */
  readonly traceId: string | null
  /** Facts that selection looked at; null: it did not come to that. */
  recordedCall(): RecordedCall | null
  readonly failure: GatewayError | null
}

/** Facts of an HTTP exchange that a recorder reads. */
export interface EndedExchange {
  readonly requestId: string
  readonly method: string
  /** Path as the table of endpoints has it; null: none matched. */
  readonly pattern: string | null
  /** Null until the answer is on its way. */
  readonly status: number | null
  readonly elapsedMs: number
  /** When the first byte of a streamed answer was on its way; null before, and for a whole one. */
  readonly firstByteMs: number | null
  /** Milliseconds of them in which the body arrived. */
  readonly bodyMs: number
  readonly receivedBytes: number
  readonly sentBytes: number
}

/** Note that a recorder makes when an answer is there, and is handed back when it is out. */
export type RecorderNote = object | null

/** Listens to every request with a key and every run of a job. None of its methods throws. */
export interface Recorder {
  /** The answer is there and not on its way yet. @returns what `ended` is handed */
  answered(exchange: EndedExchange, call: OpenCall, status: number): RecorderNote
  /** The answer is out, or the client has left. */
  ended(exchange: EndedExchange, call: OpenCall, note: RecorderNote): void
  /** The call has ended, after its client left. */
  wentOn(exchange: EndedExchange, call: EndedCall): void
  /** A run of a job is over. */
  ran(job: RecordedJob, call: OpenCall, run: EndedRun): void
}

export type RecordedJob = Pick<
  Job,
  'id' | 'requestId' | 'workspace' | 'app' | 'keyId' | 'endpoint' | 'createdAtMs'
>

/** A run of a job that is over. */
export interface EndedRun {
  readonly milliseconds: number
  /** Status of the job after it; `lost`: another worker has it, `unknown`: the state could not be told. */
  readonly became: Job['status'] | 'lost' | 'unknown'
  /** Charge of all runs of the job together, micro-USD. */
  readonly chargedMicros: number
}

/** One that comes to its end now. */
export type EndingRun = Omit<EndedRun, 'milliseconds'>

/** A call that is not over. */
export type OpenCall = EndedCall & {
  /** Null: it is of a job, or a part of another. */
  readonly exchange: EndedExchange | null
  readonly money: EndedMoney & {
    /** The keeper's own: its place among the calls that were charged and are not over; below 0: it is none of them. */
    chargedAt: number
    /** The keeper's own: where its record is; null: it has none. */
    usagePlace: object | null
  }
}

/** Tells what it holds of the money in the state. */
export interface MoneySource {
  /** @param isAll everything that is held; else what has changed since it was asked last */
  entries(isAll: boolean): HeldEntry[]
}

/** Money held under one key; empty: none any more. A lease may have two reservations, the older one first. */
export interface HeldEntry {
  readonly key: string
  readonly money?: readonly HeldMoney[]
  readonly usage?: readonly UsageBatch[]
  readonly session?: { readonly id: string; readonly micros: number }
}

/** Keeps records of calls safe before their money is settled in the state. None of its methods throws. */
export interface UsageKeeper {
  /**
   * A call was charged.
   *
   * @param settling what the state is told now; null: it is told some time after `beforeReport`, or by a job
   * @param isSettling the state is told now
   */
  charged(call: OpenCall, isSettling: boolean, settling: HeldMoney | null): void
  /** Money that the state is to settle so if this process dies, until it was released. */
  holds(money: HeldMoney): void
  /** The state has settled money of this token. */
  released(token: string): void
  /** Keeps what the source holds of the money in the state, from now on with each report. */
  keepMoney(source: MoneySource): void
  /** The state is told now what calls came to that were charged before. */
  beforeReport(): void
  /** The state is told now that a job has ended: from then on it is not run again. `ran` follows. */
  ending(job: RecordedJob, call: OpenCall, run: EndingRun): void
  /**
   * A live session has begun, which lasts longer than others.
   *
   * @param facts what it knows of itself so far
   */
  opened(call: OpenCall, facts: () => SessionFacts): void
}
