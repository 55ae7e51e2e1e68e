import { type GatewayError, toGatewayError } from '../../errors.ts'
import { newTrail, type Trail } from '../../gateway/gateway.ts'
import type { Logger } from '../../log.ts'
import type { Job, JobEnding, JobFacts } from '../../schema/jobs.ts'
import type { Tracing } from '../../schema/tracing.ts'
import type { Recorder } from '../console/watch/recorder.ts'
import { loggedFacts } from '../logged-facts.ts'
import { jobEnd } from '../traced-facts.ts'
import { Cancelled, type Claim } from './claim.ts'
import { endingOf } from './ending.ts'
import { retentionOf } from './retention.ts'
import type { JobSignals } from './signals.ts'
import { type Worked, type WorkParts, work } from './work.ts'

export interface RunParts extends WorkParts {
  readonly signals: JobSignals
  readonly log: Logger
  /** Null: it is off. */
  readonly tracing: Tracing | null
  /** Absent: nothing is shown in the console. */
  readonly recorder?: Pick<Recorder, 'ran'>
}

/** What a job becomes by a claim. Other than a status: somebody else has it, or nobody could be told. */
type Became = Job['status'] | 'lost' | 'unknown'

/**
 * Takes a claim from its beginning to its end: the work, the end, what is not needed any more, one line in the log.
 */
export async function runJob(claim: Claim, parts: RunParts): Promise<void> {
  const startMs = performance.now()
  const trail = newTrail()
  trail.trace = parts.tracing?.job(claim.job, claim.job.work.operation) ?? null
  let worked: Worked | null = null
  let ending: JobEnding
  try {
    worked = await work(claim, trail, parts)
    await claim.checkAnswered()
    ending = { state: 'succeeded', ...worked }
  } catch (thrown) {
    ending = endingAfter(thrown, claim, trail, parts)
  }
  const became = await conclude(claim, ending, worked, parts)
  trail.trace?.finish(jobEnd(trail, became))
  const milliseconds = performance.now() - startMs
  logClaim(claim.job, became, trail, milliseconds, parts.log)
  parts.recorder?.ran(claim.job, trail, milliseconds)
}

/** How a claim ends whose work did not succeed. */
function endingAfter(thrown: unknown, claim: Claim, trail: Trail, { timing }: RunParts): JobEnding {
  const { reason } = claim.signal
  const facts = failedFacts(trail)
  if (reason instanceof Cancelled) return { state: 'cancelled', facts }
  if (claim.signal.aborted) return { state: 'queued', delayMs: 0, counts: 'nothing' }
  trail.failure = toGatewayError(thrown)
  return endingOf(trail.failure, claim.job, facts, timing)
}

/** Which purpose an entry would have answered for is known of answers only. */
function failedFacts({ policyVersionId }: Trail): JobFacts {
  return { policy_version_id: policyVersionId, lk_applied_purpose: null, lk_purpose_source: null }
}

/** Ends the claim, and deletes what nobody needs after that. */
async function conclude(
  claim: Claim,
  ending: JobEnding,
  worked: Worked | null,
  { services, objects, signals, log }: RunParts,
): Promise<Became> {
  const { job, progress } = claim
  let ended: Job | null
  try {
    ended = await claim.end(ending, retentionOf(services.snapshot().limits))
  } catch (error) {
    // The result stays: if it was taken it is the job's, and otherwise it goes with the job.
    log.warn({ job_id: job.id, err: error }, 'the end of a job was not taken by the state')
    return 'unknown'
  }
  if (worked !== null && ended?.status !== 'succeeded') await objects.drop(worked.result)
  if (ended === null) return 'lost'
  signals.changed(job.id)
  if (ended.status === 'queued') return ended.status
  if (job.eventId !== null) signals.ended()
  // A failed job of the queue may be tried again by an operator; what was fetched for it is fetched again then.
  if (ended.kind === 'queue' && ended.status === 'failed') await objects.drop(progress.audio)
  else await objects.removeInput(ended)
  return ended.status
}

function logClaim(job: Job, became: Became, trail: Trail, milliseconds: number, log: Logger): void {
  const { failure } = trail
  const line = {
    job_id: job.id,
    request_id: job.requestId,
    trace_id: trail.trace?.traceId,
    kind: job.kind,
    operation: job.work.operation,
    status: became,
    fence: job.fence,
    milliseconds: Math.round(milliseconds),
    ...loggedFacts(trail),
    workspace: job.workspace,
    app: job.app,
    key_id: job.keyId,
    error: failure?.code,
  }
  // Whoever has lost a job may find its objects gone.
  if (failure?.code === 'INTERNAL' && became !== 'lost') log.error({ ...line, err: causeOf(failure) }, 'job')
  else log.info(line, 'job')
}

function causeOf(failure: GatewayError): unknown {
  return failure.extra.cause ?? failure
}
