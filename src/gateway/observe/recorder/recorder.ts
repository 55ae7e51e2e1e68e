import { randomUUID } from 'node:crypto'
import type { ByteBudget } from '../../../contracts/budget.ts'
import type { Entry, Snapshot } from '../../../contracts/catalog.ts'
import {
  type BreakerView,
  type BudgetName,
  type ConsoleState,
  type EndUserSample,
  type LiveSample,
  type NodeSample,
  type RequestRecord,
  type SampledFailure,
  type ShadowSample,
  UNTRIED_MS,
  type UnwellModel,
} from '../../../contracts/console.ts'
import { ERRORS } from '../../../contracts/errors.ts'
import { inTurns } from '../../../contracts/in-turns.ts'
import type { Logger } from '../../../contracts/log.ts'
import type {
  EndedCall,
  EndedExchange,
  EndedRun,
  RecordedJob,
  Recorder,
  RecorderNote,
} from '../../../contracts/recorder.ts'
import { type Clock, systemClock, type Timer } from '../../../contracts/time.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import { servedRoutes } from '../metrics/node-readings.ts'
import { Allowance } from './allowance.ts'
import { requestRecord, runRecord } from './record.ts'
import { KeyTally, Tallies, TOLD_MODELS_MAX, type WorkspaceTally } from './tally.ts'

/** Workspaces that a sample names. */
const WORKSPACES_MAX = 50
/** Entries that are not closed, as far as a sample names them. */
const BREAKERS_MAX = 100
/** Budgets that a sample names. */
const REFUSED_BUDGETS_MAX = 100
/** Live sessions that a sample names: samples are kept for an hour. */
const SESSIONS_MAX = 50

/** Health of entries, on the node's clock. */
interface Health {
  condition(
    entry: Entry,
    nowMs: number,
  ): {
    readonly state: BreakerView['state'] | 'closed'
    readonly sinceMs: number | null
    readonly lastFailure: { readonly failure: Failure; readonly atMs: number } | null
  }
}

interface SampledNode {
  /** Unique to this process, and fit to be shown. */
  readonly name: string
  readonly snapshot: () => Pick<Snapshot, 'apps'>
  readonly health: Health
  readonly budget: Pick<ByteBudget, 'used' | 'limit'>
  readonly live: () => readonly LiveSample[]
  /** Findings of shadows since it was called last. */
  readonly shadows: () => readonly ShadowSample[]
  /** End users near the end of their budgets, since it was called last. */
  readonly endUsers: () => readonly EndUserSample[]
  /** Requests that are not answered yet, and jobs that run. */
  readonly inFlight: () => number
}

/** Builds the sample of a node for the step that ends now. */
function nodeSample(
  { name, budget, live, shadows, endUsers, inFlight }: SampledNode,
  tallies: Tallies,
  counted: Required<Pick<NodeSample, 'atMs' | 'stepMs' | 'attempts' | 'breakers' | 'unwell'>> &
    Pick<NodeSample, 'untried' | 'refusedBudgets'>,
): NodeSample {
  const sessions = live()
  const named = endUsers()
  return {
    node: name,
    ...counted,
    memoryUsedBytes: budget.used,
    memoryLimitBytes: budget.limit,
    inFlight: inFlight(),
    live: { open: sessions.length, sessions: sessions.slice(-SESSIONS_MAX) },
    shadows: shadows(),
    ...(named.length === 0 ? {} : { endUsers: named }),
    all: tallies.all(),
    workspaces: tallies.busiest(WORKSPACES_MAX),
  }
}

interface UnwellEntry extends Pick<BreakerView, 'workspace' | 'route' | 'state' | 'lastFailure'> {
  readonly entry: Entry
  /** Epoch milliseconds. */
  readonly sinceMs: number
  /** No attempt is made at it, so that it stays half-open for ever. */
  readonly isUntried: boolean
}

/** Entries that are not closed. */
function unwellEntries(
  { snapshot, health }: Pick<SampledNode, 'snapshot' | 'health'>,
  clock: Clock,
): UnwellEntry[] {
  const nowMs = clock.now()
  const epochMs = clock.wallNow() - nowMs
  const unwell: UnwellEntry[] = []
  for (const { workspace, name: route, entries } of servedRoutes(snapshot())) {
    for (const entry of entries) {
      const { state, sinceMs, lastFailure: last } = health.condition(entry, nowMs)
      if (state === 'closed') continue
      unwell.push({
        ...{ workspace, route, entry, state },
        sinceMs: Math.round(epochMs + (sinceMs ?? nowMs)),
        lastFailure: last && sampledFailure(last.failure, Math.round(epochMs + last.atMs)),
        isUntried: state === 'half_open' && sinceMs !== null && nowMs - sinceMs >= UNTRIED_MS,
      })
    }
  }
  return unwell
}

