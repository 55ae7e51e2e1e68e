import type { AudioRef, BodyHolds } from '../../../contracts/audio.ts'
import type { ByteBudget, HolderPace, MemoryHolder } from '../../../contracts/budget.ts'
import type { Entry, Shadow } from '../../../contracts/catalog.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type {
  BothSides,
  References,
  ShadowComparison,
  ShadowPair,
  ShadowSkip,
  ShadowWatch,
} from '../../../contracts/shadow.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { AttemptOutcome } from '../../../contracts/watch.ts'
import { attemptWhole } from '../attempt/attempt.ts'
import type { Answer } from '../attempt/operation.ts'
import { CallContext } from '../context/call-context.ts'
import type { ActiveCall, ShadowAsker, ShadowedAnswer } from '../context/services.ts'
import type { Call } from '../facts/call.ts'
import { priceFor } from '../facts/facts-for.ts'
import { meter, reportedBy, type Usage } from '../facts/meter.ts'
import { settleAccountUnits, takeAccountUnits } from '../facts/units.ts'
import { demandOf, exclusionOf } from '../select/eligibility.ts'
import { createCircuitBreakers, createLatencyTracker } from '../select/health.ts'
import { ReplicaPools } from '../select/replicas.ts'
import type { Candidate } from '../select/selection.ts'
import { countWordErrors } from './word-errors.ts'

/** Calls of shadows that a node makes at once, and those that wait for one of these to end. */
const AT_ONCE = 4
const WAITING_MAX = 16
/** Share of the memory of a node that bodies take which only shadows still read. */
const MEMORY_SHARE = 1 / 16
/** Share of the memory that has to be free for a shadow to hold any. */
const FREE_SHARE = 1 / 4
/** Longest text that is kept to be compared, in UTF-16 units. */
const TEXT_MAX = 512 * 1024
const DAY_SECONDS = 24 * 3600
/** How much longer than its deadline a call may take that a store holds up. */
const GRACE_MS = 5_000

/** A call of a shadow, under way or waiting. */
interface ShadowCall {
  readonly active: ActiveCall<TranscriptionTask>
  readonly shadow: Shadow
  readonly pair: ShadowPair
  /** The text that the caller got. */
  readonly text: string
  readonly milliseconds: number | null
  readonly costUsd: number | null
  readonly leaving: AbortController
  /** Gives the body back, and what is reckoned for it. */
  readonly release: () => void
}

interface ShadowDependencies {
  readonly holds: BodyHolds
  /** All of them are told. */
  readonly watches: readonly ShadowWatch[]
  /** Keeps both texts where a route says so; absent: none does. */
  readonly references?: Pick<References, 'keep' | 'forget'>
  readonly log: Logger
  readonly clock?: Clock
  /** Uniform in [0, 1): not that of the routes, whose draws must not depend on it. */
  readonly random?: () => number
}

/**
 * Makes calls again at the shadows of their routes, for comparison alone. Nothing of a shadow reaches the caller: it
 * begins when the call is settled; its attempts are on no context that is answered, logged, recorded or traced; no
 * money is reserved or charged for it; its health and latency are kept apart from those of entries, it takes no permits
 * of an account (`resolveShadow` refuses providers with any), only units that are left, and draws its own numbers.
 *
 * Its holdings are bounded: a few calls at once, a few that wait, bodies of a sixteenth of the memory. It never waits
 * for any of them. Under memory pressure, and when the node is to stop, calls of shadows are given up.
 */
export class Shadows implements ShadowAsker {
  readonly #deps: ShadowDependencies
  readonly #random: () => number
  /** Health of shadows: one that is down, or asked for a pause, is left alone for a while, too. */
  readonly #health = createCircuitBreakers()
  readonly #latency = createLatencyTracker()
  /** Their load and health as shadows find them: entries choose among servers by their own. */
  readonly #replicas: ReplicaPools
  readonly #running = new Map<ShadowCall, Promise<void>>()
  #waiting: ShadowCall[] = []
  #heldBytes = 0
  #ended = false

  constructor(deps: ShadowDependencies) {
    this.#deps = deps
    this.#random = deps.random ?? Math.random
    this.#replicas = new ReplicaPools(this.#random, deps.clock)
  }

  /** Calls that are under way or wait. */
  get pending(): number {
    return this.#running.size + this.#waiting.length
  }

  /** Bytes of memory in bodies that are held. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  offer(active: ActiveCall, answered: ShadowedAnswer): void {
    const { shadow } = answered.candidate.route
    const { call } = active
    if (shadow === null || this.#ended || !isHeard(active) || !isMeant(shadow, call)) return
    if (this.#random() >= shadow.share) return
    try {
      const made = this.#make(active, shadow, answered)
      if (typeof made === 'string') this.#skip(made)
      else this.#begin(made)
    } catch (error) {
      this.#deps.log.error({ err: error }, 'a shadow could not be asked')
    }
  }

  /** Takes nothing more. Resolves when nothing is under way and no body is being read any more. */
  close(): Promise<void> {
    this.#ended = true
    return this.giveUp('the node stops')
  }

