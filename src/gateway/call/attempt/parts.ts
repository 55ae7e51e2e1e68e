import type { TranscriptionResult, TranscriptPart } from '../../../contracts/calls.ts'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { Charge } from '../../../contracts/ledger.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { AudioCutter, AudioPart, CutPlan, HeardPart } from '../../../contracts/parts.ts'
import type { AttemptRecord } from '../../../contracts/recorder.ts'
import { toMilliseconds } from '../../../contracts/seconds.ts'
import { sleep } from '../../../contracts/time.ts'
import type { AdmittedContext } from '../context/call-context.ts'
import { chargeOf, NOTHING } from '../context/reservation.ts'
import type { ActiveCall } from '../context/services.ts'
import { isUnknown } from '../context/upstream-errors.ts'
import type { Call, JobContext } from '../facts/call.ts'
import { microsOf, usdOf } from '../facts/price.ts'
import type { Selection } from '../select/selection.ts'
import { attemptWhole } from './attempt.ts'
import { failOver } from './failover.ts'
import { appliedPurpose, buildOutcome, holdsNothing, joined, type Outcome, purposeSource } from './outcome.ts'
import { partFiles, warningsOf } from './part-files.ts'
import { stitched } from './stitch.ts'

/** Parts of one call that are heard at a time. */
const PARTS_AT_ONCE = 16
/** As many parts are reserved time for where the file does not tell its length. */
const UNKNOWN_COUNT = 256
/** Longest pause that an entry may ask for within one run of a job. */
const WAIT_MAX_MS = 120_000

/** A selection whose entries take parts of the audio. */
export type CutSelection = Selection & { readonly cut: CutPlan }

export function isCut(selection: Selection): selection is CutSelection {
  return selection.cut !== undefined
}

/** The call that money is set aside for: that of the whole, with what is heard twice at its cuts. */
export function partedCall(call: Call, { cut }: CutSelection): Call {
  const { payload } = call as Call<TranscriptionTask>
  const { audio } = payload
  if (audio.durationSeconds === null) return call
  const durationSeconds = audio.durationSeconds + ((cut.count ?? 1) - 1) * 2 * cut.overlapSeconds
  return { ...call, payload: { ...payload, audio: { ...audio, durationSeconds } } } as Call
}

/** The call as it is reserved for, with time to make its parts, and for as many rounds of them as there are. */
export function partedActive(active: ActiveCall, selection: CutSelection): ActiveCall {
  const { call, job, deadlineMs } = active
  // A caller who waits for the answer waits no longer for one in parts.
  const rounds = job === null ? 1 : 1 + Math.ceil((selection.cut.count ?? UNKNOWN_COUNT) / PARTS_AT_ONCE)
  return { ...active, call: partedCall(call, selection), deadlineMs: deadlineMs * rounds }
}

/** Counts the parts that entries are asked for now. */
class RunningCount {
  #count = 0
  #waiting: (() => void)[] = []

  async during<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    this.#count += 1
    try {
      return await ask()
    } finally {
      this.#count -= 1
      for (const wake of this.#waiting.splice(0)) wake()
    }
  }

  /** Resolves when `isSo`, or when none is asked for any more. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo() && this.#count > 0) await new Promise<void>((wake) => this.#waiting.push(wake))
  }
}

/** A transcription whose audio no entry takes whole: it is cut, its parts are heard side by side, and stitched. */
export class PartedCall {
  readonly #active: ActiveCall<TranscriptionTask>
  readonly #selection: CutSelection
  readonly #cutter: AudioCutter
  readonly #heard = new Map<number, HeardPart>()
  /** Contexts of parts that were begun and have no answer. */
  readonly #open = new Map<number, AdmittedContext>()
  readonly #attempts = new Map<number, readonly AttemptRecord[]>()
  /** When what is set aside for the call ends. */
  readonly #untilMs: number
  readonly #running = new RunningCount()
  #parts: readonly AudioPart[] = []

  constructor(active: ActiveCall, selection: CutSelection) {
    this.#active = active as ActiveCall<TranscriptionTask>
    this.#selection = selection
    const { cutter, clock } = active.services
    this.#untilMs = clock.now() + partedActive(active, selection).deadlineMs
    if (cutter === undefined) throw new Error('this node has nothing that cuts audio')
    this.#cutter = cutter
  }

