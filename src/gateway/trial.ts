import type { Failure } from '../schema/upstream.ts'
import type { Services, Trail } from './gateway.ts'
import type { Candidate } from './select.ts'

/** One attempt at an entry: its line on the trail, and what it says of the entry's health, which is said once. */
export class Trial {
  readonly candidate: Candidate
  readonly #services: Pick<Services, 'health' | 'latency'>
  readonly #trail: Trail
  readonly #startedMs = performance.now()
  /** Where its line is on the trail. */
  readonly #line: number
  #answered = false
  #judged = false

  constructor(services: Pick<Services, 'health' | 'latency'>, trail: Trail, candidate: Candidate) {
    this.#services = services
    this.#trail = trail
    this.candidate = candidate
    this.#line = trail.attempts.length
    this.#noteUnfinished()
  }

  /** The answer is here, or its first piece: what follows of a stream is at the pace of its reader. */
  answered(): void {
    this.#answered = true
    const milliseconds = this.#note(200, 'ok', null)
    this.#services.latency.note(this.candidate.entry, milliseconds)
  }

  /** The whole of the answer came. */
  succeeded(): void {
    if (this.#judge()) this.#services.health.succeeded(this.candidate.entry, performance.now())
  }

  /** @param blamed false when the failure says nothing of the entry: nothing was sent, or it did answer */
  failed(failure: Failure, blamed: boolean): void {
    if (!this.#judge()) return
    this.#note(failure.status, failure.reason, failure)
    if (blamed) this.#services.health.failed(this.candidate.entry, failure, performance.now())
    else this.#services.health.released(this.candidate.entry)
  }

  /** It ended without a verdict: the caller left, or the gateway itself could not go on. */
  released(reason: string): void {
    if (!this.#judge()) return
    if (!this.#answered) this.#note(null, reason, null)
    this.#services.health.released(this.candidate.entry)
  }

  #judge(): boolean {
    const first = !this.#judged
    this.#judged = true
    return first
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