  /** Gives up what is under way or waits. Resolves when its bodies are no longer read. */
  async giveUp(why: string): Promise<void> {
    for (const { pair, release } of this.#waiting.splice(0)) {
      release()
      this.#end(pair, 'abandoned', null)
    }
    for (const { leaving } of this.#running.keys()) leaving.abort(new Error(why))
    await Promise.all(this.#running.values())
  }

  #make(
    active: ActiveCall<TranscriptionTask>,
    shadow: Shadow,
    { candidate, result, costUsd, milliseconds }: ShadowedAnswer,
  ): ShadowCall | ShadowSkip {
    const { services, context, call } = active
    const { entry } = shadow
    const demand = demandOf(call, context.principal)
    if (demand.require?.retentionDays === 0) return 'retention'
    if (exclusionOf(entry, services.providers.get(entry.provider.kind), demand) !== null) return 'entry'
    if (!('text' in result) || result.text.length > TEXT_MAX) return 'text'
    if (this.#waiting.length >= WAITING_MAX) return 'busy'
    const { state, untilMs } = this.#health.view(entry, services.clock.now())
    if (state !== 'closed' && (untilMs ?? 0) > services.clock.now()) return 'health'
    const leaving = new AbortController()
    const release = this.#hold(active, leaving)
    if (typeof release === 'string') return release
    const pair = pairOf(context.principal.workspace.id, call.operation, candidate, entry)
    return { active, shadow, pair, text: result.text, milliseconds, costUsd, leaving, release }
  }

  /** Keeps the body of a call. @returns gives it back; or why it cannot be kept */
  #hold({ services, context, call }: ActiveCall<TranscriptionTask>, leaving: AbortController) {
    const { source } = call.payload.audio
    if (source.kind === 'arriving') return 'audio'
    const { budget } = services
    const bytes = memoryOf(source)
    const isShort = budget.used > budget.limit * (1 - FREE_SHARE)
    if (bytes > 0 && (isShort || this.#heldBytes + bytes > budget.limit * MEMORY_SHARE)) return 'memory'
    // An upload outlives the calls that it is used for.
    const letGo = source.kind === 'pieces' ? () => {} : this.#deps.holds.hold(source)
    if (letGo === null) return 'audio'
    this.#heldBytes += bytes
    const holder = new ShadowHolder(context.principal.workspace.id, bytes, leaving)
    if (bytes > 0) budget.enrol?.(holder)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#heldBytes -= bytes
      budget.dismiss?.(holder)
      letGo()
    }
  }

  #begin(call: ShadowCall): void {
    if (this.#running.size >= AT_ONCE) {
      this.#waiting.push(call)
      return
    }
    const done = this.#run(call)
      .catch((error: unknown) => this.#deps.log.error({ err: error }, 'a shadow could not be compared'))
      .finally(() => {
        call.release()
        this.#running.delete(call)
        const next = this.#waiting.shift()
        if (next !== undefined) this.#begin(next)
      })
    this.#running.set(call, done)
  }

  async #run(call: ShadowCall): Promise<void> {
    const { active, shadow, pair, text, leaving, release } = call
    const { entry } = shadow
    const { clock, state } = active.services
    const startMs = clock.now()
    if (leaving.signal.aborted) return this.#end(pair, 'abandoned', null)
    if (!this.#health.admit(entry, startMs)) return this.#skip('health')
    if (((await takeAccountUnits(state, entry.provider, active.call)) ?? 0) > 0) {
      this.#health.released(entry, startMs)
      return this.#skip('busy')
    }
    const settle = (usage: Usage | null) => settleAccountUnits(state, entry.provider, active.call, usage)
    const tooLate = () => leaving.abort(new Error('the shadow took too long'))
    const timer = clock.after(active.deadlineMs + GRACE_MS, tooLate)
    let answer: Answer<TranscriptionTask>
    try {
      const ended = await this.#ask(call, startMs)
      if ('failure' in ended) {
        settle(null)
        if (ended.blamed) this.#health.failed(entry, ended.failure, clock.now(), startMs)
        else this.#health.released(entry, startMs)
        return this.#end(pair, ended.failure.kind, null)
      }
      answer = ended.got
      this.#health.succeeded(entry, clock.now(), startMs)
    } catch {
      // It was given up, or a store failed.
      this.#health.released(entry, startMs)
      return this.#end(pair, 'abandoned', null)
    } finally {
      timer.close()
      release()
    }
    const milliseconds = clock.now() - startMs
    const { result } = answer
    answer.release()
    const metered = meter(active.call, reportedBy(result), priceFor(entry, active.call), clock.wallNow())
    settle(metered.usage)
    const errors = result.text.length > TEXT_MAX ? null : await countWordErrors(text, result.text)
    if (errors === null) return this.#end(pair, 'ok', null)
    await this.#keep(call, result.text)
    this.#end(pair, 'ok', {
      ...errors,
      milliseconds: bothSides(call.milliseconds, milliseconds),
      costUsd: bothSides(call.costUsd, metered.costUsd),
    })
  }

