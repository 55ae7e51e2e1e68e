import type { Calls, Deltas, StreamedName } from '../schema/operations.ts'
import { UpstreamFailure } from '../schema/upstream.ts'
import { type Booking, book } from './booking.ts'
import { failOver, type Turn, type Won } from './failover.ts'
import type { CallRequest, Services } from './gateway.ts'
import { Leavable } from './leavable.ts'
import { type Opened, openAttempt } from './open-stream.ts'
import { prepare } from './run.ts'
import { type Envelope, type EnvelopeHead, headOf, meterUnanswered, type Outcome, settle } from './settle.ts'
import { brokenOff } from './upstream-errors.ts'

/** An answer on its way to the caller. */
export interface Streaming<K extends StreamedName> {
  /** What is known when the first piece is here. */
  readonly head: EnvelopeHead
  /** What is metered by then: of speech and of audio all, of tokens nothing. */
  readonly expected: Pick<Envelope, 'usage' | 'cost_usd'>
  /** As it was read, options after defaults. */
  readonly payload: Calls[K]
  /**
   * The pieces as they are asked for; nothing is read ahead. Has to be read to its end, or left, which ends the request
   * at the provider. Throws GatewayError UPSTREAM_ERROR or UPSTREAM_TIMEOUT when the answer breaks off, and the
   * signal's reason when the caller left.
   */
  readonly deltas: AsyncGenerator<Deltas[K], void, void>
  /** The whole, metered and priced; only when the deltas have ended. */
  outcome(): Outcome<K>
}

/**
 * As `run`, but the answer comes piece by piece. Fails over until the first piece is here. An entry that does not
 * stream is called whole, and its answer comes as one piece.
 *
 * @throws GatewayError as `run`, as long as there is no piece
 */
export async function runStreamed<K extends StreamedName>(
  services: Services,
  request: CallRequest<K>,
): Promise<Streaming<K>> {
  const prepared = await prepare(services, request)
  const { deadlineAtMs } = prepared
  const booking = await book(services, request, prepared)
  const { selection } = booking
  const open = (turn: Turn) => openAttempt(services, request, turn, deadlineAtMs)
  const won = await failOver(services, request, selection, deadlineAtMs, open).catch(async (thrown) => {
    throw await booking.failed(thrown)
  })
  const { streamed } = won.got
  won.trial.answered(streamed)
  if (streamed) request.trail.trace?.begun()
  const delivery = new Delivery(services, request, { booking, deadlineAtMs }, won)
  return {
    head: headOf(request, selection, won.trial.candidate),
    expected: meterUnanswered(request, won.trial.candidate),
    payload: request.call.payload,
    deltas: new Leavable(delivery.pieces(), () => delivery.leave()),
    outcome: () => delivery.outcome(),
  }
}

interface Terms {
  readonly booking: Booking
  readonly deadlineAtMs: number
}

/** The rest of a stream: what becomes of it, and what is left behind then. */
class Delivery<K extends StreamedName> {
  readonly #services: Services
  readonly #request: CallRequest<K>
  readonly #terms: Terms
  readonly #won: Won<Opened<K>>
  #outcome: Outcome<K> | null = null
  #over = false

  constructor(services: Services, request: CallRequest<K>, terms: Terms, won: Won<Opened<K>>) {
    this.#services = services
    this.#request = request
    this.#terms = terms
    this.#won = won
  }

  async *pieces(): AsyncGenerator<Deltas[K], void, void> {
    const { first, rest } = this.#won.got
    try {
      let next = first
      for (; next.done !== true; next = await rest.next()) yield next.value
      this.#finish(next.value)
    } catch (error) {
      this.#request.signal.throwIfAborted()
      if (!this.#over) throw this.#breakOff(error)
    } finally {
      await this.leave()
    }
  }

  outcome(): Outcome<K> {
    if (this.#outcome === null) throw new Error('the stream has not come to its end')
    return this.#outcome
  }

  /** Gives the answer up, unless it is over. Resolves when the provider is not sent the caller's audio any more. */
  async leave(): Promise<void> {
    this.#giveUp(() => this.#won.trial.released('the caller left'))
    await this.#won.got.rest.return?.()
  }

  #finish(result: Outcome<K>['result']): void {
    const { booking } = this.#terms
    const { trial, got } = this.#won
    const { warnings, release } = got
    const attempted = { candidate: trial.candidate, result, warnings, release }
    this.#outcome = settle(this.#services, this.#request, booking.selection, attempted)
    this.#over = true
    trial.succeeded()
    // What the caller has got does not wait for the books.
    void booking.succeeded(trial.candidate.entry)
  }

  #breakOff(error: unknown): unknown {
    const { trial } = this.#won
    if (!(error instanceof UpstreamFailure)) {
      this.#giveUp(() => trial.released('the gateway could not go on'))
      return error
    }
    const { failure } = error
    this.#giveUp(() => trial.failed(failure, true))
    return brokenOff(this.#request.trail, failure, this.#terms.deadlineAtMs)
  }

  #giveUp(judge: () => void): void {
    if (this.#over) return
    this.#over = true
    const { leave, release } = this.#won.got
    leave()
    release()
    judge()
    void this.#terms.booking.failed(null)
  }
}
