import type { Entry } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import type { PermitLease } from '../../../contracts/permits.ts'
import { operationOf } from '../../../contracts/provider.ts'
import type { AttemptRecord } from '../../../contracts/recorder.ts'
import { sleep } from '../../../contracts/time.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import type { AttemptOutcome } from '../../../contracts/watch.ts'
import type { CallContext } from '../context/call-context.ts'
import { type ActiveCall, leftMsOf, type Services } from '../context/services.ts'
import { exhausted, isCutShort, outcomeUnknown, rejected } from '../context/upstream-errors.ts'
import type { JobContext } from '../facts/call.ts'
import { estimateOf } from '../facts/meter.ts'
import { settleAccountUnits, takeAccountUnits } from '../facts/units.ts'
import { isCurable } from '../select/health.ts'
import { isOfServer, type PlacedAttempt, type Replica, TRIES_MAX } from '../select/replicas.ts'
import { type Candidate, isUnhealthy, type Selection, toCandidate } from '../select/selection.ts'
import type { Verdict } from '../select/verdict.ts'
import { type Attempted, type AttemptFailure, entryKey, type Spare } from './operation.ts'
import { type AttemptPermit, callPermit, type PermitOf, spentFor } from './provider-permits.ts'

/** One attempt at an entry. */
export interface Attempt {
  readonly candidate: Candidate
  /** On the node's clock. */
  readonly deadlineAtMs: number
  /** No other entry can be tried after it. */
  readonly last: boolean
  /** It resumes what an earlier claim of the job has ordered from this entry. */
  readonly resumes: boolean
  /** The replica that it is made at; null: its provider has one address. */
  readonly placed: PlacedAttempt | null
  /** Units of its account were taken for it. */
  readonly counted?: boolean
}

export interface AttemptSuccess<Got> {
  readonly got: Got
  /** Still open: whoever reads the answer closes it. */
  readonly recorder: AttemptRecorder
}

export interface FailoverRules {
  /** Says which permit an attempt needs; it is held until the attempt's recorder is closed. */
  readonly permitOf: PermitOf
  /**
   * Entries that are passed over since their breakers are open are tried once each when all others have failed, in the
   * order in which they opened: for a session, which has nowhere else to go.
   */
  readonly triesOpen: boolean
}

const OF_A_CALL: FailoverRules = { permitOf: callPermit, triesOpen: false }

/**
 * Tries the candidates in order until one answers; the caller sees one outcome. Every attempt but the last gets half of
 * the time that is left, so that one hanging entry does not use up the failover; but all of it where no other entry
 * could be tried afterwards. A job that is taken over resumes what its provider is working on.
 *
 * @throws GatewayError UPSTREAM_REJECTED, UPSTREAM_ERROR, UPSTREAM_TIMEOUT, UPSTREAM_OUTCOME_UNKNOWN, RATE_LIMITED;
 *         what `run` throws, such as the signal's reason when the caller left
 */