  /** Keeps both texts for a reference that the caller may bring, where the route says so. Never rejects. */
  async #keep({ active, shadow, pair, text, leaving }: ShadowCall, shadowText: string): Promise<void> {
    const { references } = this.#deps
    const { references: terms } = shadow
    if (references === undefined || terms === null) return
    const { context, call, job, services } = active
    const retentionDays = demandOf(call, context.principal).require?.retentionDays ?? null
    if (retentionDays !== null && terms.ttlSeconds > retentionDays * DAY_SECONDS) return
    const owner = { workspace: pair.workspace, callId: job?.id ?? context.id }
    const kept = { pair, texts: { entry: text, shadow: shadowText } }
    try {
      await references.keep(owner, kept, terms.ttlSeconds, leaving.signal)
      // Its owner may have deleted it meanwhile: whichever of the two comes last removes the texts.
      if (job === null) return
      const known = await services.state.jobs.get(job.id)
      if (known === null || known.erased) await references.forget(owner)
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'the texts of a shadow could not be kept')
    }
  }

  /** Asks the shadow as a call of its own would, one without a caller. */
  #ask({ active, shadow, leaving, pair }: ShadowCall, startMs: number) {
    const { services, context, call, deadlineMs } = active
    const own = new CallContext({ requestId: context.id, signal: leaving.signal })
    const { watch: _, ...others } = services
    const asked: ActiveCall<TranscriptionTask> = {
      services: {
        ...others,
        health: this.#health,
        latency: this.#latency,
        budget: withoutShare(services.budget),
      },
      context: own.identify(context.principal),
      call,
      signal: leaving.signal,
      job: null,
      deadlineMs,
      deadlineAtMs: startMs + deadlineMs,
    }
    const route = { ...context.principal.route, name: pair.route }
    const candidate = { route, entry: shadow.entry, forPurpose: false }
    const placed = this.#replicas.of(shadow.entry.provider)?.place() ?? null
    const attempt = { candidate, deadlineAtMs: asked.deadlineAtMs, last: true, resumes: false, placed }
    return attemptWhole(asked, attempt)
      .then((ended) => {
        if ('got' in ended) placed?.answered()
        else if (ended.blamed) placed?.failed(ended.failure)
        return ended
      })
      .finally(() => placed?.release())
  }

  #skip(reason: ShadowSkip): void {
    for (const watch of this.#deps.watches) watch.skipped(reason)
  }

  #end(pair: ShadowPair, outcome: AttemptOutcome, comparison: ShadowComparison | null): void {
    for (const watch of this.#deps.watches) watch.ended({ pair, outcome, comparison })
  }
}

/** Makes memory known that a shadow holds: as that of a sender who brings nothing it is the first to be taken back. */
class ShadowHolder implements MemoryHolder {
  readonly workspace: string
  readonly #bytes: number
  readonly #leaving: AbortController

  constructor(workspace: string, bytes: number, leaving: AbortController) {
    this.workspace = workspace
    this.#bytes = bytes
    this.#leaving = leaving
  }

  pace(): HolderPace {
    return { bytesPerSecond: 0, bytesLeft: Number.POSITIVE_INFINITY }
  }

  end(): number {
    this.#leaving.abort(new Error('its memory is needed'))
    return this.#bytes
  }
}

function isHeard(active: ActiveCall): active is ActiveCall<TranscriptionTask> {
  const { operation, payload } = active.call as Call
  return (operation === 'transcription' || operation === 'translation') && payload.live === undefined
}

function isMeant({ operations, purposes }: Shadow, { operation, selectors }: Call): boolean {
  if (!operations.some((one) => one === operation)) return false
  return purposes.length === 0 || (selectors.purpose !== null && purposes.includes(selectors.purpose.label))
}

/** Bytes of memory that a body takes. */
function memoryOf(source: AudioRef['source']): number {
  return source.kind === 'memory' ? source.blocks.reduce((sum, block) => sum + block.length, 0) : 0
}

function pairOf(
  workspace: string,
  operation: TranscriptionTask,
  { route, entry }: Candidate,
  shadow: Entry,
): ShadowPair {
  return {
    workspace,
    route: route.name,
    operation,
    provider: entry.provider.name,
    model: entry.model,
    shadowProvider: shadow.provider.name,
    shadowModel: shadow.model,
  }
}

function bothSides(entry: number | null, shadow: number | null): BothSides | null {
  return entry === null || shadow === null ? null : { entry, shadow }
}

/** The same memory, that counts against no share of a workspace: the caller's other calls need theirs. */
function withoutShare(budget: ByteBudget): ByteBudget {
  return {
    get limit() {
      return budget.limit
    },
    get used() {
      return budget.used
    },
    charge: (bytes) => budget.charge(bytes),
    tryReserve: (bytes) => budget.tryReserve(bytes),
    refund: (bytes) => budget.refund(bytes),
  }
}
