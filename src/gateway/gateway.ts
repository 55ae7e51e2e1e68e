import type { ByteBudget } from '../schema/budget.ts'
import type {
  Capability,
  SpeechCall,
  SpeechResult,
  TranscriptionCall,
  TranscriptionResult,
} from '../schema/calls.ts'
import type { Principal, Snapshot } from '../schema/catalog.ts'
import type { Operation, Provider } from '../schema/provider.ts'
import type { State } from '../schema/state.ts'
import type { Failure, Send } from '../schema/upstream.ts'
import type { LatencyBook } from './latency.ts'

/** What the gateway works with; built once by `main`. */
export interface Services {
  /** The configuration in force; asked anew by every call. */
  readonly snapshot: () => Snapshot
  readonly providers: ReadonlyMap<string, Provider>
  readonly state: State
  readonly send: Send
  readonly budget: ByteBudget
  /** Uniform in [0, 1), for weighted routes. */
  readonly random: () => number
  readonly latency: LatencyBook
}

export interface Calls {
  readonly transcription: TranscriptionCall
  readonly translation: TranscriptionCall
  readonly speech: SpeechCall
}

export interface Results {
  readonly transcription: TranscriptionResult
  readonly translation: TranscriptionResult
  readonly speech: SpeechResult
}

export type OperationName = keyof Calls

/** What each operation needs of a model. */
export const CAPABILITY_OF: Readonly<Record<OperationName, Capability>> = {
  transcription: 'audio_input',
  translation: 'audio_input',
  speech: 'audio_output',
}

/** A provider's operation by name; undefined where the provider lacks it. */
export function operationOf<K extends OperationName>(
  provider: Provider | undefined,
  name: K,
): Operation<Calls[K], Results[K]> | undefined {
  return provider?.[name] as Operation<Calls[K], Results[K]> | undefined
}

/** How a call chooses among the entries of its route. */
export interface Selectors {
  /** Label in the body or the header; null when none was sent. */
  readonly purpose: { readonly label: string; readonly source: 'body' | 'header' } | null
  readonly responseProfile: 'fast' | 'balanced' | 'thinking' | null
}

/** A call as a door hands it over, once its body is complete. */
export interface Call<K extends OperationName> {
  readonly payload: Calls[K]
  readonly selectors: Selectors
  /** Lines for `warnings` that came up while the request was read. */
  readonly warnings: readonly string[]
}

/** What a door gives the gateway: who asks, and how to read the call once the caller is admitted. */
export interface CallRequest<K extends OperationName> {
  readonly id: string
  readonly operation: K
  readonly authorization: string | undefined
  /** W3C trace context, passed on to the provider; undefined when the caller sent none of that form. */
  readonly traceparent: string | undefined
  readonly signal: AbortSignal
  readonly trail: Trail
  read(principal: Principal, snapshot: Snapshot): Promise<Call<K>>
}

/** One attempt, for the log and for `details.attempts`. */
export interface AttemptRecord {
  readonly provider: string
  readonly model: string
  readonly status: number | null
  readonly milliseconds: number
  /** `ok`, or why it failed, in our words. */
  readonly reason: string
  readonly failure: Failure | null
}

/**
 * What becomes known of a call on its way, kept even when it fails: the headers that every answer carries from then on
 * and the facts of the log line.
 */
export interface Trail {
  readonly headers: Record<string, string>
  principal: Principal | null
  policyVersionId: string | null
  attempts: AttemptRecord[]
  usage: Readonly<Record<string, number | null>> | null
  costUsd: number | null
}

export function newTrail(): Trail {
  return { headers: {}, principal: null, policyVersionId: null, attempts: [], usage: null, costUsd: null }
}