export function failOver<Active extends ActiveCall, Got>(
  active: Active,
  selection: Pick<Selection, 'candidates' | 'considered'>,
  run: RunAttempt<Active, Got>,
  rules: FailoverRules = OF_A_CALL,
): Promise<AttemptSuccess<Got>> {
  try {
    return new Failover(active, selection, run, rules).tryNext()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Least time in which another replica is worth trying. */
const RETRY_LEAST_MS = 100

type RunAttempt<Active, Got> = (active: Active, attempt: Attempt) => Promise<Attempted<Got>>

/** The tries of one call: each continues where the one before failed. */
class Failover<Active extends ActiveCall, Got> {
  readonly #active: Active
  readonly #considered: readonly Verdict[]
  #candidates: readonly Candidate[]
  /** Entry at which an earlier claim of the job began; null: none. */
  readonly #begun: Candidate | null
  readonly #attempt: RunAttempt<Active, Got>
  readonly #permitOf: PermitOf
  /** Candidates that their health did not admit; null: they are not tried when all others have failed. */
  #passedOver: Candidate[] | null
  /** Those are tried now, in spite of their health. */
  #triesOpen = false
  #index = 0
  #failure: Failure | null = null
  /** Replicas of the entry at which the call was made. */
  #tried: Replica[] | null = null

  constructor(
    active: Active,
    selection: Pick<Selection, 'candidates' | 'considered'>,
    run: RunAttempt<Active, Got>,
    { permitOf, triesOpen }: FailoverRules,
  ) {
    this.#active = active
    this.#considered = selection.considered
    this.#begun = begunCandidate(active.job, selection)
    this.#candidates = this.#begun === null ? selection.candidates : putFirst(this.#begun, selection)
    this.#attempt = run
    this.#permitOf = permitOf
    this.#passedOver = triesOpen ? [] : null
  }

  /** Tries the next candidate. @throws GatewayError when none is left; the signal's reason when the caller left */
  tryNext(): Promise<AttemptSuccess<Got>> {
    const { services, context, call, signal, deadlineAtMs } = this.#active
    const candidates = this.#candidates
    for (let index = this.#index; index < candidates.length; index += 1) {
      const candidate = candidates[index]!
      const startMs = services.clock.now()
      if (startMs >= deadlineAtMs) break
      // A caller who left before pays for no attempt.
      signal.throwIfAborted()
      const last = index === candidates.length - 1 && !this.#passedOver?.length
      const resumes = candidate === this.#begun
      // No call fails untried: the last candidate is tried whatever its health when all before it were passed over.
      // An order that was placed is paid for, and followed in any case.
      const needed = resumes || this.#triesOpen || (last && this.#failure === null)
      this.#index = index + 1
      if (!services.health.admit(candidate.entry, startMs) && !needed) {
        this.#passedOver?.push(candidate)
        continue
      }
      this.#tried = null
      const whole = last || createsOnce(services, call.operation, candidate.entry)
      const limitMs = whole ? deadlineAtMs : (startMs + deadlineAtMs) / 2
      const attempt = { candidate, deadlineAtMs: limitMs, last, resumes, placed: null }
      const units = resumes ? null : takeAccountUnits(services.state, candidate.entry.provider, call)
      return units === null ? this.#tryFreely(attempt, startMs) : this.#tryCounted(attempt, startMs, units)
    }
    if (this.#goBack()) return this.tryNext()
    throw exhausted(context, this.#failure, leftMsOf(this.#active), unhealthyMs(this.#considered))
  }

  /** Begins again with those whose breakers are open. @returns false: there is none */
  #goBack(): boolean {
    const passedOver = this.#passedOver
    if (passedOver === null) return false
    const { health, clock } = this.#active.services
    const nowMs = clock.now()
    const open = passedOver.flatMap((candidate) => {
      const { state, openedAtMs } = health.view(candidate.entry, nowMs)
      return state === 'cooling' ? [] : { candidate, openedAtMs: openedAtMs ?? 0 }
    })
    this.#passedOver = null
    this.#candidates = open.toSorted((a, b) => a.openedAtMs - b.openedAtMs).map(({ candidate }) => candidate)
    this.#index = 0
    this.#triesOpen = true
    return open.length > 0
  }

  /** A job waits until its account has what it holds. */
  async #tryCounted(
    attempt: Attempt,
    startMs: number,
    taking: number | Promise<number>,
  ): Promise<AttemptSuccess<Got>> {
    const { services, call, signal, job } = this.#active
    const { clock, state } = services
    const { entry } = attempt.candidate
    let retryAfterMs = await taking
    while (job !== null && retryAfterMs > 0 && clock.now() + retryAfterMs < attempt.deadlineAtMs) {
      await sleep(clock, retryAfterMs, { signal }).catch(() => this.#checkCaller(attempt, startMs))
      retryAfterMs = (await takeAccountUnits(state, entry.provider, call)) ?? 0
    }
    const counted = { ...attempt, counted: retryAfterMs === 0 }
    this.#checkCaller(counted, startMs)
    // The wait takes nothing of the time that the entry has.
    const nowMs = clock.now()
    if (retryAfterMs === 0) return this.#tryFreely(this.#since(nowMs, counted), nowMs)
    const failure = { failure: spentFor(retryAfterMs), blamed: false, unknown: false }
    return this.#goOn(attempt, beginAttempt(this.#active, attempt, nowMs, null), failure)
  }

  /** The attempt as it begins after a wait: with its share of the time that is left then. */
  #since(startMs: number, attempt: Attempt): Attempt {
    const { deadlineAtMs } = this.#active
    if (attempt.deadlineAtMs === deadlineAtMs) return attempt
    return { ...attempt, deadlineAtMs: (startMs + deadlineAtMs) / 2 }
  }

  /** Gives the units of the account back that were taken for an attempt at which nothing was done. */
  #giveBack({ candidate, counted }: Attempt): void {
    const { services, call } = this.#active
    if (counted === true) settleAccountUnits(services.state, candidate.entry.provider, call, null)
  }

  /** @throws the signal's reason when the caller left while the attempt had to wait: nothing is taken for it */
  #checkCaller(attempt: Attempt, askedMs: number): void {
    const { services, signal } = this.#active
    if (!signal.aborted) return
    this.#giveBack(attempt)
    services.health.released(attempt.candidate.entry, askedMs)
    signal.throwIfAborted()
  }

  #tryFreely(attempt: Attempt, startMs: number): Promise<AttemptSuccess<Got>> {
    const permit = this.#permitOf(attempt.candidate.entry)
    return permit === null ? this.#try(attempt, startMs, null) : this.#tryLimited(attempt, startMs, permit)
  }

  /** Waits for a permit first. That takes nothing of the time in which the entry has to answer, or has answered. */
  async #tryLimited(attempt: Attempt, askedMs: number, permit: AttemptPermit): Promise<AttemptSuccess<Got>> {
    const { services, context, signal, job } = this.#active
    const { candidate } = attempt
    const workspace = context.principal.workspace.id
    const leftMs = attempt.deadlineAtMs - askedMs
    const waitMs = Math.min(job === null ? permit.queueMs : Number.POSITIVE_INFINITY, leftMs)
    const lease = await services.state.permits.wait(permit.limit, { workspace, waitMs, signal })
    if (permit.queueMs > 0) services.watch?.waited(candidate.entry, services.clock.now() - askedMs)
    if (signal.aborted) lease?.release()
    this.#checkCaller(attempt, askedMs)
    const startMs = services.clock.now()
    if (lease === null) {
      const failure = { failure: permit.busy, blamed: false, unknown: false }
      return this.#goOn(attempt, beginAttempt(this.#active, attempt, startMs, null), failure)
    }
    return this.#try(this.#since(startMs, attempt), startMs, lease)
  }

  /** Makes an attempt: of a provider with replicas, at one of them. */
  #try(attempt: Attempt, startMs: number, permit: PermitLease | null): Promise<AttemptSuccess<Got>> {
    const pool = this.#active.services.replicas.of(attempt.candidate.entry.provider)
    if (pool === null) return this.#run(attempt, startMs, permit)
    const progress = attempt.resumes ? this.#active.job?.progress : null
    const begun = progress?.replica === undefined ? null : pool.placeAt(progress.replica)
    return this.#run({ ...attempt, placed: begun ?? pool.place() }, startMs, permit)
  }

  async #run(attempt: Attempt, startMs: number, permit: PermitLease | null): Promise<AttemptSuccess<Got>> {
    const recorder = beginAttempt(this.#active, attempt, startMs, permit)
    let ended: Attempted<Got>
    try {
      ended = await this.#attempt(this.#active, attempt)
    } catch (error) {
      return this.#breakOff(attempt, recorder, error)
    }
    return 'got' in ended ? { got: ended.got, recorder } : this.#goOn(attempt, recorder, ended)
  }

  #goOn(
    attempt: Attempt,
    recorder: AttemptRecorder,
    ended: AttemptFailure<Got>,
  ): Promise<AttemptSuccess<Got>> {
    const { context, services } = this.#active
    const { failure, spare } = ended
    this.#failure = failure
    const placed = attempt.placed === null ? null : this.#placeAgain(attempt, attempt.placed, ended)
    if (placed !== null) {
      const permit = recorder.replaced(failure)
      context.money.estimate = null
      return this.#run({ ...attempt, resumes: false, placed }, services.clock.now(), permit)
    }
    recorder.failed(failure, ended.blamed)
    if (ended.unknown) throw outcomeUnknown(context, failure)
    if (spare !== undefined) return this.#tryBeyond(spare, recorder)
    context.money.estimate = null
    // An answer that was refused has used them up.
    if (failure.status !== 200) this.#giveBack(attempt)
    if (!isCurable(failure)) throw rejected(context, failure)
    return this.tryNext()
  }

  /** Tries the others for a better answer than the one at hand, which is given when none of them has any. */
  async #tryBeyond({ got, end }: Spare<Got>, recorder: AttemptRecorder): Promise<AttemptSuccess<Got>> {
    const { money } = this.#active.context
    const { estimate } = money
    money.estimate = null
    try {
      const better = await this.tryNext()
      end(false)
      return better
    } catch (error) {
      const isGiven = error instanceof GatewayError && !this.#active.signal.aborted
      end(isGiven)
      if (!isGiven) throw error
      money.estimate = estimate
      recorder.given()
      return { got, recorder }
    }
  }

  /**
   * Another replica for a call that failed at one: where the call might go to another entry, and the server may be to
   * blame. It has what is left of the entry's time, so one that hung until the end of that was the last. An order
   * that one replica accepted and failed is not placed at another.
   */
  #placeAgain(
    attempt: Attempt,
    { replica }: PlacedAttempt,
    ended: AttemptFailure<Got>,
  ): PlacedAttempt | null {
    const { services, call, signal } = this.#active
    const { entry } = attempt.candidate
    const { failure, blamed, unknown } = ended
    if (!blamed || unknown || !isOfServer(failure) || signal.aborted) return null
    if (failure.kind !== 'connect' && createsOnce(services, call.operation, entry)) return null
    const leftMs = attempt.deadlineAtMs - services.clock.now()
    this.#tried ??= []
    this.#tried.push(replica)
    if (this.#tried.length >= TRIES_MAX || leftMs < RETRY_LEAST_MS) return null
    return services.replicas.of(entry.provider)?.placeAgain(this.#tried) ?? null
  }

  #breakOff(attempt: Attempt, recorder: AttemptRecorder, error: unknown): never {
    const { context, signal } = this.#active
    recorder.released(signal.aborted ? 'the caller left' : 'the gateway could not go on')
    if (isCutShort(error)) {
      context.money.estimate = null
      this.#giveBack(attempt)
    }
    throw error
  }
}

