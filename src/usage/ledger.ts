import { errorOf } from '../call-facts.ts'
import type { AbandonedJob } from '../contracts/jobs.ts'
import type { HeldMoney, LostMoney } from '../contracts/ledger.ts'
import type { SessionFacts } from '../contracts/live.ts'
import type {
  EndedCall,
  EndedExchange,
  EndedRun,
  EndingRun,
  HeldEntry,
  MoneySource,
  OpenCall,
  RecordedJob,
  Recorder,
  RecorderNote,
  UsageKeeper,
} from '../contracts/recorder.ts'
import type { GatewayError } from '../errors.ts'
import { idTimeMs } from '../ids.ts'
import { type Clock, systemClock } from '../time.ts'
import type { UsageRow } from './encoder.ts'
import type { KeptPlace } from './open-segment.ts'
import type { WriteAhead } from './write-ahead.ts'

/** An endpoint that was met. */
interface Endpoint {
  readonly method: string
  readonly pattern: string
  /** `POST /v1/chat` */
  readonly text: string
  /** A request to it, with a key, has a record: it is a call or a live session. */
  readonly isCall: boolean
}

/** Attempts whose reasons are recorded: a session may have any number. */
const REASONS_MAX = 20
const MICROS = 1_000_000
/**
 * Records that are made one after the other: at 5,000 calls a second making one between what calls do otherwise took
 * nearly twice as long, as the caches of a CPU have lost what it needs by then.
 */
const WAITING_MAX = 64
/** A call with larger bodies waits for no others: they may be in memory for as long as it does. */
const SMALL_BYTES = 64 * 1024

export interface LedgerParts {
  readonly rows: WriteAhead
  /** Of this process. */
  readonly node: string
  /** The documented field that an error names; null: it names none. */
  readonly paramOf: (failure: GatewayError) => string | null
  /** Endpoints whose requests have records, such as `POST /v1/chat`. */
  readonly calls: ReadonlySet<string>
  readonly clock?: Clock
}

/**
 * Writes a record of every call, job and live session when it is over: its answer is out or nobody waits for it, its
 * handler has come to its end, and its money is settled. A record is in the kernel before the state is told of its
 * money, so that none is missing whose money was charged; where the answer was not out by then it is written again.
 *
 * What sums up is exact: records cost what was charged. The submission of a job has no record but the job's, which is
 * written when it ends; an answer that is given again costs nothing.
 */
export class UsageLedger implements UsageKeeper {
  readonly #rows: WriteAhead
  readonly #paramOf: LedgerParts['paramOf']
  readonly #calls: LedgerParts['calls']
  readonly #clock: Clock
  /** Of the record that is being written. */
  readonly #row: UsageRow
  /**
   * Calls that were charged and are not over; each knows its place in here. A map of them would cost as much as the
   * rest of a record.
   */
  readonly #charged: OpenCall[] = []
  readonly #waiting: WaitingCalls
  /** Live sessions that have no record yet, and what each knows of itself; null: it is over, but for its money. */
  readonly #sessions = new Map<OpenCall, (() => SessionFacts) | null>()
  /** What the journal was told that each of them came to. */
  readonly #toldOfSessions = new WeakMap<OpenCall, number>()
  readonly #held: HeldCalls
  /** Those that were met, by method and pattern. */
  readonly #endpoints = new Map<string, Map<string, Endpoint>>()
  #lastEndpoint: Endpoint = { method: '', pattern: '', text: ' ', isCall: false }
  /** The reasons that came last of one attempt. */
  #lastReason = { provider: '', model: '', reason: '', text: '' }