/**
 * Takes from each workspace in turns, so that none uses up the list: first the ones that are not half-open, then the
 * youngest, and last the untried ones.
 */
function breakersOf(unwell: readonly UnwellEntry[]): BreakerView[] {
  const isHalfOpen = ({ state }: UnwellEntry) => Number(state === 'half_open')
  const worst = unwell.toSorted(
    (one, other) => isHalfOpen(one) - isHalfOpen(other) || other.sinceMs - one.sinceMs,
  )
  return inTurns(worst, ({ workspace }) => workspace)
    .sort((one, other) => Number(one.isUntried) - Number(other.isUntried))
    .slice(0, BREAKERS_MAX)
    .map(({ entry, isUntried: _, ...shown }) => ({
      ...shown,
      provider: entry.provider.name,
      model: entry.model,
    }))
}

/**
 * Their models, in one order always, so that a model which there is room for has a place in each sample while it is
 * unwell.
 */
function unwellModels(unwell: readonly UnwellEntry[]): UnwellModel[] {
  const models = new Map<string, UnwellModel>()
  for (const { entry } of unwell) {
    const { provider, model } = entry
    // Names of providers have no space.
    models.set(`${provider.name} ${model}`, [provider.name, model])
  }
  const inOrder = [...models].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, model]) => model)
  return inTurns(inOrder, ([provider]) => provider)
}

/** A failure without the provider's words. */
function sampledFailure({ status, reason }: Failure, atMs: number): SampledFailure {
  return { atMs, status, reason }
}

/** How often a write is tried; with a second in between, and two for an answer at most. */
const TRIES_MAX = 5
/** Writes that wait, of which the oldest are given up for younger ones. */
const WAITING_MAX = 16

interface Write {
  readonly run: () => Promise<void>
  tries: number
}

/**
 * Writes what the state may do without: what it refuses is tried again a few times, then given up. Each write has to be
 * idempotent.
 */
class Writes {
  readonly #log: Logger
  #waiting: Write[] = []
  #running: Promise<void> | null = null
  /** The state has refused one, and taken none since. */
  #away = false

  constructor(log: Logger) {
    this.#log = log
  }

  put(run: () => Promise<void>): void {
    this.#waiting.push({ run, tries: 0 })
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
  }