/** Notes an attempt on the context before it is made: once the caller leaves nothing is noted any more. */
function beginAttempt(
  active: ActiveCall,
  attempt: Attempt,
  startMs: number,
  permit: PermitLease | null,
): AttemptRecorder {
  const { services, context, call } = active
  const { route, entry, forPurpose } = attempt.candidate
  context.trace?.attempt(call.operation, entry, attempt.placed?.replica.baseUrl)
  const recorder = new AttemptRecorder(active, attempt, startMs, permit)
  context.routing.noteRoute(route)
  context.routing.forPurpose = forPurpose
  if (route.strategy === 'lowest_latency') services.latency.began(entry, startMs)
  context.money.estimate = { entry, metered: () => estimateOf(entry, call, services.clock.wallNow()) }
  return recorder
}

/** The candidate that an earlier claim of the job has begun with, where there is something to resume. */
function begunCandidate(
  job: JobContext | null,
  { candidates, considered }: Pick<Selection, 'candidates' | 'considered'>,
): Candidate | null {
  const progress = job?.progress ?? null
  if (progress === null) return null
  const isIt = ({ entry }: Pick<Candidate, 'entry'>) => entryKey(entry) === progress.entry
  const candidate = candidates.find(isIt)
  if (candidate !== undefined) return candidate
  const passedOver = considered.find((one) => isUnhealthy(one) && isIt(one))
  return passedOver === undefined ? null : toCandidate(passedOver)
}