  constructor({ rows, node, paramOf, calls, clock = systemClock }: LedgerParts) {
    this.#clock = clock
    this.#waiting = new WaitingCalls(clock)
    this.#held = new HeldCalls(clock)
    this.#rows = rows
    this.#paramOf = paramOf
    this.#calls = calls
    this.#row = emptyRow(node)
    rows.gatherFrom(() => this.#gather())
    const sessions = this.#sessions
    rows.keepMoney(this.#held)
    rows.keepMoney({ entries: (isAll) => this.#heldSessions(isAll) })
    rows.keepOpen({
      get count() {
        return sessions.size
      },
      rows: (add) => {
        for (const [call, facts] of sessions) {
          this.#fillOpen(call, facts)
          add(this.#row)
        }
      },
    })
  }

  opened(call: OpenCall, facts: () => SessionFacts): void {
    const { exchange } = call
    if (exchange === null || !this.#isCall(exchange, call)) return
    this.#sessions.set(call, facts)
    this.#keepOpen(call)
  }

  /** The call is over, but for its money. */
  over(exchange: EndedExchange, call: OpenCall): void {
    if (!this.#isCall(exchange, call)) return
    if (call.isSettled) {
      this.#ended(exchange, call)
      return
    }
    if (this.#sessions.has(call)) this.#sessions.set(call, null)
    call.onSettled(() => {
      call.onSettled(null)
      this.#ended(exchange, call)
    })
  }

  ending(job: RecordedJob, call: OpenCall, run: EndingRun): void {
    this.#fillRun(job, call, run)
    call.usagePlace = this.#rows.addKept(this.#row)
    this.#rows.flush()
  }

  ran(job: RecordedJob, call: OpenCall, run: EndingRun): void {
    const { became } = run
    const kept = call.usagePlace as KeptPlace | null
    call.usagePlace = null
    // Somebody else's, or nobody's yet. Where the state did not tell, the record that another run writes replaces this.
    const isOver = became !== 'queued' && became !== 'processing' && became !== 'lost'
    if (!isOver && kept === null) return
    this.#fillRun(job, call, run)
    if (kept === null) this.#rows.add(this.#row)
    else this.#rows.addAgain(this.#row, kept)
  }

  #fillRun(job: RecordedJob, call: EndedCall, { became, chargedMicros }: EndingRun): void {
    const row = this.#row
    this.#fillCall(call)
    this.#fillJob(job)
    row.outcome = became === 'cancelled' ? 'canceled' : call.failure === null ? 'ok' : 'error'
    row.status = null
    row.error_code = call.failure?.code ?? null
    if (chargedMicros > 0) row.cost_usd = whole(chargedMicros)
    row.received_bytes = 0
    row.sent_bytes = 0
    row.body_ms = null
    row.first_ms = null
  }

  /**
   * A job has ended without a worker. Its record is in the kernel when this returns.
   *
   * @returns false: it was lost
   */
  abandoned({ job, chargedMicros }: AbandonedJob): boolean {
    const row = this.#row
    const { lost } = this.#rows
    Object.assign(row, emptyRow(row.node))
    this.#fillJob(job)
    row.end_user = job.endUser ?? null
    row.operation = job.work.operation
    row.policy_version_id = job.facts?.policy_version_id ?? null
    row.outcome = job.status === 'cancelled' ? 'canceled' : 'error'
    row.error_code = job.error?.code ?? null
    row.cost_usd = whole(chargedMicros)
    this.#rows.add(row)
    this.#rows.flush()
    return this.#rows.lost === lost
  }

  /**
   * A node has died, and what nobody can know was charged by estimates. Its record is in the kernel when this returns.
   *
   * @param app that the key is of; empty: it is not known any more
   * @returns false: it was lost
   */
  lostMoney(workspace: string, app: string, { token, keyId, spendMicros, atMs }: LostMoney): boolean {
    const row = this.#row
    const { lost } = this.#rows
    Object.assign(row, emptyRow(row.node))
    row.record_id = `lost_${token}`
    row.kind = 'lease_expired'
    row.request_id = row.record_id
    row.started_at = atMs
    row.ended_at = atMs
    Object.assign(row, { workspace, app, key_id: keyId })
    row.outcome = 'error'
    row.error_code = 'INTERNAL'
    row.cost_usd = whole(spendMicros)
    row.estimated = true
    this.#rows.add(row)
    this.#rows.flush()
    return this.#rows.lost === lost
  }

  charged(call: OpenCall, isSettling: boolean, settling: HeldMoney | null): void {
    const { exchange } = call
    if (settling !== null) this.#held.hold(settling)
    if (call.sessionId !== null) {
      this.#keepOpen(call)
      if (isSettling) this.#rows.flush()
      return
    }
    // A job whose worker dies is run again, and recorded then.
    if (exchange === null || !this.#isCall(exchange, call)) return
    if (call.chargedAt < 0) {
      call.chargedAt = this.#charged.length
      this.#charged.push(call)
    }
    if (!isSettling) return
    this.#keep(exchange, call)
    this.#rows.flush()
  }

  beforeReport(): void {
    this.#rows.flush()
  }

  holds(money: HeldMoney): void {
    this.#held.hold(money)
  }

  released(token: string): void {
    this.#held.release(token)
  }

  keepMoney(source: MoneySource): void {
    this.#rows.keepMoney(source)
  }

  /** Has a record be there of every call that was charged: the money that is journalled with them counts it. */
  #gather(): void {
    this.#recordWaiting()
    for (const call of this.#charged)
      if (call.usagePlace === null) this.#keep(call.exchange as EndedExchange, call)
  }

  #heldSessions(isAll: boolean): HeldEntry[] {
    const entries: HeldEntry[] = []
    for (const call of this.#sessions.keys()) {
      const micros = call.chargedMicros + call.accruedMicros
      if (!isAll && this.#toldOfSessions.get(call) === micros) continue
      this.#toldOfSessions.set(call, micros)
      const id = call.sessionId as string
      entries.push({ key: id, session: { id, micros } })
    }
    return entries
  }

  /** Writes what is known of a call that is not over. */
  #keep(exchange: EndedExchange, call: OpenCall): void {
    this.#fill(exchange, call, this.#clock.wallNow(), exchange.elapsedMs)
    const before = call.usagePlace as KeptPlace | null
    if (before === null) call.usagePlace = this.#rows.addKept(this.#row)
    else this.#rows.addAgain(this.#row, before, true)
  }

  /** Writes what is known of a session that has no record yet. */
  #keepOpen(call: OpenCall): void {
    const facts = this.#sessions.get(call)
    if (facts === undefined) return
    this.#fillOpen(call, facts)
    this.#rows.addOpen(this.#row)
  }

  /** Has a record be made of the call with the next ones. */
  #ended(exchange: EndedExchange, call: OpenCall): void {
    if (call.chargedAt >= 0) this.#forget(call)
    const waiting = this.#waiting
    waiting.add(call, exchange.elapsedMs)
    this.#rows.expect()
    if (call.sessionId !== null) this.#rows.flush()
    else if (waiting.isFull || exchange.receivedBytes + exchange.sentBytes > SMALL_BYTES)
      this.#recordWaiting()
  }

  readonly #record = (call: OpenCall, endedAtMs: number, elapsedMs: number): void => {
    this.#fill(call.exchange as EndedExchange, call, endedAtMs, elapsedMs)
    const kept = call.usagePlace as KeptPlace | null
    call.usagePlace = null
    if (call.sessionId !== null) this.#sessions.delete(call)
    if (kept === null) this.#rows.add(this.#row)
    else this.#rows.addAgain(this.#row, kept)
  }

  /** The record that a session has if this process dies now. */
  #fillOpen(call: OpenCall, facts: (() => SessionFacts) | null): void {
    const exchange = call.exchange as EndedExchange
    const row = this.#row
    this.#fill(exchange, call, this.#clock.wallNow(), exchange.elapsedMs)
    // That of its handshake, which may be on its way.
    row.status ??= 101
    if (facts !== null) {
      const { audio_seconds, characters } = facts()
      row.outcome = 'error'
      row.error_code = 'INTERNAL'
      row.audio_seconds = thousandths(audio_seconds)
      row.characters = whole(characters)
    }
    // Whoever settles its money when its node has died knows better.
    row.cost_usd = whole(call.chargedMicros + call.accruedMicros)
    row.estimated = true
  }

  #recordWaiting(): void {
    this.#waiting.take(this.#record)
  }

  #forget(call: OpenCall): void {
    const last = this.#charged.pop() as OpenCall
    if (last !== call) {
      this.#charged[call.chargedAt] = last
      last.chargedAt = call.chargedAt
    }
    call.chargedAt = -1
  }

  #fill(exchange: EndedExchange, call: EndedCall, endedAtMs: number, elapsedMs: number): void {
    const row = this.#row
    const { status, bodyMs, firstByteMs } = exchange
    const error = errorOf(exchange, call)
    this.#fillCall(call)
    row.record_id = call.sessionId ?? ''
    row.kind = call.sessionId === null ? 'call' : 'session'
    row.request_id = exchange.requestId
    row.job_id = null
    row.total_ms = Math.round(elapsedMs)
    row.ended_at = endedAtMs
    row.started_at = endedAtMs - row.total_ms
    row.endpoint = this.#endpointOf(exchange).text
    row.outcome = error === undefined ? 'ok' : error === 'CLIENT_CLOSED' ? 'left' : 'error'
    row.status = status
    row.error_code = error ?? null
    row.received_bytes = exchange.receivedBytes
    row.sent_bytes = exchange.sentBytes
    row.body_ms = bodyMs === 0 ? null : Math.round(bodyMs)
    row.first_ms = firstByteMs === null ? null : Math.round(firstByteMs)
  }