  /** Sends what waits, all of it at once: the state flushes it together. Does nothing while the last are under way. */
  send(): void {
    if (this.#running !== null || this.#waiting.length === 0) return
    this.#running = this.#sendAll().finally(() => {
      this.#running = null
    })
  }

  /** Resolves when what waits was tried once more. */
  async close(): Promise<void> {
    await this.#running
    await this.#sendAll()
  }

  async #sendAll(): Promise<void> {
    const writes = this.#waiting
    this.#waiting = []
    const refused = await Promise.all(writes.map(async (write) => ((await this.#try(write)) ? [] : [write])))
    const left = refused.flat().filter(({ tries }) => tries < TRIES_MAX)
    this.#waiting = [...left, ...this.#waiting].slice(-WAITING_MAX)
  }

  async #try(write: Write): Promise<boolean> {
    write.tries += 1
    try {
      await write.run()
      this.#away = false
      return true
    } catch (error) {
      if (!this.#away) this.#log.warn({ err: error }, 'the state does not take what the console shows')
      this.#away = true
      return false
    }
  }
}

/** Records are written every tick; steps of samples end at multiples of theirs, on all nodes at the same moments. */
const TIMING: RecorderTiming = { tickMs: 1_000, stepMs: 5_000 }
const KEEP_SAMPLES_MS = 3_600_000
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

export interface RecorderTiming {
  readonly tickMs: number
  readonly stepMs: number
}

export interface RecorderDependencies {
  readonly state: ConsoleState
  readonly node: Omit<SampledNode, 'inFlight'>
  readonly log: Logger
  readonly clock?: Clock
  readonly timing?: Partial<RecorderTiming>
}

/**
 * Counts requests, looks at some of them closely, and writes both to the state. Requests must not cost more for it: of
 * most of them no more is done than to find the key's tally and add to it.
 */
export class BatchingRecorder implements Recorder {
  readonly #deps: RecorderDependencies
  readonly #timing: RecorderTiming
  readonly #clock: Clock
  readonly #tallies: Tallies
  readonly #looks = new Allowance(LOOKS)
  readonly #failovers = new Allowance(LOOKS)
  readonly #failures = new Allowance(FAILURES)
  readonly #writes: Writes
  /** Budgets that did not cover a call in this step. */
  readonly #refusedBudgets = new Map<string, BudgetName>()
  #records: RequestRecord[] = []
  #inFlight = () => 0
  #timer: Timer | null = null
  /** The last sample had no room for all models. */
  #isCut = false
  /** Which step this is, in multiples since 1970. */
  #step: number
  /** On the node's clock. */
  #stepStartMs: number

  constructor(deps: RecorderDependencies) {
    this.#deps = deps
    this.#clock = deps.clock ?? systemClock
    this.#tallies = new Tallies(this.#clock)
    this.#stepStartMs = this.#clock.now()
    this.#timing = { ...TIMING, ...deps.timing }
    this.#step = this.#stepAt(this.#currentTick())
    this.#writes = new Writes(deps.log)
  }

  /** Begins to write. @param inFlight requests that are not answered yet, and jobs that run */
  start(inFlight: () => number): void {
    this.#inFlight = inFlight
    this.#schedule(this.#currentTick())
  }

  answered(exchange: EndedExchange, call: EndedCall, status: number): RecorderNote {
    // Its client has left: `ended` was told.
    if (call.principal === null || exchange.status !== null || isOwnRead(exchange, call, status)) return null
    const key = this.#tallies.ofKey(call.principal)
    const plain = this.#looks.take(key.workspace.looks)
    if (!plain && !this.#isRemarkable(key.workspace, hasFailed(status, call), call)) return key
    const addedMs = Math.max(0, exchange.elapsedMs - exchange.bodyMs - call.upstreamWaitMs)
    // Failures have more than their share: they would pass for the whole. And what is answered here alone, such as a
    // question of usage, has no provider that it would come later to.
    if (plain && call.routing.attempts.length > 0) key.workspace.addedMs.push(addedMs)
    return new Look(key, addedMs)
  }

  ended(exchange: EndedExchange, call: EndedCall, note: RecorderNote): void {
    if (call.principal === null || isOwnRead(exchange, call, exchange.status)) return
    const look = note instanceof Look ? note : null
    let key = look === null ? (note instanceof KeyTally ? note : null) : look.key
    if (key === null || key.gone) key = this.#tallies.ofKey(call.principal)
    const { workspace } = key
    const failed = hasFailed(exchange.status, call)
    key.used = true
    workspace.requests += 1
    if (failed) {
      workspace.errors += 1
      if (isServerError(exchange.status, call)) workspace.serverErrors += 1
      this.#noteBudget(call)
    }
    workspace.attempted(call.routing.attempts)
    if (look !== null || (failed && this.#failures.take(workspace.failures))) {
      workspace.recorded += 1
      this.#records.push(
        requestRecord(exchange, call, look === null ? null : look.addedMs, this.#clock.wallNow()),
      )
    } else if (failed) workspace.failuresDropped += 1
  }

  wentOn(exchange: EndedExchange, call: EndedCall): void {
    if (call.principal === null) return
    const { workspace } = this.#tallies.ofKey(call.principal)
    if (this.#failures.take(workspace.failures))
      this.#records.push(requestRecord(exchange, call, null, this.#clock.wallNow()))
  }

  ran(job: RecordedJob, call: EndedCall, { milliseconds }: EndedRun): void {
    const workspace = this.#tallies.ofWorkspace(job.workspace)
    workspace.attempted(call.routing.attempts)
    this.#noteBudget(call)
    const plain = this.#looks.take(workspace.looks)
    if (plain || this.#isRemarkable(workspace, call.failure !== null, call))
      this.#records.push(runRecord(job, call, milliseconds, this.#clock.wallNow()))
  }

  /** Writes what is left. Resolves also when the state does not take it. */
  async close(): Promise<void> {
    this.#timer?.close()
    this.#putRecords()
    this.#putSample(this.#clock.wallNow())
    await this.#writes.close()
  }

  /** Notes which budget did not cover a call, if it failed for that: alerts tell of it. */
  #noteBudget({ failure, principal }: EndedCall): void {
    if (failure?.code !== 'BUDGET_EXCEEDED' || principal === null) return
    const budget = failure.extra.details?.budget
    if (this.#refusedBudgets.size === REFUSED_BUDGETS_MAX || (budget !== 'key' && budget !== 'workspace'))
      return
    const named = { workspace: principal.workspace.id, key: budget === 'key' ? principal.key.id : null }
    this.#refusedBudgets.set(JSON.stringify(named), named)
  }

  /** It has failed, or was answered by another entry than the first, and there is room for one more of these. */
  #isRemarkable(workspace: WorkspaceTally, failed: boolean, { routing: { attempts } }: EndedCall): boolean {
    if (failed) return this.#failures.take(workspace.failures)
    return attempts.length > 1 && this.#failovers.take(workspace.failovers)
  }

  /** Ticks with the clock, so that the steps of all nodes end together. */
  #schedule(tick: number): void {
    const waitMs = (tick + 1) * this.#timing.tickMs - this.#clock.wallNow()
    this.#timer = this.#clock.after(waitMs, () => this.#onTick()).unref()
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
    return Math.round(this.#clock.wallNow() / this.#timing.tickMs)
  }

  #stepAt(tick: number): number {
    return Math.floor((tick * this.#timing.tickMs) / this.#timing.stepMs)
  }

  #putRecords(): void {
    if (this.#records.length === 0) return
    const { requests } = this.#deps.state
    const [token, records] = [randomUUID(), this.#records]
    this.#records = []
    this.#writes.put(() => requests.add(token, records))
  }

  #putSample(atMs: number): void {
    const { samples, keyUses } = this.#deps.state
    const sample = this.#sample(atMs)
    this.#writes.put(() => samples.add(sample, KEEP_SAMPLES_MS))
    const used = this.#tallies.usedKeys()
    const uses = Object.fromEntries(used.map((id) => [id, atMs]))
    if (used.length > 0) this.#writes.put(() => keyUses.note(uses))
    this.#tallies.clear()
    this.#refusedBudgets.clear()
    this.#stepStartMs = this.#clock.now()
  }

  #sample(atMs: number): NodeSample {
    const node = { ...this.#deps.node, inFlight: this.#inFlight }
    const stepMs = Math.round(this.#clock.now() - this.#stepStartMs)
    const entries = unwellEntries(node, this.#clock)
    const models = unwellModels(entries.filter(({ isUntried }) => !isUntried))
    const untried = unwellModels(entries.filter(({ isUntried }) => isUntried)).slice(0, TOLD_MODELS_MAX)
    const refusedBudgets = [...this.#refusedBudgets.values()]
    const { kept: attempts, leftOut } = this.#tallies.attempts()
    this.#tellOfCut(leftOut + Math.max(models.length - TOLD_MODELS_MAX, 0))
    const unwell = models.slice(0, TOLD_MODELS_MAX)
    return nodeSample(node, this.#tallies, {
      ...{ atMs, stepMs, attempts, unwell, breakers: breakersOf(entries) },
      ...(untried.length === 0 ? {} : { untried }),
      ...(refusedBudgets.length === 0 ? {} : { refusedBudgets }),
    })
  }

  /** Tells in the log when there is no room for some models, once until there was for all. */
  #tellOfCut(count: number): void {
    if (count > 0 && !this.#isCut) this.#deps.log.warn({ count }, 'alerts do not see all models')
    this.#isCut = count > 0
  }
}

/**
 * True for reads of the playground itself, such as `GET /v1/me` and the state of a job, which are not calls. A live
 * session is a call, although its handshake is a `GET`.
 */
function isOwnRead({ method }: EndedExchange, { principal }: EndedCall, status: number | null): boolean {
  return method === 'GET' && status !== 101 && principal?.key.kind === 'playground'
}

function hasFailed(status: number | null, { failure }: EndedCall): boolean {
  return failure !== null || (status ?? 0) >= 400
}

/** The gateway or its providers failed, rather than the caller; also behind the beginning of a streamed answer. */
function isServerError(status: number | null, { failure }: EndedCall): boolean {
  return (status ?? 0) >= 500 || (failure !== null && ERRORS[failure.code].status >= 500)
}
