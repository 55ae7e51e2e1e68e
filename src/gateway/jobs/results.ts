import { type ByteBudget, MEMORY_WAIT_MS } from '../../contracts/budget.ts'
import type { CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Job } from '../../contracts/jobs.ts'
import type { KeptText } from '../../contracts/objects.ts'
import type { State } from '../../contracts/state.ts'

/** Longest life of a URL to a result, in seconds; each look at the job makes a new URL. */
const LINK_SECONDS = 900

/**
 * The time at which a URL to the job's result expires, in epoch seconds with a fraction: never after the job itself.
 *
 * @throws GatewayError JOB_NOT_FOUND from the millisecond on in which the job expires
 */
export function linkEndOf({ expiresAtMs }: Pick<Job, 'expiresAtMs'>, nowMs: number): number {
  const goneMs = expiresAtMs ?? Number.POSITIVE_INFINITY
  if (goneMs <= nowMs) throw new GatewayError('JOB_NOT_FOUND')
  return Math.min(Math.floor(nowMs / 1000) + LINK_SECONDS, goneMs / 1000)
}

/** The stores that results are read from, and the memory they are charged to. */
export interface ResultStores {
  readonly budget: ByteBudget
  readonly state: Pick<State, 'jobs'>
  readonly objects: Pick<JobObjects, 'open'>
}

/** The request that a result is read for. */
interface Reader {
  readonly signal: CancelSignal
  onFinished(listener: () => void): void
}

/**
 * Reads the stored JSON of a result, charged to the memory budget until the answer is out.
 *
 * @throws GatewayError OVERLOADED, DEPENDENCY_UNAVAILABLE; JOB_NOT_FOUND when the job has been purged in between
 */
export async function openResult(
  job: Job,
  result: KeptText,
  reader: Reader,
  { budget, state, objects }: ResultStores,
): Promise<string> {
  if ('text' in result) return result.text
  const { workspace } = job
  // The text, and its bytes while they are sent.
  const bytes = 2 * result.bytes
  const options = { workspace, waitMs: MEMORY_WAIT_MS, signal: reader.signal }
  const granted = (await budget.reserve?.(bytes, options)) ?? budget.tryReserve(bytes, workspace)
  if (granted) reader.onFinished(() => budget.refund(bytes, workspace))
  reader.signal.throwIfAborted()
  if (!granted)
    throw new GatewayError(
      'OVERLOADED',
      'this node has no memory for the result right now; retry in a moment',
    )
  const text = await objects.open(result)
  if (text !== null) return text
  if ((await state.jobs.get(job.id)) === null) throw new GatewayError('JOB_NOT_FOUND')
  throw new Error(`the result of ${job.id} is not in the store`)
}
