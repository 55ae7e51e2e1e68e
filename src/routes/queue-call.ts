import { foresee } from '../gateway/foresee.ts'
import type { Call, Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import type { Principal } from '../schema/catalog.ts'
import type { FiledJob } from '../schema/job-objects.ts'
import type { JobWork } from '../schema/jobs.ts'
import type { OperationName } from '../schema/operations.ts'
import type { Doors } from './endpoint.ts'
import type { JsonRequest } from './json-request.ts'
import { callFingerprint } from './queue-fingerprint.ts'
import type { HearingTask } from './transcription-request.ts'

/** Who asks for a job, and what the answer needs. */
export interface Asker {
  readonly exchange: Exchange
  readonly trail: Trail
  readonly principal: Principal
  readonly doors: Doors
}

/** A payload that was read as its endpoint reads it, and that could be served as things are. */
export interface QueuedCall extends Pick<Call<OperationName>, 'selectors' | 'warnings'> {
  /** What it has in common with the same work in other words. Lower-case hex. */
  fingerprint(): Promise<string>
  /** Brings it to where a worker finds it. @throws GatewayError DEPENDENCY_UNAVAILABLE */
  keep(job: FiledJob): Promise<JobWork>
  /** Gives back what it holds beside the body. Idempotent. */
  release(): void
}

/**
 * The call that a payload of JSON stands for.
 *
 * @throws GatewayError INVALID_REQUEST naming the field at fault, or as `foresee`
 */
export function readGeneration<K extends Exclude<OperationName, HearingTask>>(
  request: JsonRequest<K>,
  payload: unknown,
  asker: Asker,
): QueuedCall {
  const { operation } = request
  const { exchange, trail, doors } = asker
  const call = request.read(payload, exchange)
  foresee(doors.services, { operation, trail, call })
  const { selectors, warnings } = call
  return {
    selectors,
    warnings,
    fingerprint: async () => callFingerprint(operation, call.payload, selectors),
    async keep(job) {
      const json = JSON.stringify(call.payload)
      return { operation, payload: await doors.jobs.objects.keepPayload(json, job) }
    },
    release() {},
  }
}
