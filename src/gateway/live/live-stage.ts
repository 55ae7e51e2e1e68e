import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { LiveWatch } from '../../contracts/watch.ts'
import { type Attempt, type AttemptSuccess, type FailoverRules, failOver } from '../call/attempt/failover.ts'
import { sessionPermit } from '../call/attempt/provider-permits.ts'
import type { ActiveCall } from '../call/context/services.ts'
import type { Selection } from '../call/select/selection.ts'
import { type ConnectionListener, LiveConnection } from './connection.ts'
import type { LiveDependencies, LiveRequest } from './dependencies.ts'
import { type SessionMoney, sliceOf } from './money.ts'

/** How long all entries together may take to connect. */
const CONNECT_MS = 15_000
/** How long a rotation waits for the end of an utterance. */
const ROTATION_MS = 20_000
const OF_A_SESSION: FailoverRules = { permitOf: sessionPermit, triesOpen: true }

type Connected = AttemptSuccess<LiveConnection>

/** A connection that takes the audio, the time that it is open, and when it is to be changed for another. */
export class LiveStage {
  readonly name = 'live'
  readonly connection: LiveConnection
  readonly #attempt: Connected['recorder']
  /** Up to when its open time is counted. */
  #countedMs: number
  /** When it is changed at the latest; null: it is not to be changed. */
  #rotateByMs: number | null = null

  constructor({ got, recorder }: Connected, nowMs: number) {
    this.connection = got
    this.#attempt = recorder
    this.#countedMs = nowMs
  }

  /** It is to be changed for another at the end of an utterance. */
  get isRotating(): boolean {
    return this.#rotateByMs !== null
  }

  rotateSoon(nowMs: number): void {
    this.#rotateByMs ??= nowMs + ROTATION_MS
  }

  /** No end of an utterance came: it is changed all the same. */
  mustRotate(nowMs: number): boolean {
    if (this.connection.isAged(nowMs)) this.rotateSoon(nowMs)
    return this.#rotateByMs !== null && nowMs >= this.#rotateByMs
  }

  /** A provider that bills the open connection is paid by the clock. */
  countTime(nowMs: number, money: SessionMoney, watch: LiveWatch | undefined): void {
    const { bills, candidate } = this.connection
    const passed = (nowMs - this.#countedMs) / 1000
    this.#countedMs = nowMs
    watch?.open(candidate.entry, passed)
    if (bills === 'session') money.spend(passed)
  }

  failed(failure: NonNullable<LiveConnection['fault']>): void {
    this.#attempt.failed(failure, true)
  }

  /** Leaves the connection. @param why its work was not finished; null: it has done it, if perhaps badly */
  close(why: string | null): void {
    const { fault } = this.connection
    if (why !== null) this.#attempt.released(why)
    else if (fault === null) this.#attempt.succeeded()
    else this.#attempt.failed(fault, true)
    this.connection.close()
  }
}

interface Connecting {
  readonly deps: LiveDependencies
  readonly request: LiveRequest
  readonly signal: CancelSignal
}

/**
 * Connects to the first entry that takes audio.
 *
 * @throws GatewayError as `failOver`
 */
export function connectToOne(
  { deps, request, signal }: Connecting,
  selection: Selection,
  listener: ConnectionListener,
): Promise<Connected> {
  const { services } = deps
  const active: ActiveCall<'transcription'> = {
    services,
    context: request.context,
    call: sliceOf(request.call, 0) as ActiveCall<'transcription'>['call'],
    signal,
    job: null,
    deadlineMs: CONNECT_MS,
    deadlineAtMs: services.clock.now() + CONNECT_MS,
  }
  const connect = (_: typeof active, attempt: Attempt) =>
    new LiveConnection(active, attempt, listener).opened(signal, attempt.deadlineAtMs)
  return failOver(active, selection, connect, OF_A_SESSION)
}

/** The other entries first; the one that is left comes last, and only if it had worked or has other servers. */
export function selectionAfter(
  { candidate, hasWorked }: LiveConnection,
  rotates: boolean,
  { deps, request }: Connecting,
): Selection | null {
  const pool = deps.services.replicas.of(candidate.entry.provider)
  const others = request.selection.candidates.filter(({ entry }) => entry !== candidate.entry)
  const isGood = hasWorked || pool?.isUp === true
  const candidates = rotates ? [candidate, ...others] : isGood ? [...others, candidate] : others
  return candidates.length === 0 ? null : { ...request.selection, candidates }
}
