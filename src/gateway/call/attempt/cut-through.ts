import { isDeepStrictEqual } from 'node:util'
import type { ArrivingBody, Audio, AudioFormat, AudioRef } from '../../../contracts/audio.ts'
import { Cancellation } from '../../../contracts/cancellation.ts'
import type { Principal, Route } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { OperationName, TranscriptionTask } from '../../../contracts/operations.ts'
import type { FailureKind } from '../../../contracts/upstream.ts'
import type { AdmittedContext } from '../context/call-context.ts'
import type { ActiveCall, Services } from '../context/services.ts'
import type { Call } from '../facts/call.ts'
import { type Candidate, type Selection, select } from '../select/selection.ts'
import { attemptWhole, operationAt } from './attempt.ts'
import type { Attempt } from './failover.ts'
import { type Answer, type Attempted, LATE } from './operation.ts'
import { judge } from './transcript-quality.ts'

/**
 * An attempt that begins while the audio of its call is still coming, where an entry asks for that with `cut_through`
 * and its provider executes and bills a request only once its body is whole.
 *
 * All but the last byte of the audio may go out at once. That one waits until the body is at rest, looked at, and the
 * call has gone through the phases of every call: selection with all that is known of the audio then, and its
 * reservation. So nothing is decided on less than a whole body, and nothing that would be refused is ever executed or
 * billed: the attempt is broken off then, and the call is as if it had never been. Until it is confirmed it is on no
 * record, holds no money, and its entry is neither praised nor blamed for it; its deadline and its latency begin with
 * the last byte, so that a slow upload is no slow provider.
 *
 * The body is kept while it streams past, as any other: whatever becomes of this attempt, the next one has the whole.
 */

/** Shorter audio comes in one or two reads of the socket: there is nothing to gain. */
const LEAST_BYTES = 64 * 1024

/**
 * Failures that an attempt without the whole body can tell of: those of the provider or its connection. Of an input of
 * which it saw a part it tells nothing.
 */
const CONCLUSIVE = new Set<FailureKind>(['connect', 'ambiguous', 'server', 'rate', 'credential', 'model'])

/** From this much waiting for the sender on it is no fault of a provider that it gave a request up. */
const STARVED_MS = 5_000

const TOO_LATE = 'require must come before the file, or as X-LK-Require: audio was sent on while it came'

/** Reason for which an attempt is broken off whose call goes another way, or not at all. */
class BrokenOff extends Error {
  override readonly name = 'BrokenOff'
}

/** The deadline of the attempt, counted from its last byte, is over. */
class Late extends Error {
  override readonly name = 'Late'
}

/** A call whose audio is still coming, as it was foreseen. */
export interface EarlyCall {
  readonly audio: AudioRef
  readonly body: ArrivingBody
  /** @returns null when the first bytes do not tell */
  detect(audio: AudioRef, signal: AbortSignal): Promise<AudioFormat | null>
  /** Makes the call; null: it is none whose attempt may begin now. @throws what it will be refused with */
  make(audio: Audio): Call<TranscriptionTask> | null
}

/** An attempt is over; null: it was the gateway that could not go on. */
type Ended = Attempted<Answer<OperationName>> | null

/** True when a route of the principal has an entry that takes audio while it comes. */
export function mayCutThrough({ route, capabilityRoutes, purposes }: Principal): boolean {
  if (asksForIt(route)) return true
  for (const override of capabilityRoutes.values()) if (asksForIt(override)) return true
  return purposes.some((purpose) => purpose.route !== null && asksForIt(purpose.route))
}

function asksForIt({ entries, skipsSilence }: Route): boolean {
  // Silence can only be told once it is over.
  return skipsSilence !== true && entries.some(({ cutThrough }) => cutThrough)
}

export class EarlyAttempt {
  readonly #services: Services
  readonly #context: AdmittedContext
  readonly #body: ArrivingBody
  readonly #leaving = new Cancellation()
  readonly #beginning: Promise<void>
  /** Its audio: what is only known of the whole is filled in before the last byte goes out. */
  #audio: Audio | null = null
  #call: Call<TranscriptionTask> | null = null
  /** The entry that is asked; null: none, or the first bytes are not here yet. */
  #candidate: Candidate | null = null
  #ended: Promise<Ended> | null = null
  #over = false
  #taken = false