function putFirst(first: Candidate, { candidates }: Pick<Selection, 'candidates'>): readonly Candidate[] {
  return [first, ...candidates.filter((candidate) => candidate !== first)]
}

/** How long each entry that is excluded for its health is not tried. */
function unhealthyMs(considered: readonly Verdict[]): number[] {
  return considered.flatMap(({ exclusion }) =>
    exclusion?.why === 'cooling' || exclusion?.why === 'breaker' ? (exclusion.retryAfterMs ?? []) : [],
  )
}

function createsOnce({ providers }: Services, operation: OperationName, { provider }: Entry): boolean {
  return operationOf(providers.get(provider.kind), operation)?.createsOnce === true
}

/**
 * Records one attempt at an entry: it is the attempt's line on the context, also while it is under way, since the
 * caller may leave and the log be written at any moment; and it reports, once, what the attempt says about the entry's
 * health, and gives its permit back.
 */
class AttemptRecorder implements AttemptRecord {
  status: number | null = null
  reason = 'not finished'
  failure: Failure | null = null
  readonly candidate: Candidate
  readonly #services: Services
  readonly #context: CallContext
  readonly #operation: OperationName
  readonly #startedMs: number
  #permit: PermitLease | null
  readonly #placed: PlacedAttempt | null
  readonly #failover: boolean
  /** How long it took; null while it is under way. */
  #milliseconds: number | null = null
  #answered = false
  #firstDeltaMs: number | null = null
  #closed = false