  /** What every job has that ends now. */
  #fillJob(job: RecordedJob): void {
    const row = this.#row
    row.record_id = job.id
    row.kind = 'job'
    row.request_id = job.requestId
    row.job_id = job.id
    row.ended_at = this.#clock.wallNow()
    row.started_at = Math.min(job.createdAtMs, row.ended_at)
    row.total_ms = row.ended_at - row.started_at
    row.workspace = job.workspace
    row.app = job.app
    row.key_id = job.keyId
    row.endpoint = job.endpoint
  }

  /** What a call and a run of a job have in common. */
  #fillCall(call: EndedCall): void {
    const row = this.#row
    const { principal, attempts, purpose, failure } = call
    const last = attempts.length === 0 ? null : attempts[attempts.length - 1]!
    row.session_id = call.sessionId
    row.trace_id = call.traceId
    row.workspace = principal === null ? '' : principal.workspace.id
    row.app = principal === null ? '' : principal.app.id
    row.key_id = principal === null ? '' : principal.key.id
    row.end_user = call.keptEndUser
    row.purpose = purpose !== null && call.forPurpose ? purpose.requested : null
    row.operation = call.operation
    row.route = call.route
    row.policy_version_id = call.policyVersionId
    row.provider = last === null ? null : last.provider
    row.model = last === null ? null : last.model
    row.region = last === null ? null : (last.region ?? null)
    row.attempts = attempts.length
    row.attempt_reasons = last === null ? null : this.#reasonsOf(attempts)
    row.error_param = failure === null ? null : this.#paramOf(failure)
    row.replayed = call.replayed
    row.cache = call.cache
    row.upstream_ms = call.upstreamWaitMs === 0 ? null : Math.round(call.upstreamWaitMs)
    this.#fillUsage(call)
  }

  #fillUsage(call: EndedCall): void {
    const row = this.#row
    const estimate = call.usage === null && call.estimate !== null ? call.estimate.metered() : null
    const { usage, costUsd } = estimate ?? call
    row.audio_seconds = thousandths(usage?.audio_seconds)
    row.billable_audio_seconds = thousandths(usage?.billable_audio_seconds)
    row.video_seconds = thousandths(usage?.video_seconds)
    row.input_tokens = whole(usage?.input_tokens)
    row.output_tokens = whole(usage?.output_tokens)
    row.characters = whole(usage?.audio_output_characters)
    row.images = whole(usage?.images)
    row.credits = whole(usage?.credits)
    const charged = call.chargedMicros
    // What no price is known of is charged by an estimate.
    row.estimated = estimate !== null || (charged > 0 && costUsd === null)
    row.cost_usd =
      charged > 0 ? whole(charged) : costUsd !== null ? whole(costUsd * MICROS) : usage === null ? 0 : null
  }

  /** A job is recorded by its runs. */
  #isCall(exchange: EndedExchange, { principal, jobId }: EndedCall): boolean {
    if (principal === null || jobId !== null || exchange.pattern === null) return false
    return this.#endpointOf(exchange).isCall
  }

  #endpointOf(exchange: EndedExchange): Endpoint {
    const { method } = exchange
    const pattern = exchange.pattern ?? ''
    const last = this.#lastEndpoint
    if (last.pattern === pattern && last.method === method) return last
    const known = this.#endpoints.get(method) ?? new Map<string, Endpoint>()
    this.#endpoints.set(method, known)
    const text = `${method} ${pattern}`
    const endpoint = known.get(pattern) ?? { method, pattern, text, isCall: this.#calls.has(text) }
    known.set(pattern, endpoint)
    this.#lastEndpoint = endpoint
    return endpoint
  }

  #reasonsOf(attempts: EndedCall['attempts']): string {
    const [first] = attempts
    if (attempts.length > 1 || first === undefined)
      return attempts
        .slice(0, REASONS_MAX)
        .map(({ provider, model, reason }) => reasonOf(provider, model, reason))
        .join(',')
    const { provider, model, reason } = first
    const last = this.#lastReason
    if (last.provider === provider && last.model === model && last.reason === reason) return last.text
    const text = reasonOf(provider, model, reason)
    this.#lastReason = { provider, model, reason, text }
    return text
  }
}