  constructor(services: Services, context: AdmittedContext, early: EarlyCall) {
    this.#services = services
    this.#context = context
    this.#body = early.body
    context.signal.addEventListener('abort', this)
    // An error here occurs again when the call is made with its whole body, and is answered then.
    this.#beginning = this.#begin(early)
      .catch(() => {})
      .then(() => {
        if (this.#ended === null) this.#body.close()
      })
  }

  /** Called when the caller leaves. */
  handleEvent(): void {
    this.#leaving.abort(this.#context.signal.reason ?? new BrokenOff())
  }

  /**
   * Puts its entry in front of a selection for the whole call, where that still has it and the audio is what it was
   * taken for; else the attempt is broken off.
   *
   * @throws GatewayError INVALID_REQUEST when a demand came too late to keep the audio from an entry
   */
  prefer(selection: Selection, { payload, selectors }: Call): Selection {
    const entry = this.#candidate?.entry
    const own = selection.candidates.find((candidate) => candidate.entry === entry && !candidate.lastResort)
    const { audio = null } = payload as { readonly audio?: Audio | null }
    if (own === undefined || audio === null || !this.#fits(audio) || !this.#asks(payload, selectors)) {
      this.#leaving.abort(new BrokenOff())
      this.#candidate = null
      const verdict = selection.considered.find((one) => one.entry === entry)
      if (verdict?.exclusion?.why === 'residency')
        throw new GatewayError('INVALID_REQUEST', TOO_LATE, { param: 'require' })
      return selection
    }
    this.#candidate = own
    return { ...selection, candidates: [own, ...selection.candidates.filter((one) => one !== own)] }
  }

  /**
   * An attempt of a call with its whole body: this one where it stands for the candidate, confirmed from now on, else
   * one as any other.
   */
  readonly attempt = <K extends OperationName>(
    active: ActiveCall<K>,
    attempt: Attempt,
  ): Promise<Attempted<Answer<K>>> => {
    if (this.#taken || this.#ended === null || attempt.candidate !== this.#candidate)
      return attemptWhole(active, attempt)
    this.#taken = true
    return this.#over ? this.#judge(active, attempt) : this.#confirm(active, attempt)
  }

  /** Breaks it off, unless it is over. Settles when it does not read the audio any more. */
  async end(): Promise<void> {
    this.#context.signal.removeEventListener('abort', this)
    this.#leaving.abort(new BrokenOff())
    await this.#beginning
    const ended = await this.#ended
    if (!this.#taken) release(ended)
  }

  async #begin({ audio: coming, detect, make }: EarlyCall): Promise<void> {
    if (coming.decodedBytes < LEAST_BYTES) return
    const format = await detect(coming, this.#leaving.toAbortSignal())
    if (format === null || this.#leaving.aborted) return
    const audio: Audio = { ...coming, format, durationSeconds: null, channels: null }
    const call = make(audio)
    const candidate = call === null ? null : this.#pick(call)
    if (call === null || candidate === null) return
    this.#audio = audio
    this.#call = call
    this.#candidate = candidate
    this.#context.routing.cutThrough = 'dropped'
    const never = Number.POSITIVE_INFINITY
    const parties = { services: this.#services, context: this.#context, signal: this.#leaving }
    const active = { ...parties, call, job: null, deadlineMs: never, deadlineAtMs: never }
    const attempt = { candidate, deadlineAtMs: never, last: true, resumes: false, placed: null }
    this.#ended = attemptWhole(active, attempt)
      .catch(() => null)
      .finally(() => {
        this.#over = true
        this.#body.close()
      })
  }

  /** The entry that would be tried first, if it takes audio while it comes and nothing speaks against it. */
  #pick(call: Call<TranscriptionTask>): Candidate | null {
    const { providers, random, latency, health, clock } = this.#services
    const { principal } = this.#context
    const [nowMs, wallMs] = [clock.now(), clock.wallNow()]
    const { selection } = select({ principal, call, providers, random, latency, health, nowMs, wallMs })
    const candidate = selection?.candidates[0]
    if (candidate === undefined || candidate.lastResort || !candidate.entry.cutThrough) return null
    // A slow upload would hold one of its permits.
    if (candidate.entry.provider.concurrency !== null) return null
    const { billsWholeBody } = operationAt(this.#services, call.operation, candidate)
    // The one trial of an entry that was down is not for a request that may never be whole.
    const isHealthy = health.view(candidate.entry, nowMs).state === 'closed'
    return billsWholeBody !== undefined && isHealthy ? candidate : null
  }

  #fits({ format, offset, decodedBytes }: Audio): boolean {
    const foreseen = this.#audio
    if (foreseen === null) return false
    return foreseen.format === format && foreseen.offset === offset && foreseen.decodedBytes === decodedBytes
  }

  /** Fields behind the audio may have changed what is asked. */
  #asks(payload: Call['payload'], selectors: Call['selectors']): boolean {
    const { options } = payload as Partial<Call<TranscriptionTask>['payload']>
    return isDeepStrictEqual([options, selectors], [this.#call?.payload.options, this.#call?.selectors])
  }

  get #isStarved(): boolean {
    return this.#body.waitedMs >= STARVED_MS
  }

  /** It was over before its body was: a provider that failed has had its attempt, all else is done again. */
  async #judge<K extends OperationName>(active: ActiveCall<K>, attempt: Attempt) {
    const ended = await this.#ended
    // An answer to a part of the audio is no transcript of it.
    release(ended)
    const isFailure = ended !== null && 'failure' in ended && ended.blamed
    const isConclusive = isFailure && CONCLUSIVE.has(ended.failure.kind)
    // No call fails before an entry has seen the whole of its body.
    if (isConclusive && !this.#isStarved && !attempt.last) return ended as Attempted<Answer<K>>
    return attemptWhole(active, attempt)
  }

  /** Lets the last byte go: from now on it is an attempt as any other. */
  async #confirm<K extends OperationName>(
    active: ActiveCall<K>,
    attempt: Attempt,
  ): Promise<Attempted<Answer<K>>> {
    const { payload } = active.call
    const { durationSeconds, channels } = (payload as { readonly audio: Audio }).audio
    Object.assign(this.#audio!, { durationSeconds, channels })
    this.#body.confirm()
    this.#context.routing.cutThrough = 'used'
    const leftMs = Math.max(0, attempt.deadlineAtMs - this.#services.clock.now())
    const deadline = this.#services.clock.after(leftMs, () => this.#leaving.abort(new Late()))
    const ended = (await this.#ended) as Awaited<ReturnType<typeof attemptWhole<K>>> | null
    deadline.close()
    if (ended === null) {
      if (this.#leaving.reason instanceof Late) return { failure: LATE, blamed: true, unknown: false }
      this.#leaving.throwIfAborted()
      return attemptWhole(active, attempt)
    }
    if ('failure' in ended) {
      const isForgiven = this.#isStarved && ended.failure.kind === 'ambiguous'
      return isForgiven ? { ...ended, blamed: false } : ended
    }
    return judge(active, attempt, ended.got)
  }
}

function release(ended: Ended): void {
  if (ended !== null && 'got' in ended) ended.got.release()
}
