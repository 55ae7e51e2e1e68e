import type { AudioReader } from '../../../contracts/audio.ts'
import type { ByteBudget } from '../../../contracts/budget.ts'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import type { ApiKeys, Snapshot } from '../../../contracts/catalog.ts'
import type { Links } from '../../../contracts/links.ts'
import type { OpenSocket } from '../../../contracts/live.ts'
import type { OperationName, Results } from '../../../contracts/operations.ts'
import type { AudioCutter, AudioTranscoder } from '../../../contracts/parts.ts'
import type { Provider } from '../../../contracts/provider.ts'
import type { UsageKeeper } from '../../../contracts/recorder.ts'
import type { References } from '../../../contracts/shadow.ts'
import type { SlotResults } from '../../../contracts/slot-results.ts'
import type { CacheWatch, SpeechCache } from '../../../contracts/speech-cache.ts'
import type { SpeechEncoders } from '../../../contracts/speech-encoding.ts'
import type { State } from '../../../contracts/state.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { OpenStream, Send } from '../../../contracts/upstream.ts'
import type { CallWatch } from '../../../contracts/watch.ts'
import type { Call, JobContext } from '../facts/call.ts'
import type { TakenUnits } from '../facts/units.ts'
import type { AccountViews, Settlements, UsageBuffer } from '../money/accounts.ts'
import type { MoneyLeases } from '../money/money-leases.ts'
import type { CircuitBreakers, LatencyTracker } from '../select/health.ts'
import type { ReplicaPools } from '../select/replicas.ts'
import type { Candidate } from '../select/selection.ts'
import type { AdmittedContext } from './call-context.ts'
import type { EndUserWatch } from './end-user-watch.ts'
import type { EndUserHash } from './end-users.ts'

/** Everything the gateway works with; built once by `main`. */
export interface Services {
  /** The clock by which every step of a call waits and measures. */
  readonly clock: Clock
  /** The configuration in force; read anew by every call. */
  readonly snapshot: () => Snapshot
  readonly providers: ReadonlyMap<string, Provider>
  readonly keys: ApiKeys
  /** For workspaces that keep no plain ids of their end users. */
  readonly endUserHash: EndUserHash
  readonly state: State
  readonly settlements: Settlements
  readonly moneyLeases: MoneyLeases
  readonly usage: UsageBuffer
  readonly accountViews: AccountViews
  readonly slotResults: SlotResults
  /** Absent: no speech is kept, whatever the routes say. */
  readonly speechCache?: SpeechCache | undefined
  /** For routes that make speech in formats that their providers lack. */
  readonly encoders: SpeechEncoders
  readonly send: Send
  /** As `send`, for an answer that is read as it comes. */
  readonly open: OpenStream
  /** Opens a socket to a provider that transcribes live. */
  readonly openSocket: OpenSocket
  readonly budget: ByteBudget
  /** Reads the audio of a call, for whoever measures it. */
  readonly audio: AudioReader
  /** Cuts audio that no entry takes whole; absent where no call has audio. */
  readonly cutter?: AudioCutter
  /** Makes audio into formats that entries take; absent where no call has audio. */
  readonly transcoder?: AudioTranscoder
  /** Signs URLs of stored audio that providers fetch; absent where no provider could open them. */
  readonly audioLinks?: Links | undefined
  /** Uniform in [0, 1), for weighted routes. */
  readonly random: () => number
  readonly latency: LatencyTracker
  readonly health: CircuitBreakers
  /** The servers of providers that have several. */
  readonly replicas: ReplicaPools
  /** Absent: nothing is counted. */
  readonly watch?: CallWatch
  /** Absent: nothing is counted. */
  readonly cacheWatch?: CacheWatch
  /** Absent: budgets of end users are not watched. */
  readonly endUserWatch?: EndUserWatch
  /** Absent: no record is kept of what calls came to. */
  readonly usageKeeper?: UsageKeeper
  /** Asks the shadows of routes; absent: they have none. */
  readonly shadows?: ShadowAsker
  /** Takes references for what shadows were compared in; absent: nothing is kept for any. */
  readonly references?: References
  /** Given by tests only. */
  readonly timing?: CallTiming | undefined
}

export interface CallTiming {
  /** How long an idempotency slot outlasts the deadline of its call. */
  readonly slotGraceMs?: number
  /** How long a reservation of money does. */
  readonly reservationGraceMs?: number
  /** Longest pause between two looks at an order, whatever its provider asks for. */
  readonly pollMs?: number
  /** Pause before what had no answer is fetched again for the first time; later ones are longer. */
  readonly resendMs?: number
}

/** An answer that a shadow is compared with. */
export interface ShadowedAnswer {
  readonly candidate: Candidate
  readonly result: Results[OperationName]
  readonly costUsd: number | null
  /** From the beginning of the attempt to the end of the answer; null: that says nothing of its entry. */
  readonly milliseconds: number | null
}

/** Asks shadows. */
export interface ShadowAsker {
  /**
   * Takes an answered call up, if it is drawn and can be had. Neither throws nor waits. The body of the call was not
   * given back yet.
   */
  offer(active: ActiveCall, answered: ShadowedAnswer): void
}

/** A call on its way: what its phases share once its entries are selected. */
export interface ActiveCall<K extends OperationName = OperationName> {
  readonly services: Services
  readonly context: AdmittedContext
  readonly call: Call<K>
  /** Aborts the call: that of its context, unless the call continues without its caller. */
  readonly signal: CancelSignal
  /** The job that it is made for; null: a caller waits for it. */
  readonly job: JobContext | null
  /** How long it may take. */
  readonly deadlineMs: number
  /** When its answer has to be whole, on the node's clock. */
  readonly deadlineAtMs: number
  /** Its units, as rate limits have counted them; absent: nothing is limited, or it is not counted yet. */
  readonly units?: TakenUnits
}

/** Milliseconds until the answer of a call has to be whole; 0 or less: it is too late. */
export function leftMsOf({ services, deadlineAtMs }: ActiveCall): number {
  return deadlineAtMs - services.clock.now()
}
