import type { GatewayError } from '../contracts/errors.ts'
import { idTimeMs } from '../contracts/ids.ts'
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
import { type Clock, systemClock } from '../contracts/time.ts'
import { CallEndpoints } from './call-endpoints.ts'
import type { KeptPlace } from './open-segment.ts'
import { RecordRow } from './record-row.ts'
import type { WriteAhead } from './write-ahead.ts'

/**
 * Records that are made one after the other: at 5,000 calls a second making one between what calls do otherwise took
 * nearly twice as long, as the caches of a CPU have lost what it needs by then.
 */
const WAITING_MAX = 64
/** A call with larger bodies waits for no others: they may be in memory for as long as it does. */
const SMALL_BYTES = 64 * 1024

export interface LedgerDependencies {
  readonly rows: WriteAhead
  /** The name of this process. */
  readonly node: string
  /** The documented field that an error names; null: it names none. */
  readonly paramOf: (failure: GatewayError) => string | null
  /** Endpoints whose requests have records, such as `POST /v1/chat`. */
  readonly calls: ReadonlySet<string>
  readonly clock?: Clock
}

/**
 * Writes a record of every call, job and live session when it is over: its answer is out or no caller waits for it,
 * its handler has ended, and its money is settled. A record is in the kernel before the state is told of its
 * money, so that none is missing whose money was charged; where the answer was not out by then it is written again.
 *
 * Sums are exact: records cost what was charged. The submission of a job has no record but the job's, which is
 * written when it ends; an answer that is given again costs nothing.
 */
export class UsageLedger implements UsageKeeper {
  readonly #rows: WriteAhead
  readonly #clock: Clock
  /** The one that is being written. */
  readonly #record: RecordRow
  /**
   * Calls that were charged and are not over; each knows its place in here. A map of them would cost as much as the
   * rest of a record.
   */
  readonly #charged: OpenCall[] = []
  readonly #waiting: WaitingCalls
  /** Live sessions that have no record yet, and what each knows of itself; null: it is over, but for its money. */
  readonly #sessions = new Map<OpenCall, (() => SessionFacts) | null>()
  /** The amount that the journal was told for each of them. */
  readonly #toldOfSessions = new WeakMap<OpenCall, number>()
  readonly #held: HeldCalls
  readonly #endpoints: CallEndpoints

  constructor({ rows, node, paramOf, calls, clock = systemClock }: LedgerDependencies) {
    this.#clock = clock
    this.#endpoints = new CallEndpoints(calls)
    this.#waiting = new WaitingCalls(clock)
    this.#held = new HeldCalls(clock)
    this.#rows = rows
    this.#record = new RecordRow(node, this.#endpoints, paramOf, clock)
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
          this.#record.fillOpen(call, facts)
          add(this.#record.row)
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
    if (call.money.isSettled) {
      this.#ended(exchange, call)
      return
    }
    if (this.#sessions.has(call)) this.#sessions.set(call, null)
    call.money.onSettled(() => {
      call.money.onSettled(null)
      this.#ended(exchange, call)
    })
  }

  ending(job: RecordedJob, call: OpenCall, run: EndingRun): void {
    this.#record.fillRun(job, call, run)
    call.money.usagePlace = this.#rows.addKept(this.#record.row)
    this.#rows.flush()
  }

  ran(job: RecordedJob, call: OpenCall, run: EndingRun): void {
    const { became } = run
    const kept = call.money.usagePlace as KeptPlace | null
    call.money.usagePlace = null
    // Another node has it, or none has yet. Where the state did not tell, the record of another run replaces this.
    const isOver = became !== 'queued' && became !== 'processing' && became !== 'lost'
    if (!isOver && kept === null) return
    this.#record.fillRun(job, call, run)
    if (kept === null) this.#rows.add(this.#record.row)
    else this.#rows.addAgain(this.#record.row, kept)
  }

  /**
   * A job has ended without a worker. Its record is in the kernel when this returns.
   *
   * @returns false: it was lost
   */
  abandoned(ended: AbandonedJob): boolean {
    const { lost } = this.#rows
    this.#record.fillAbandoned(ended)
    this.#rows.add(this.#record.row)
    this.#rows.flush()
    return this.#rows.lost === lost
  }

  /**
   * A node has died, and its calls were charged by estimates. Its record is in the kernel when this returns.
   *
   * @param app that the key is of; empty: it is not known any more
   * @returns false: it was lost
   */
  lostMoney(workspace: string, app: string, money: LostMoney): boolean {
    const { lost } = this.#rows
    this.#record.fillLost(workspace, app, money)
    this.#rows.add(this.#record.row)
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
    if (call.money.chargedAt < 0) {
      call.money.chargedAt = this.#charged.length
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
      if (call.money.usagePlace === null) this.#keep(call.exchange as EndedExchange, call)
  }

  #heldSessions(isAll: boolean): HeldEntry[] {
    const entries: HeldEntry[] = []
    for (const call of this.#sessions.keys()) {
      const micros = call.money.chargedMicros + call.money.accruedMicros
      if (!isAll && this.#toldOfSessions.get(call) === micros) continue
      this.#toldOfSessions.set(call, micros)
      const id = call.sessionId as string
      entries.push({ key: id, session: { id, micros } })
    }
    return entries
  }

  /** Writes what is known of a call that is not over. */
  #keep(exchange: EndedExchange, call: OpenCall): void {
    this.#record.fill(exchange, call, this.#clock.wallNow(), exchange.elapsedMs)
    const before = call.money.usagePlace as KeptPlace | null
    if (before === null) call.money.usagePlace = this.#rows.addKept(this.#record.row)
    else this.#rows.addAgain(this.#record.row, before, true)
  }

  /** Writes what is known of a session that has no record yet. */
  #keepOpen(call: OpenCall): void {
    const facts = this.#sessions.get(call)
    if (facts === undefined) return
    this.#record.fillOpen(call, facts)
    this.#rows.addOpen(this.#record.row)
  }

  /** Has a record be made of the call with the next ones. */
  #ended(exchange: EndedExchange, call: OpenCall): void {
    if (call.money.chargedAt >= 0) this.#forget(call)
    const waiting = this.#waiting
    waiting.add(call, exchange.elapsedMs)
    this.#rows.expect()
    if (call.sessionId !== null) this.#rows.flush()
    else if (waiting.isFull || exchange.receivedBytes + exchange.sentBytes > SMALL_BYTES)
      this.#recordWaiting()
  }

  readonly #recordEnded = (call: OpenCall, endedAtMs: number, elapsedMs: number): void => {
    this.#record.fill(call.exchange as EndedExchange, call, endedAtMs, elapsedMs)
    const kept = call.money.usagePlace as KeptPlace | null
    call.money.usagePlace = null
    if (call.sessionId !== null) this.#sessions.delete(call)
    if (kept === null) this.#rows.add(this.#record.row)
    else this.#rows.addAgain(this.#record.row, kept)
  }

  #recordWaiting(): void {
    this.#waiting.take(this.#recordEnded)
  }

  #forget(call: OpenCall): void {
    const last = this.#charged.pop() as OpenCall
    if (last !== call) {
      this.#charged[call.money.chargedAt] = last
      last.money.chargedAt = call.money.chargedAt
    }
    call.money.chargedAt = -1
  }

  /** A job is recorded by its runs. */
  #isCall(exchange: EndedExchange, { principal, jobId }: EndedCall): boolean {
    if (principal === null || jobId !== null || exchange.pattern === null) return false
    return this.#endpoints.of(exchange).isCall
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
    // Calls that the state has never taken have expired there.
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
