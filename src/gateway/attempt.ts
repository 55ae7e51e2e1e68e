import type { Calls, OperationName, Results } from '../contracts/operations.ts'
import { operationOf } from '../contracts/provider.ts'
import type { Failure } from '../contracts/upstream.ts'
import { adapt, targetOf } from './eligibility.ts'
import type { Attempt } from './failover.ts'
import {
  type AttemptFailure,
  attemptKeyOf,
  Checkpoint,
  leaseMemory,
  runOperation,
  traceContextOf,
} from './operation.ts'
import { runPulled } from './pull.ts'
import type { Candidate } from './selection.ts'
import type { ActiveCall, Services } from './services.ts'

/** An entry's whole answer. */
export interface Answer<K extends OperationName> {
  readonly result: Results[K]
  readonly warnings: readonly string[]
  /** Gives the memory of the answer back to the byte budget. Idempotent. */
  release(): void
}

/** Shortest audio whose empty transcript counts as a failure, where the entry says so. */
const EMPTY_SUSPECT_SECONDS = 3

/**
 * Asks one entry for its whole answer.
 *
 * @throws the signal's reason when the caller left; the failure of a store
 */
export function attemptWhole<K extends OperationName>(
  { services, context, call, signal, job }: ActiveCall<K>,
  { candidate, deadlineAtMs, last, resumes }: Attempt,
): Promise<{ readonly got: Answer<K> } | AttemptFailure> {
  const { entry } = candidate
  const { send, timing } = services
  const memory = leaseMemory(services.budget, context)
  const adapted = adapt(call, entry)
  const operation = operationAt(services, call.operation, candidate)
  const checkpoint =
    job !== null && operation.resume !== undefined ? new Checkpoint(job, entry, resumes) : null
  const traceContext = traceContextOf(context)
  const options = { send, timing, signal, traceContext, deadlineAtMs, memory, checkpoint }
  const target = targetOf(entry)
  const keyed = job === null ? target : { ...target, attemptKey: attemptKeyOf(job, entry) }
  const { payload } = adapted
  const ending = entry.pull
    ? runPulled(services, operation, payload, keyed, options)
    : runOperation(operation, payload, keyed, options)
  return ending.then(
    (ended) => {
      if ('result' in ended) {
        const { result } = ended
        const suspect = suspectEmpty(call.payload, result, candidate, last)
        if (suspect === null) return { got: { result, warnings: adapted.warnings, release: memory.release } }
        memory.release()
        checkpoint?.drop()
        return suspect
      }
      memory.release()
      return ended
    },
    (error: unknown) => {
      memory.release()
      throw error
    },
  )
}

/** Finds the operation of a candidate's provider. Selection has made sure that there is one. */
export function operationAt<K extends OperationName>(services: Services, name: K, { entry }: Candidate) {
  const operation = operationOf(services.providers.get(entry.provider.kind), name)
  if (operation === undefined) throw new Error(`${entry.provider.kind} has no ${name}`)
  return operation
}

/** Treats the empty transcript of audio that is long enough to hold speech as a failure, where the entry says so. */
export function suspectEmpty(
  payload: Calls[OperationName],
  result: Results[OperationName],
  { entry }: Candidate,
  last: boolean,
): AttemptFailure | null {
  if (last || !entry.retryEmpty || !('options' in payload && 'text' in result)) return null
  if (result.text.trim() !== '' || (payload.audio.durationSeconds ?? 0) < EMPTY_SUSPECT_SECONDS) return null
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