  /** Cost of the answers so far, and of those whose end is unknown. */
  get charge(): Charge {
    const unknown = [...this.#open.values()].flatMap((context) =>
      context.money.estimate === null ? [] : chargeOf(context.money.estimate.entry, null, context),
    )
    return [...this.#heard.values()]
      .map(({ charge }) => charge)
      .concat(unknown)
      .reduce(sumOf, NOTHING)
  }

  /** A provider has done some of the work, or may have. */
  get isBegun(): boolean {
    return this.#heard.size > 0 || [...this.#open.values()].some(isUnknown)
  }

  /** @throws GatewayError as `AudioCutter.cut` and `failOver`; the signal's reason when the caller left */
  async run(): Promise<Outcome<TranscriptionTask>> {
    const { job, context, services } = this.#active
    try {
      this.#parts = await this.#cut()
      await context.externalWait(this.#hearAll(), services.clock)
      return this.#outcome()
    } finally {
      const { routing } = context
      const ofParts = this.#parts.flatMap((_, index) => this.#attempts.get(index) ?? [])
      routing.attempts = routing.attempts.concat(ofParts)
      // Parts of a job are there for its next claim, or go with its end.
      if (job === null) for (const part of this.#parts) this.#drop(part)
    }
  }

  async #cut(): Promise<readonly AudioPart[]> {
    const { context, job } = this.#active
    const kept = (await job?.parts?.cut()) ?? null
    if (kept !== null) return kept
    const { workspace } = context.principal
    const owner = { workspace: workspace.id, id: job?.id ?? context.id, isJob: job !== null }
    const parts = await partFiles(this.#active, this.#selection.cut, owner)
    await job?.parts?.keepCut(parts)
    return parts
  }

  /**
   * Hears the parts in their order, some at a time. After a failure no other one is begun. A job lets those that are
   * under way come to their ends, since they are paid for; a caller who waits is told at once.
   */
  async #hearAll(): Promise<void> {
    const { signal, job } = this.#active
    const stop = new AbortController()
    const stopped = AbortSignal.any([toAbortSignal(signal), stop.signal])
    const waiting = this.#parts.keys()
    const failures: unknown[] = []
    const work = async () => {
      for (const index of waiting) {
        if (failures.length > 0) return
        try {
          await this.#hearPatiently(index, stopped)
        } catch (error) {
          failures.push(error)
          if (job === null) stop.abort(error)
        }
      }
    }
    await Promise.all(Array.from({ length: PARTS_AT_ONCE }, work))
    signal.throwIfAborted()
    if (failures.length > 0) throw failures[0]
  }

  /**
   * Waits for entries that say when they may be asked again: the other parts were too many at once. A caller who waits
   * is not refused for that once a part is paid for, but where every part is.
   */
  async #hearPatiently(index: number, signal: AbortSignal): Promise<void> {
    const { job, services } = this.#active
    const { clock } = services
    for (;;) {
      try {
        return await this.#running.during(() => this.#hear(index, signal))
      } catch (error) {
        const waitMs = error instanceof GatewayError ? (error.extra.retryAfterMs ?? 0) : 0
        const isLate = clock.now() + waitMs > this.#untilMs
        if (waitMs === 0 || waitMs > WAIT_MAX_MS || isLate || signal.aborted) throw error
        if (job === null) await this.#running.until(() => this.#heard.size > 0)
        if (job === null && this.#heard.size === 0) throw error
        await sleep(clock, waitMs * (1 + Math.random()), { signal })
      }
    }
  }

  async #hear(index: number, signal: AbortSignal): Promise<void> {
    const { job } = this.#active
    const part = this.#parts[index]!
    this.#checkCost()
    const kept = (await job?.parts?.heard(index)) ?? null
    const heard = kept ?? (await this.#ask(index, part, signal))
    this.#heard.set(index, heard)
    this.#open.delete(index)
    if (kept !== null) return
    // Until the state knows of its transcript, another claim would ask for its audio again.
    if ((await job?.parts?.keepHeard(index, heard)) !== false) this.#drop(part)
  }

  #drop(part: AudioPart): void {
    if (part.isWhole !== true) void this.#cutter.drop(part.audio)
  }

  /** The estimate that the caller's cap was held to was of seconds; what costs by the word may come to more. */
  #checkCost(): void {
    const { max_cost_usd: most } = this.#active.call.payload.options
    if (most === undefined) return
    const spent = sumUsd([...this.#heard.values()])
    if (spent <= most) return
    throw new GatewayError('BUDGET_EXCEEDED', `the parts so far have cost ${spent} USD`, {
      param: 'max_cost_usd',
      details: { budget: 'request', max_cost_usd: most },
    })
  }

  /** Asks the entries for one part, as if it were a call. */
  async #ask(index: number, part: AudioPart, signal: AbortSignal): Promise<HeardPart> {
    const { services, job, deadlineMs, deadlineAtMs } = this.#active
    const context = this.#active.context.within(signal)
    this.#open.set(index, context)
    const call = this.#callOf(part)
    const active: ActiveCall<TranscriptionTask> = {
      services,
      context,
      call,
      signal,
      job: job === null ? null : jobOfPart(job, index),
      deadlineMs,
      deadlineAtMs: job === null ? deadlineAtMs : services.clock.now() + deadlineMs,
    }
    try {
      const { got, recorder } = await failOver(active, this.#selection, attemptWhole)
      recorder.answered()
      recorder.succeeded()
      const { candidate } = recorder
      const { envelope, result, release } = buildOutcome(active, this.#selection, candidate, got)
      release()
      const charge = chargeOf(candidate.entry, envelope.cost_usd, context)
      services.watch?.charged(candidate.entry, charge.spendMicros)
      return {
        result: result as TranscriptionResult,
        provider: envelope.provider,
        model: envelope.model,
        version: envelope.policy_version_id,
        forPurpose: candidate.forPurpose,
        usage: envelope.usage,
        costUsd: envelope.cost_usd,
        charge,
        warnings: envelope.warnings,
        attempts: context.routing.attempts.length,
      }
    } finally {
      const { attempts, route, policyVersionId } = context.routing
      const { routing } = this.#active.context
      this.#attempts.set(index, attempts)
      if (route !== null) routing.route = route
      if (policyVersionId !== null) routing.policyVersionId = policyVersionId
    }
  }

  #callOf({ audio }: AudioPart): Call<TranscriptionTask> {
    const { call } = this.#active
    return { ...call, warnings: [], payload: { ...call.payload, audio } } as Call<TranscriptionTask>
  }

  #skipped(): Pick<TranscriptionResult, 'skippedSeconds'> {
    if (!this.#selection.cut.skipsSilence) return {}
    const seconds = this.#parts.map(({ audio, startSeconds, endSeconds }) =>
      Math.max(0, endSeconds - startSeconds - (audio.durationSeconds ?? endSeconds - startSeconds)),
    )
    return { skippedSeconds: toMilliseconds(seconds.reduce((sum, one) => sum + one, 0)) }
  }

  #outcome(): Outcome<TranscriptionTask> {
    const { call, context } = this.#active
    const heard = this.#parts.map((_, index) => this.#heard.get(index)!)
    const result = stitched(this.#parts.map((part, index) => ({ part, result: heard[index]!.result })))
    const parts = this.#parts.map((part, index) => transcriptPart(part, heard[index]!))
    const costUsd = heard.some((one) => one.costUsd === null) ? null : sumUsd(heard)
    const usage = sumUsage(heard)
    context.money.usage = usage
    context.money.costUsd = costUsd
    // Whoever has heard the most stands for all of them.
    const most = parts.reduce((longest, one) =>
      secondsBy(one, parts) > secondsBy(longest, parts) ? one : longest,
    )
    const best = heard[parts.indexOf(most)]!
    context.routing.forPurpose = best.forPurpose
    const { purpose, warnings } = this.#selection
    const own = warningsOf(this.#selection.cut, call.payload.audio, this.#parts)
    return {
      envelope: {
        id: context.id,
        provider: best.provider,
        model: best.model,
        policy_version_id: best.version,
        content: '',
        content_blocks: [],
        usage,
        cost_usd: costUsd,
        determinism: { seed_honored: false },
        lk_requested_purpose: purpose.requested,
        lk_applied_purpose: appliedPurpose(purpose, best.forPurpose),
        lk_purpose_source: purposeSource(purpose, best.forPurpose),
        warnings: [
          ...new Set(
            joined(call.warnings, warnings, own, result.warnings, ...heard.map((one) => one.warnings)),
          ),
        ],
      },
      payload: call.payload,
      result: { ...result, ...(parts.length > 1 ? { parts } : {}), ...this.#skipped() },
      release: holdsNothing,
    }
  }
}

function sumOf(one: Charge, other: Charge): Charge {
  return {
    platformMicros: one.platformMicros + other.platformMicros,
    spendMicros: one.spendMicros + other.spendMicros,
  }
}

/** In micro-USD, so that the sum is as exact as its terms. */
function sumUsd(heard: readonly HeardPart[]): number {
  return usdOf(heard.reduce((sum, { costUsd }) => sum + microsOf(costUsd ?? 0), 0))
}

/** Null where a part does not tell. */
function sumUsage(heard: readonly HeardPart[]): Record<string, number | null> {
  const sum: Record<string, number | null> = {}
  for (const name of new Set(heard.flatMap(({ usage }) => Object.keys(usage)))) {
    const figures = heard.map(({ usage }) => usage[name] ?? null)
    const isWhole = figures.every((figure) => figure !== null)
    sum[name] = isWhole ? toMillionths(figures.reduce((total, figure) => total + figure, 0)) : null
  }
  return sum
}

function toMillionths(figure: number): number {
  return Math.round(figure * 1e6) / 1e6
}

function transcriptPart(part: AudioPart, { provider, model, costUsd, attempts }: HeardPart): TranscriptPart {
  return {
    start: toMilliseconds(part.fromSeconds),
    end: toMilliseconds(part.toSeconds),
    provider,
    model,
    cost_usd: costUsd,
    attempts,
    ends_in_silence: part.endsQuietly,
  }
}

function secondsBy({ provider, model }: TranscriptPart, parts: readonly TranscriptPart[]): number {
  return parts
    .filter((one) => one.provider === provider && one.model === model)
    .reduce((sum, { start, end }) => sum + end - start, 0)
}

/** The claim as one of its parts sees it: an order of its own, and a key of its own for the provider. */
function jobOfPart(job: JobContext, index: number): JobContext {
  const { parts, ...rest } = job
  return {
    ...rest,
    id: `${job.id}.${index}`,
    progress: parts?.upstream(index) ?? null,
    note: (progress) => parts?.noteUpstream(index, progress),
  }
}
