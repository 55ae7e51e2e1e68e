import { GatewayError } from '../../errors.ts'
import type { CallRequest, Trail } from '../../gateway/gateway.ts'
import { jobPrincipal } from '../../gateway/job-principal.ts'
import { run } from '../../gateway/run.ts'
import type { Outcome } from '../../gateway/settle.ts'
import type { JobObjects } from '../../schema/job-objects.ts'
import type { JobFacts, JobWork, KeptText } from '../../schema/jobs.ts'
import type { Calls, OperationName } from '../../schema/operations.ts'
import { transcriptEnvelope } from '../transcript-reply.ts'
import type { HearingTask } from '../transcription-request.ts'
import type { Claim } from './claim.ts'
import { audioOf, type JobAudioParts } from './job-audio.ts'

export interface WorkParts extends JobAudioParts {
  readonly objects: JobObjects
}

/** What came of the work. */
export interface Worked {
  /** Null for jobs whose output nobody reads. */
  readonly result: KeptText | null
  readonly facts: JobFacts
}

type HeardWork = Extract<JobWork, { readonly operation: HearingTask }>
type OtherWork = Exclude<JobWork, HeardWork>

/**
 * Does what a job is to do, by the way of every call.
 *
 * @param trail what becomes known on the way, also when it fails
 * @throws GatewayError as `run` and `audioOf`, NO_HEALTHY_PROVIDER when the configuration has the job's app no more,
 *         INTERNAL when what the job was given is gone; what the claim ends with
 */
export async function work(claim: Claim, trail: Trail, parts: WorkParts): Promise<Worked> {
  const { job } = claim
  const principal = jobPrincipal(job, parts.services.snapshot())
  if (principal === null) {
    throw new GatewayError('NO_HEALTHY_PROVIDER', 'the app of this job is not configured any more')
  }
  trail.principal = principal
  const { work: given } = job
  return 'audio' in given ? hear(given, claim, trail, parts) : generate(given, claim, trail, parts)
}

async function hear(
  { operation, audio: given, options }: HeardWork,
  claim: Claim,
  trail: Trail,
  parts: WorkParts,
): Promise<Worked> {
  const { job } = claim
  const audio = await audioOf(given, claim, parts)
  const request = requestOf(operation, { audio, options }, claim, trail, parts)
  const outcome = await run(parts.services, request).catch((error: unknown) => {
    throw isMissing(error) ? new Error('the audio of the job is gone', { cause: error }) : error
  })
  try {
    await claim.checkAnswered()
    const facts = factsOf(outcome)
    if (job.kind === 'queue') return { result: null, facts }
    const json = JSON.stringify(transcriptEnvelope(outcome))
    return { result: await parts.objects.keepResult(json, job, job.fence), facts }
  } finally {
    outcome.release()
  }
}

async function generate(
  { operation, payload: kept }: OtherWork,
  claim: Claim,
  trail: Trail,
  parts: WorkParts,
): Promise<Worked> {
  const json = await parts.objects.open(kept)
  if (json === null) throw new Error('the payload of the job is gone')
  // As it was read when the job was accepted.
  const payload = JSON.parse(json) as Calls[OtherWork['operation']]
  const outcome = await run(parts.services, requestOf(operation, payload, claim, trail, parts))
  outcome.release()
  return { result: null, facts: factsOf(outcome) }
}

function requestOf<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  claim: Claim,
  trail: Trail,
  { timing }: WorkParts,
): CallRequest<K> {
  const { job, signal } = claim
  return {
    id: job.requestId,
    operation,
    authorization: undefined,
    traceparent: job.traceparent ?? undefined,
    signal,
    trail,
    call: { payload, selectors: job.selectors, warnings: job.warnings },
    job: {
      id: job.id,
      claim: job.fence,
      retries: job.retries,
      deadlineMs: timing.attemptMs,
      progress: claim.progress.upstream,
      note: (progress) => claim.noteUpstream(progress),
    },
  }
}

/** The store is well and has no such object, as a folder and as an S3 server say it: no further try would find it. */
function isMissing(error: unknown): boolean {
  if (!(error instanceof GatewayError) || !(error.cause instanceof Error)) return false
  const { name, code } = error.cause as NodeJS.ErrnoException
  return code === 'ENOENT' || name === 'NoSuchKey'
}

function factsOf({ envelope }: Outcome<OperationName>): JobFacts {
  const { policy_version_id, lk_applied_purpose, lk_purpose_source } = envelope
  return { policy_version_id, lk_applied_purpose, lk_purpose_source }
}
