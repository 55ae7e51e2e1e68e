import type { OperationName, Results } from '../../../contracts/operations.ts'
import { operationOf } from '../../../contracts/provider.ts'
import { UpstreamFailure } from '../../../contracts/upstream.ts'
import type { ActiveCall, Services } from '../context/services.ts'
import { adapt, targetOf } from '../select/eligibility.ts'
import type { Candidate } from '../select/selection.ts'
import { type Encoding, encodingAt } from '../select/speech-format.ts'
import type { Attempt } from './failover.ts'
import type { Answer, Attempted } from './operation.ts'
import { attemptKeyOf, Checkpoint, leaseMemory, runOperation, traceContextOf } from './operation.ts'
import { runPulled } from './pull.ts'
import { encodedResult } from './speech-encoding.ts'
import { judge } from './transcript-quality.ts'

/**
 * Asks one entry for its whole answer, and makes speech of it in the format that was asked for.
 *
 * @throws the signal's reason when the caller left; the failure of a store
 */
export function attemptWhole<K extends OperationName>(
  active: ActiveCall<K>,
  attempt: Attempt,
): Promise<Attempted<Answer<K>>> {
  const { call } = active as ActiveCall
  const made = attemptSource(active, attempt)
  const encoding = call.operation === 'speech' ? encodingAt(attempt.candidate.entry, call.payload) : null
  return encoding === null ? made : made.then((source) => encoded(active, source, encoding))
}

/** Encodes the whole answer of a provider. */
async function encoded<K extends OperationName>(
  { services, context, signal }: ActiveCall<K>,
  source: Attempted<Answer<K>>,
  encoding: Encoding,
): Promise<Attempted<Answer<K>>> {
  if ('failure' in source) return source
  const { result, warnings, release } = source.got as Answer<'speech'>
  const memory = leaseMemory(services.budget, context)
  try {
    const made = await encodedResult(result, encoding, { encoders: services.encoders, memory, signal })
    context.answer.encodedFrom = encoding.source
    return { got: { result: made as Results[K], warnings, release: memory.release } }
  } catch (error) {
    memory.release()
    if (error instanceof UpstreamFailure) return { failure: error.failure, blamed: true, unknown: false }
    throw error
  } finally {
    release()
  }
}

/**
 * Asks one entry for its whole answer, speech as its provider makes it.
 *
 * @throws as `attemptWhole`
 */
export function attemptSource<K extends OperationName>(
  active: ActiveCall<K>,
  attempt: Attempt,
): Promise<Attempted<Answer<K>>> {
  const { services, context, call, signal, job } = active
  const { candidate, deadlineAtMs, resumes, placed } = attempt
  const { entry } = candidate
  const { send, timing, clock } = services
  const memory = leaseMemory(services.budget, context)
  const operation = operationAt(services, call.operation, candidate)
  const adapted = adapt(call, entry, operation)
  const target = targetOf(entry, placed)
  const checkpoint =
    job !== null && operation.resume !== undefined ? new Checkpoint(job, entry, target, resumes) : null
  const traceContext = traceContextOf(context)
  const options = { send, clock, timing, signal, traceContext, deadlineAtMs, memory, checkpoint }
  const keyed = job === null ? target : { ...target, attemptKey: attemptKeyOf(job, entry) }
  const { payload } = adapted
  const ending = entry.pull
    ? runPulled(services, operation, payload, keyed, options)
    : runOperation(operation, payload, keyed, options)
  return ending.then(
    (ended) => {
      if ('result' in ended) {
        const got = { result: ended.result, warnings: adapted.warnings, release: memory.release }
        const judged = judge(active, attempt, got)
        if (checkpoint === null) return judged
        return Promise.resolve(judged).then((verdict) => {
          if ('failure' in verdict) checkpoint.drop()
          return verdict
        })
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
