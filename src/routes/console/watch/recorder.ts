import { randomUUID } from 'node:crypto'
import { ERRORS } from '../../../errors.ts'
import type { Trail } from '../../../gateway/gateway.ts'
import type { Logger } from '../../../log.ts'
import type { ConsoleState, NodeSample, RequestRecord } from '../../../schema/console.ts'
import { Allowance } from './allowance.ts'
import { requestRecord, runRecord, type WatchedExchange, type WatchedJob } from './record.ts'
import { type SampledNode, sampleOf } from './sampler.ts'
import { type KeyTally, Tallies, type WorkspaceTally } from './tally.ts'
import { Writes } from './writes.ts'

/** Records are written every tick; steps of samples end at multiples of theirs, on all nodes at the same moments. */
const TIMING: RecorderTiming = { tickMs: 1_000, stepMs: 5_000 }
const KEEP_SAMPLES_MS = 3_600_000
/** Name of the keys that the playground makes for itself. */
const PLAYGROUND_KEY = 'playground'
/** Requests that are looked at closely in each second; as many besides that were failed over. */
const LOOKS = 100
/** Failed requests that are recorded in each second: all of them, short of a storm. */
const FAILURES = 400

/** A request that is looked at closely. */
class Look {
  readonly key: KeyTally
  readonly addedMs: number

  constructor(key: KeyTally, addedMs: number) {
    this.key = key
    this.addedMs = addedMs
  }
}

/** What was found out about a request when its answer was there; null: nothing. */
export type Seen = Look | KeyTally | null

/** Is told of every request with a key and of every run of a job, for the console. Nothing of it throws. */
export interface Recorder {
  /** The answer is there, and not on its way yet. @returns what `ended` is told */
  answered(exchange: WatchedExchange, trail: Trail, status: number): Seen
  /** The answer is out, or the client has left. */
  ended(exchange: WatchedExchange, trail: Trail, seen: Seen): void
  /** It has ended now, and its client had left before. */
  wentOn(exchange: WatchedExchange, trail: Trail): void
  /** A run of a job is over. */
  ran(job: WatchedJob, trail: Trail, milliseconds: number): void
}

interface RecorderTiming {
  readonly tickMs: number
  readonly stepMs: number
}

export interface RecorderParts {
  readonly state: ConsoleState
  readonly node: Omit<SampledNode, 'inFlight'>
  readonly log: Logger
  readonly timing?: RecorderTiming
}

/**
 * Counts requests, looks at some of them closely, and writes both to the state. Requests must not cost more for it: of
 * most of them no more is done than to find the key's tally and add to it.
 */
export class BatchingRecorder implements Recorder {
  readonly #parts: RecorderParts
  readonly #timing: RecorderTiming
  readonly #tallies = new Tallies()
  readonly #looks = new Allowance(LOOKS)
  readonly #failovers = new Allowance(LOOKS)
  readonly #failures = new Allowance(FAILURES)
  readonly #writes: Writes
  #records: RequestRecord[] = []
  #inFlight = () => 0
  #timer: NodeJS.Timeout | null = null
  /** Which step this is, in multiples since 1970. */
  #step: number
  /** On the clock of `performance.now()`. */
  #stepStartMs = performance.now()

  constructor(parts: RecorderParts) {
    this.#parts = parts
    this.#timing = parts.timing ?? TIMING
    this.#step = this.#stepAt(this.#currentTick())
    this.#writes = new Writes(parts.log)
  }

  /** Begins to write. @param inFlight requests that are not answered yet, and jobs that run */
  start(inFlight: () => number): void {
    this.#inFlight = inFlight
    this.#schedule(this.#currentTick())
  }

