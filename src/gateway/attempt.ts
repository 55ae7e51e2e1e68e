import type { TranscriptionCall, TranscriptionResult } from '../schema/calls.ts'
import type { Calls, OperationName, Results } from '../schema/operations.ts'
import { operationOf } from '../schema/provider.ts'
import type { Failure } from '../schema/upstream.ts'
import { adapt, targetOf } from './adapt.ts'
import { failOver, type Missed, type Turn } from './failover.ts'
import type { CallRequest, Services } from './gateway.ts'
import { attemptKeyOf, Handover } from './handover.ts'
import { holdBytes } from './held.ts'
import type { Candidate, Selection } from './select.ts'
import { drive, traceContextOf } from './step.ts'

export interface Attempted<K extends OperationName> {
  readonly candidate: Candidate
  readonly result: Results[K]
  readonly warnings: readonly string[]
  /** Gives the memory of the answer back to the byte budget. Idempotent. */
  release(): void
}

/** Audio this long that came back empty is taken for a failure where the entry says so. */
const EMPTY_SUSPECT_SECONDS = 3

/**
 * Tries the candidates in order until one answers.
 *
 * @param deadlineAtMs on the clock of `performance.now()`
 * @throws GatewayError as `failOver`; the signal's reason when the caller left
 */
export async function attempt<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  selection: Selection,
  deadlineAtMs: number,
): Promise<Attempted<K>> {
  const { got, trial } = await failOver(services, request, selection, deadlineAtMs, (turn) =>
    attemptWhole(services, request, turn),
  )
  trial.answered()
  trial.succeeded()
  return got
}

/** One entry's whole answer. */
export async function attemptWhole<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  { candidate, deadlineAtMs, last, goesOn }: Turn,
): Promise<{ readonly got: Attempted<K> } | Missed> {
  const { call, signal, job } = request
  const held = holdBytes(services.budget, request.trail)
  const adapted = adapt(request.operation, call.payload, candidate.entry)
  const operation = operationAt(services, request.operation, candidate)
  const handedOver = job !== undefined && operation.resume !== undefined
  const handover = handedOver ? new Handover(job, candidate.entry, goesOn) : null
  const traceContext = traceContextOf(request)
  const way = { send: services.send, signal, traceContext, deadlineAtMs, held, handover }
  try {
    const target = targetOf(candidate.entry)
    const keyed = job === undefined ? target : { ...target, attemptKey: attemptKeyOf(job, candidate.entry) }
    const driven = await drive(operation, adapted.payload, keyed, way)
    if ('result' in driven) {
      const { result } = driven
      const suspect = suspectEmpty(call.payload, result, candidate, last)
      if (suspect === null) {
        return { got: { candidate, result, warnings: adapted.warnings, release: held.release } }
      }
      held.release()
      handover?.drop()
      return suspect
    }
    held.release()
    return driven
  } catch (error) {
    held.release()
    throw error
  }
}

/** The operation of a candidate's provider, which selection has seen to be there. */
export function operationAt<K extends OperationName>(services: Services, name: K, { entry }: Candidate) {
  const operation = operationOf(services.providers.get(entry.provider.kind), name)
  if (operation === undefined) throw new Error(`${entry.provider.kind} has no ${name}`)
  return operation
}

/** An empty transcript of audio that is long enough to hold something, where the entry says to ask another. */
export function suspectEmpty<K extends OperationName>(
  payload: Calls[K],
  result: Results[K],
  { entry }: Candidate,
  last: boolean,
): Missed | null {
  if (last || !entry.retryEmpty || !('audio' in payload && 'text' in result)) return null
  const { audio } = payload as TranscriptionCall
  const empty = (result as TranscriptionResult).text.trim() === ''
  if (!empty || (audio.durationSeconds ?? 0) < EMPTY_SUSPECT_SECONDS) return null
  const failure: Failure = {
    kind: 'server',
    status: 200,
    reason: 'an empty transcript',
    retryAfterMs: null,
    providerMessage: null,
  }
  // Silence is no fault of the entry: it must not open its breaker.
  return { failure, blamed: false, unknown: false }
}