/** How long the state is told of a settlement again, and longer. */
const HELD_MS = 3_600_000

/** Calls that the state settles by themselves, until it has. */
class HeldCalls implements MoneySource {
  readonly #clock: Clock
  readonly #held = new Map<string, HeldMoney>()
  #changed = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  hold(money: HeldMoney): void {
    this.#held.set(money.token, money)
    this.#changed.add(money.token)
  }

  release(token: string): void {
    if (this.#held.delete(token)) this.#changed.add(token)
  }

  entries(isAll: boolean): HeldEntry[] {
    const changed = this.#changed
    this.#changed = new Set()
    // What the state has never taken has expired there.
    if (isAll)
      for (const token of this.#held.keys()) {
        if (idTimeMs(token) > this.#clock.wallNow() - HELD_MS) break
        this.#held.delete(token)
      }
    return [...(isAll ? this.#held.keys() : changed)].map((key) => {
      const money = this.#held.get(key)
      return money === undefined ? { key } : { key, money: [money] }
    })
  }
}

/** Calls that are over, of which no record was made yet. */
class WaitingCalls {
  readonly #clock: Clock
  readonly #calls: (OpenCall | null)[] = Array.from({ length: WAITING_MAX }, () => null)
  readonly #endedAtMs = new Float64Array(WAITING_MAX)
  readonly #elapsedMs = new Float64Array(WAITING_MAX)
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isFull(): boolean {
    return this.#count === WAITING_MAX
  }

  /** There is room. What time it is, is read; what else is known of the call is read when it is taken. */
  add(call: OpenCall, elapsedMs: number): void {
    const at = this.#count
    this.#calls[at] = call
    this.#endedAtMs[at] = this.#clock.wallNow()
    this.#elapsedMs[at] = elapsedMs
    this.#count = at + 1
  }

  /** Hands all of them over, and keeps none. */
  take(record: (call: OpenCall, endedAtMs: number, elapsedMs: number) => void): void {
    const count = this.#count
    this.#count = 0
    for (let at = 0; at < count; at += 1) {
      const call = this.#calls[at]!
      this.#calls[at] = null
      record(call, this.#endedAtMs[at]!, this.#elapsedMs[at]!)
    }
  }
}

function reasonOf(provider: string, model: string, reason: string): string {
  return `${provider}/${model}=${reason}`.replaceAll(',', ';')
}

/** Whole, and never more than a segment can hold, whatever a price or a provider comes to. */
function whole(value: number | null | undefined): number | null {
  return value === undefined || value === null ? null : Math.min(Math.round(value), Number.MAX_SAFE_INTEGER)
}

function thousandths(seconds: number | null | undefined): number | null {
  return whole(seconds == null ? seconds : seconds * 1_000)
}

/** A row that says nothing but who wrote it. */
export function emptyRow(node: string): UsageRow {
  return {
    record_id: '',
    kind: 'call',
    request_id: '',
    job_id: null,
    session_id: null,
    trace_id: null,
    started_at: 0,
    ended_at: 0,
    node,
    workspace: '',
    app: '',
    key_id: '',
    end_user: null,
    purpose: null,
    operation: null,
    endpoint: '',
    route: null,
    policy_version_id: null,
    provider: null,
    model: null,
    region: null,
    attempts: 0,
    attempt_reasons: null,
    outcome: 'ok',
    status: null,
    error_code: null,
    error_param: null,
    replayed: false,
    cache: null,
    audio_seconds: null,
    billable_audio_seconds: null,
    video_seconds: null,
    input_tokens: null,
    output_tokens: null,
    characters: null,
    images: null,
    credits: null,
    cost_usd: null,
    estimated: false,
    received_bytes: 0,
    sent_bytes: 0,
    total_ms: 0,
    body_ms: null,
    upstream_ms: null,
    first_ms: null,
  }
}

/** The answer was there before its client left. */
const ANSWERED: RecorderNote = Object.freeze({})

/** The recorder of the console. */
interface ConsoleRecorder extends Recorder {
  start(inFlight: () => number): void
}

/** Tells the ledger what the recorder of the console is told. */
export class LedgerRecorder implements ConsoleRecorder {
  readonly #recorder: ConsoleRecorder
  readonly #ledger: UsageLedger

  constructor(recorder: ConsoleRecorder, ledger: UsageLedger) {
    this.#recorder = recorder
    this.#ledger = ledger
  }

  start(inFlight: () => number): void {
    this.#recorder.start(inFlight)
  }

  answered(exchange: EndedExchange, call: OpenCall, status: number): RecorderNote {
    const note = this.#recorder.answered(exchange, call, status)
    // The client has left before, and `ended` has waited for this.
    if (exchange.status !== null) this.#ledger.over(exchange, call)
    return note ?? ANSWERED
  }

  ended(exchange: EndedExchange, call: OpenCall, note: RecorderNote): void {
    this.#recorder.ended(exchange, call, note)
    // Else its handler is still at work: `answered` is called when it is done.
    if (note !== null) this.#ledger.over(exchange, call)
  }

  wentOn(exchange: EndedExchange, call: EndedCall): void {
    this.#recorder.wentOn(exchange, call)
  }

  ran(job: RecordedJob, call: OpenCall, run: EndedRun): void {
    this.#recorder.ran(job, call, run)
    this.#ledger.ran(job, call, run)
  }
}