  answered(exchange: WatchedExchange, trail: Trail, status: number): Seen {
    // Its client has left: `ended` was told.
    if (trail.principal === null || exchange.status !== null || isOwnRead(exchange, trail)) return null
    const key = this.#tallies.ofKey(trail.principal)
    const plain = this.#looks.take(key.workspace.looks)
    if (!plain && !this.#isRemarkable(key.workspace, hasFailed(status, trail), trail)) return key
    const addedMs = Math.max(0, exchange.elapsedMs - exchange.bodyMs - trail.elsewhereMs)
    // Failures have more than their share: they would pass for the whole.
    if (plain) key.workspace.addedMs.push(addedMs)
    return new Look(key, addedMs)
  }

  ended(exchange: WatchedExchange, trail: Trail, seen: Seen): void {
    if (trail.principal === null || isOwnRead(exchange, trail)) return
    const look = seen instanceof Look ? seen : null
    let key = seen instanceof Look ? seen.key : seen
    if (key === null || key.gone) key = this.#tallies.ofKey(trail.principal)
    const { workspace } = key
    const failed = hasFailed(exchange.status, trail)
    key.used = true
    workspace.requests += 1
    if (failed) {
      workspace.errors += 1
      if (isServerError(exchange.status, trail)) workspace.serverErrors += 1
    }
    workspace.attempted(trail.attempts)
    if (look !== null || (failed && this.#failures.take(workspace.failures))) {
      workspace.recorded += 1
      this.#records.push(requestRecord(exchange, trail, look === null ? null : look.addedMs))
    } else if (failed) workspace.failuresDropped += 1
  }

  wentOn(exchange: WatchedExchange, trail: Trail): void {
    if (trail.principal === null) return
    const { workspace } = this.#tallies.ofKey(trail.principal)
    if (this.#failures.take(workspace.failures)) this.#records.push(requestRecord(exchange, trail, null))
  }

  ran(job: WatchedJob, trail: Trail, milliseconds: number): void {
    const workspace = this.#tallies.ofWorkspace(job.workspace)
    workspace.attempted(trail.attempts)
    const plain = this.#looks.take(workspace.looks)
    if (plain || this.#isRemarkable(workspace, trail.failure !== null, trail))
      this.#records.push(runRecord(job, trail, milliseconds))
  }

  /** Writes what is left. Resolves also when the state does not take it. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#putRecords()
    this.#putSample(Date.now())
    await this.#writes.close()
  }

  /** It has failed, or was answered by another entry than the first, and there is room for one more of these. */
  #isRemarkable(workspace: WorkspaceTally, failed: boolean, { attempts }: Trail): boolean {
    if (failed) return this.#failures.take(workspace.failures)
    return attempts.length > 1 && this.#failovers.take(workspace.failovers)
  }

  /** Ticks with the clock, so that the steps of all nodes end together. */
  #schedule(tick: number): void {
    this.#timer = setTimeout(() => this.#onTick(), (tick + 1) * this.#timing.tickMs - Date.now()).unref()
  }

  #onTick(): void {
    const tick = this.#currentTick()
    this.#looks.renew()
    this.#failovers.renew()
    this.#failures.renew()
    this.#putRecords()
    const step = this.#stepAt(tick)
    if (step !== this.#step) this.#putSample(step * this.#timing.stepMs)
    this.#step = step
    this.#writes.send()
    this.#schedule(tick)
  }

  /** The nearest one: timers fire a little early, too. */
  #currentTick(): number {
    return Math.round(Date.now() / this.#timing.tickMs)
  }

  #stepAt(tick: number): number {
    return Math.floor((tick * this.#timing.tickMs) / this.#timing.stepMs)
  }

  #putRecords(): void {
    if (this.#records.length === 0) return
    const { requests } = this.#parts.state
    const [token, records] = [randomUUID(), this.#records]
    this.#records = []
    this.#writes.put(() => requests.add(token, records))
  }

  #putSample(atMs: number): void {
    const { samples, keyUses } = this.#parts.state
    const sample = this.#sample(atMs)
    this.#writes.put(() => samples.add(sample, KEEP_SAMPLES_MS))
    const used = this.#tallies.usedKeys()
    const uses = Object.fromEntries(used.map((id) => [id, atMs]))
    if (used.length > 0) this.#writes.put(() => keyUses.note(uses))
    this.#tallies.clear()
    this.#stepStartMs = performance.now()
  }

  #sample(atMs: number): NodeSample {
    const node = { ...this.#parts.node, inFlight: this.#inFlight }
    const stepMs = Math.round(performance.now() - this.#stepStartMs)
    return sampleOf(node, this.#tallies, { atMs, stepMs })
  }
}

/** What the playground reads for itself, such as `GET /v1/me` and how a job stands, is no call of anybody. */
function isOwnRead({ method }: WatchedExchange, { principal }: Trail): boolean {
  return method === 'GET' && principal?.key.name === PLAYGROUND_KEY
}

function hasFailed(status: number | null, { failure }: Trail): boolean {
  return failure !== null || (status ?? 0) >= 400
}

/** The gateway or its providers failed, rather than the caller; also behind the beginning of a streamed answer. */
function isServerError(status: number | null, { failure }: Trail): boolean {
  return (status ?? 0) >= 500 || (failure !== null && ERRORS[failure.code].status >= 500)
}
