import type { OperationName } from '../schema/operations.ts'
import type { Failure } from '../schema/upstream.ts'
import type { AttemptOutcome } from '../schema/watch.ts'
import type { Services, Trail } from './gateway.ts'
import type { Candidate } from './select.ts'

type TrialServices = Pick<Services, 'health' | 'latency' | 'watch'>

/** One attempt at an entry: its line on the trail, and what it says of the entry's health, which is said once. */
export class Trial {
  readonly candidate: Candidate
  readonly #services: TrialServices
  readonly #trail: Trail
  readonly #operation: OperationName
  readonly #startedMs = performance.now()
  /** Where its line is on the trail. */
  readonly #line: number
  #answered = false
  #firstPieceMs: number | null = null
  #judged = false

  constructor(services: TrialServices, trail: Trail, operation: OperationName, candidate: Candidate) {
    this.#services = services
    this.#trail = trail
    this.#operation = operation
    this.candidate = candidate
    this.#line = trail.attempts.length
    this.#noteUnfinished()
  }

  /**
   * The answer is here.
   *
   * @param streamed no more than its first piece is: what follows is at the pace of its reader
   */
  answered(streamed = false): void {
    this.#answered = true
    const passedMs = this.#waited()
    if (streamed) this.#firstPieceMs = passedMs
    const milliseconds = this.#note(200, 'ok', null)
    this.#services.latency.note(this.candidate.entry, milliseconds)
  }

  /** The whole of the answer came. */
  succeeded(): void {
    if (!this.#judge('ok')) return
    this.#trail.trace?.attemptEnded(200, null)
    this.#services.health.succeeded(this.candidate.entry, performance.now())
  }

  /** @param blamed false when the failure says nothing of the entry: nothing was sent, or it did answer */
  failed(failure: Failure, blamed: boolean): void {
    if (!this.#judge(failure.kind)) return
    this.#note(failure.status, failure.reason, failure)
    this.#trail.trace?.attemptEnded(failure.status, failure)
    if (blamed) this.#services.health.failed(this.candidate.entry, failure, performance.now())
    else this.#services.health.released(this.candidate.entry)
  }

  /** It ended without a verdict: the caller left, or the gateway itself could not go on. */
  released(reason: string): void {
    if (!this.#judge('abandoned')) return
    if (!this.#answered) this.#note(null, reason, null)
    this.#trail.trace?.attemptLeft()
    this.#services.health.released(this.candidate.entry)
  }

  #judge(outcome: AttemptOutcome): boolean {
    if (this.#judged) return false
    this.#judged = true
    if (!this.#answered) this.#waited()
    this.#services.watch?.attempted({
      entry: this.candidate.entry,
      operation: this.#operation,
      outcome,
      milliseconds: performance.now() - this.#startedMs,
      firstPieceMs: this.#firstPieceMs,
      failover: this.#line > 0,
    })
    return true
  }

  /** @returns milliseconds since it began, which the call was not in our hands */
  #waited(): number {
    const passedMs = performance.now() - this.#startedMs
    this.#trail.elsewhereMs += passedMs
    return passedMs
  }

  /** For a line of the log that is written while it is under way: the caller may leave at any moment. */
  #noteUnfinished(): void {
    const { provider, model } = this.candidate.entry
    const startedMs = this.#startedMs
    this.#trail.attempts[this.#line] = {
      provider: provider.name,
      model,
      status: null,
      get milliseconds() {
        return Math.round(performance.now() - startedMs)
      },
      reason: 'not finished',
      failure: null,
    }
  }

  /** @returns milliseconds since it began */
  #note(status: number | null, reason: string, failure: Failure | null): number {
    const { provider, model } = this.candidate.entry
    const milliseconds = Math.round(performance.now() - this.#startedMs)
    const line = { provider: provider.name, model, status, milliseconds, reason, failure }
    this.#trail.attempts[this.#line] = line
    return milliseconds
  }
}
