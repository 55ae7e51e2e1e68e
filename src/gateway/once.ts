import { GatewayError } from '../errors.ts'
import type { StoredResult } from '../schema/ledger.ts'
import type { OperationName } from '../schema/operations.ts'
import type { SlotResults, WholeResult } from '../schema/slot-results.ts'
import { attempt } from './attempt.ts'
import { Booking, bookOnce, type Taken } from './booking.ts'
import type { CallRequest, Services, Trail } from './gateway.ts'
import { type Prepared, prepare } from './run.ts'
import { type Outcome, settle } from './settle.ts'

/** When a caller may ask again for the answer of a call that is still running. */
const RUNNING_RETRY_MS = 5_000
/** The same where the first call has just ended without an answer. */
const FREED_RETRY_MS = 1_000

/** What is the same about two requests, and what is kept of the answer. */
export interface Once<K extends OperationName> {
  readonly slotId: string
  readonly fingerprint: string
  readonly render: (outcome: Outcome<K>) => WholeResult
}

/**
 * As `run`, but a call that was answered under the same key before is answered by the same bytes. From the moment the
 * slot is claimed the call goes on when its caller leaves: the answer is there for whoever asks again.
 *
 * @throws GatewayError as `run`; IDEMPOTENCY_REPLAY_IN_PROGRESS, IDEMPOTENCY_KEY_REUSED, IDEMPOTENT_RESULT_UNAVAILABLE;
 *         UPSTREAM_OUTCOME_UNKNOWN when no entry answered and one of them may have done the work
 */
export async function runOnce<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  once: Once<K>,
): Promise<WholeResult> {
  const prepared = await prepare(services, request)
  request.signal.throwIfAborted()
  const ttlMs = services.snapshot().limits.sync_idempotency_ttl_seconds * 1000
  const slot = { id: once.slotId, fingerprint: once.fingerprint, ttlMs }
  const booking = await bookOnce(slot, services, request, prepared)
  if (!(booking instanceof Booking)) return answerAgain(services, request.trail, booking, once.fingerprint)
  const going = { ...request, signal: new AbortController().signal }
  return services.settlements.during(execute(services, going, once, prepared, booking))
}

async function execute<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  { render }: Once<K>,
  { principal, deadlineAtMs }: Prepared,
  booking: Booking,
): Promise<WholeResult> {
  const attempted = await attempt(services, request, booking.selection, deadlineAtMs).catch(
    async (thrown) => {
      throw await booking.failed(thrown)
    },
  )
  const { entry } = attempted.candidate
  try {
    const result = render(settle(services, request, booking.selection, attempted))
    attempted.release()
    const kept = await keep(services.slotResults, principal.workspace.id, result)
    const held = await booking.stored(entry, kept)
    if (kept !== null && !held) void services.slotResults.drop(kept)
    return result
  } catch (thrown) {
    // The work is done and paid: under this key it is not done again, also when its answer cannot be told.
    attempted.release()
    await booking.stored(entry, null)
    throw thrown
  }
}

/** Null when the store does not take it: the caller gets the answer all the same, but only once. */
function keep(results: SlotResults, workspace: string, result: WholeResult): Promise<StoredResult | null> {
  return results.keep(workspace, result).catch(() => null)
}

/**
 * The answer to a request whose key was in use when it came, and of which nothing was kept.
 *
 * @throws GatewayError as `runOnce`; IDEMPOTENCY_REPLAY_IN_PROGRESS also when the slot is free by now
 */
export async function replay(
  services: Services,
  { workspace, slotId, fingerprint }: { workspace: string; slotId: string; fingerprint: string },
  trail: Trail,
): Promise<WholeResult> {
  const view = await services.state.ledger.look(workspace, slotId)
  if (view.state !== 'free') return answerAgain(services, trail, view, fingerprint)
  throw new GatewayError(
    'IDEMPOTENCY_REPLAY_IN_PROGRESS',
    'the first request with this idempotency key ended without an answer; send this one again',
    { retryAfterMs: FREED_RETRY_MS },
  )
}

async function answerAgain(
  { slotResults }: Services,
  trail: Trail,
  view: Taken,
  fingerprint: string,
): Promise<WholeResult> {
  if (view.state === 'running') {
    throw new GatewayError('IDEMPOTENCY_REPLAY_IN_PROGRESS', undefined, { retryAfterMs: RUNNING_RETRY_MS })
  }
  if (view.state === 'burned') throw new GatewayError('IDEMPOTENT_RESULT_UNAVAILABLE')
  if (view.fingerprint !== fingerprint) throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  const result = await slotResults.open(view.result)
  if (result === null) throw new GatewayError('IDEMPOTENT_RESULT_UNAVAILABLE')
  trail.replayed = true
  return { ...result, headers: { ...result.headers, 'x-lk-idempotent-replay': 'true' } }
}