  constructor(
    { services, context, call }: ActiveCall,
    { candidate, placed }: Attempt,
    startedMs: number,
    permit: PermitLease | null,
  ) {
    this.#services = services
    this.#context = context
    this.#operation = call.operation
    this.candidate = candidate
    this.#startedMs = startedMs
    this.#permit = permit
    this.#placed = placed
    this.#failover = context.routing.attempts.length > 0
    // Most calls have one, and a list that is pushed to takes room for seventeen.
    if (this.#failover) context.routing.attempts.push(this)
    else context.routing.attempts = [this]
  }

  get region(): string | undefined {
    return this.candidate.entry.facts.region
  }

  get provider(): string {
    return this.candidate.entry.provider.name
  }

  get model(): string {
    return this.candidate.entry.model
  }

  get replica(): number | null {
    return this.#placed === null ? null : this.#placed.index
  }

  get milliseconds(): number {
    return this.#milliseconds ?? Math.round(this.#services.clock.now() - this.#startedMs)
  }

  /**
   * Records that the answer is here.
   *
   * @param streamed only its first delta is: the rest comes at the pace of its reader
   */
  answered(streamed = false): void {
    // It was, and its time is known, when its answer was put by.
    if (this.#closed) return
    this.#answered = true
    const nowMs = this.#services.clock.now()
    const passedMs = this.#waited(nowMs)
    if (streamed) this.#firstDeltaMs = passedMs
    else this.#services.health.connected(this.candidate.entry, this.#startedMs)
    const milliseconds = this.#note(200, 'ok', null, nowMs)
    this.#services.latency.note(this.candidate.entry, milliseconds, nowMs)
    this.#placed?.answered()
  }

  /** Records that the answer came whole. */
  succeeded(): void {
    if (!this.#close('ok')) return
    this.#context.trace?.attemptEnded(200, null)
    this.#services.health.succeeded(this.candidate.entry, this.#services.clock.now(), this.#startedMs)
  }

  /** @param blamed false when the entry is not to blame: nothing was sent to it, or it did answer */
  failed(failure: Failure, blamed: boolean): void {
    const { health, clock } = this.#services
    const { entry } = this.candidate
    // An answer that breaks off at one server says nothing of an entry that has others.
    const wasAnswered = this.#answered
    if (!this.#closeFailed(failure, blamed)) return
    // Its callers waited for another entry as well.
    if (isCurable(failure) && failure.kind !== 'busy') this.#noteLatency(Number.POSITIVE_INFINITY)
    if (blamed && !(wasAnswered && this.#placed?.isPoolUp === true))
      health.failed(entry, this.failure!, clock.now(), this.#startedMs)
    else health.released(entry, this.#startedMs)
  }

  /**
   * Records the failure of a replica whose call is made at another one, which says nothing of the entry yet.
   *
   * @returns the permit, which the call keeps
   */
  replaced(failure: Failure): PermitLease | null {
    const permit = this.#permit
    this.#permit = null
    this.#closeFailed(failure, true)
    return permit
  }

  /** Records that its answer, which was refused, is given after all: like any that is, it stands last. */
  given(): void {
    const { routing } = this.#context
    this.reason = 'ok'
    this.failure = null
    routing.forPurpose = this.candidate.forPurpose
    routing.attempts = [...routing.attempts.filter((one) => one !== this), this]
  }

  /** Records an end without a verdict: the caller left, or the gateway itself could not go on. */
  released(reason: string): void {
    if (!this.#close('abandoned')) return
    if (!this.#answered) {
      const milliseconds = this.#note(null, reason, null)
      // An entry that was given up on is no quicker than it was taken for.
      if (this.#context.signal.aborted) this.#noteLatency(milliseconds)
    }
    this.#context.trace?.attemptLeft()
    this.#services.health.released(this.candidate.entry, this.#startedMs)
  }

  /** Notes how long it took at least, where that is longer than what its entry is known for. */
  #noteLatency(milliseconds: number): void {
    const { clock, latency } = this.#services
    const { entry } = this.candidate
    const nowMs = clock.now()
    latency.note(entry, Math.max(milliseconds, latency.medianMs(entry, nowMs)), nowMs)
  }

  #closeFailed(failure: Failure, blamed: boolean): boolean {
    const ofPool = blamed && !this.#closed ? this.#placed?.failed(failure) : null
    if (!this.#close(failure.kind)) return false
    this.#note(failure.status, failure.reason, ofPool ?? failure)
    this.#context.trace?.attemptEnded(failure.status, failure)
    return true
  }

  #close(outcome: AttemptOutcome): boolean {
    if (this.#closed) return false
    this.#closed = true
    this.#permit?.release()
    this.#placed?.release()
    if (!this.#answered) this.#waited()
    this.#services.watch?.attempted({
      entry: this.candidate.entry,
      operation: this.#operation,
      outcome,
      milliseconds: this.#services.clock.now() - this.#startedMs,
      firstDeltaMs: this.#firstDeltaMs,
      failover: this.#failover,
    })
    return true
  }

  /** Counts the time since it began as waiting. @returns that time, ms */
  #waited(nowMs = this.#services.clock.now()): number {
    const passedMs = nowMs - this.#startedMs
    this.#context.upstreamWaitMs += passedMs
    return passedMs
  }

  /** @returns milliseconds since it began */
  #note(
    status: number | null,
    reason: string,
    failure: Failure | null,
    nowMs = this.#services.clock.now(),
  ): number {
    this.status = status
    this.reason = reason
    this.failure = failure
    this.#milliseconds = Math.round(nowMs - this.#startedMs)
    return this.#milliseconds
  }
}
