import type { Audio } from '../../contracts/audio.ts'
import { callFacts, jobEnd } from '../../contracts/call-facts.ts'
import { limitsOfApp } from '../../contracts/catalog.ts'
import { type ErrorCode, GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Job, JobEnding, JobError, JobFacts, JobKind, JobWork } from '../../contracts/jobs.ts'
import type { Logger } from '../../contracts/log.ts'
import type { MediaProbe } from '../../contracts/media.ts'
import type { KeptText } from '../../contracts/objects.ts'
import type { OperationName, TranscriptionTask } from '../../contracts/operations.ts'
import type { Recorder } from '../../contracts/recorder.ts'
import type { FetchedAudio, RemoteAudio } from '../../contracts/remote-audio.ts'
import { sleep } from '../../contracts/time.ts'
import type { Tracing } from '../../contracts/tracing.ts'
import type { Outcome } from '../call/attempt/outcome.ts'
import { transcriptEnvelope } from '../call/attempt/transcript.ts'
import { jobPrincipal } from '../call/authentication.ts'
import { type AdmittedContext, CallContext, type CallRouting } from '../call/context/call-context.ts'
import { keptEndUser } from '../call/context/end-users.ts'
import type { Services } from '../call/context/services.ts'
import type { Call, JobContext } from '../call/facts/call.ts'
import { run } from '../call/pipeline.ts'
import { checkDuration } from '../media/measure.ts'
import { isInline } from '../storage/kept-texts.ts'
import type { BeginReading } from '../storage/read-ahead.ts'
import { allowedDomains } from '../storage/remote-audio.ts'
import { Cancelled, type Claim, doubled, InputGone, type JobTiming, spread } from './claim.ts'
import { PartKeeper } from './part-keeper.ts'
import { retentionOf } from './retention.ts'
import type { JobSignals } from './watch.ts'

export interface RunDependencies extends WorkDependencies {
  readonly log: Logger
  /** Null when tracing is off. */
  readonly tracing: Tracing | null
  /** Absent when nothing is recorded for the console. */
  readonly recorder?: Pick<Recorder, 'ran'>
}

/** Status of a job after a claim; `lost`: another worker has it, `unknown`: the state could not be told. */
type Became = Job['status'] | 'lost' | 'unknown'

/**
 * Runs a claim from beginning to end: does the work, ends the job, logs one line.
 *
 * @returns deletes the objects that are no longer needed; never rejects
 */
export async function runJob(claim: Claim, deps: RunDependencies): Promise<() => Promise<void>> {
  const { clock } = deps.services
  const startMs = clock.now()
  const { job, signal } = claim
  const context = new CallContext({ requestId: job.requestId, signal }, job.traceparent ?? undefined)
  context.trace = deps.tracing?.job(job, job.work.operation) ?? null
  let worked: Worked | null = null
  let ending: JobEnding
  try {
    worked = await work(claim, context, deps)
    ending = { state: 'succeeded', ...worked }
  } catch (thrown) {
    ending = endingAfter(thrown, claim, context, deps)
  }
  claim.noteCharged(context.money.chargedMicros)
  const { chargedMicros = 0 } = claim.progress
  if (ending.state !== 'queued' && !claim.lost)
    deps.services.usageKeeper?.ending(job, context, { became: ending.state, chargedMicros })
  const { became, tidy } = await conclude(claim, ending, worked, deps)
  context.trace?.finish(jobEnd(context, became))
  const milliseconds = clock.now() - startMs
  logClaim(job, became, context, milliseconds, deps.log)
  deps.recorder?.ran(job, context, { milliseconds, became, chargedMicros })
  return tidy
}

/** Chooses how a claim ends whose work did not succeed, and notes why. */
function endingAfter(
  thrown: unknown,
  claim: Claim,
  context: CallContext,
  { timing }: RunDependencies,
): JobEnding {
  if (!claim.signal.aborted) context.failure = toGatewayError(thrown)
  return endingOfClaim(thrown, claim, failedFacts(context.routing), timing)
}

function endingOfClaim(
  thrown: unknown,
  { job, signal }: Claim,
  facts: JobFacts,
  timing: JobTiming,
): JobEnding {
  if (signal.reason instanceof Cancelled) return { state: 'cancelled', facts }
  if (signal.aborted) return { state: 'queued', delayMs: 0, counts: 'nothing' }
  return jobEnding(thrown, job, facts, timing)
}

/** Facts of a job without an answer: its applied purpose is unknown. */
function failedFacts({ policyVersionId }: Pick<CallRouting, 'policyVersionId'>): JobFacts {
  return { policy_version_id: policyVersionId, lk_applied_purpose: null, lk_purpose_source: null }
}

interface Concluded {
  readonly became: Became
  /** Deletes the objects that the end has left without use. What it does not get to is the sweeper's. */
  readonly tidy: () => Promise<void>
}

const nothing = async () => {}

/** Ends the claim. */
async function conclude(
  claim: Claim,
  ending: JobEnding,
  worked: Worked | null,
  { services, objects, signals, log }: RunDependencies,
): Promise<Concluded> {
  const { job, progress } = claim
  let ended: Job | null
  try {
    ended = await claim.end(ending, retentionOf(services.snapshot().limits))
  } catch (error) {
    // The result stays: it is the job's if the state took it, and is purged with the job otherwise.
    log.warn({ job_id: job.id, err: error }, 'the end of a job was not taken by the state')
    return { became: 'unknown', tidy: nothing }
  }
  const dropResult = () =>
    worked === null || ended?.status === 'succeeded' ? nothing() : objects.drop(worked.result)
  if (ended === null) return { became: 'lost', tidy: dropResult }
  signals.changed(job.id)
  if (ended.status === 'queued') return { became: ended.status, tidy: dropResult }
  if (job.eventId !== null) signals.ended()
  const tidy = async () => {
    await dropResult()
    // An operator may retry a failed job of the queue, which fetches its audio again.
    if (ended.kind === 'queue' && ended.status === 'failed') await objects.drop(progress.audio)
    // The end of the job has removed what its record had.
    else if (claim.input === undefined || progress.parts !== undefined)
      await objects.removeInput(ended, progress.parts !== undefined)
  }
  return { became: ended.status, tidy }
}

function logClaim(job: Job, became: Became, context: CallContext, milliseconds: number, log: Logger): void {
  const { failure } = context
  const line = {
    job_id: job.id,
    request_id: job.requestId,
    trace_id: context.traceId ?? undefined,
    kind: job.kind,
    operation: job.work.operation,
    status: became,
    fence: job.fence,
    milliseconds: Math.round(milliseconds),
    ...callFacts(context),
    workspace: job.workspace,
    app: job.app,
    key_id: job.keyId,
    error: failure?.code,
  }
  // A worker that has lost its job may find its objects deleted.
  if (failure?.code === 'INTERNAL' && became !== 'lost') log.error({ ...line, err: causeOf(failure) }, 'job')
  else log.info(line, 'job')
}

function causeOf(failure: GatewayError): unknown {
  return failure.extra.cause ?? failure
}

/** Retries of a job because providers failed, or the store did not find what it was given, or gave something else. */
const RETRIES_MAX: Readonly<Record<JobKind, number>> = { transcription: 2, queue: 3 }
/** Returns of a job to the queue without a provider asked (a store, this node, cooling providers): over an hour. */
const RETURNS_MAX = 70
/** Longest pause that a provider's `Retry-After` can cause. */
const LONGEST_PAUSE_MS = 15 * 60_000

const PROVIDER_FAILURES: ReadonlySet<ErrorCode> = new Set(['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT'])
/** Failures before any provider was asked. */
const UNASKED: ReadonlySet<ErrorCode> = new Set([
  'DEPENDENCY_UNAVAILABLE',
  'OVERLOADED',
  'PROVIDERS_COOLING_DOWN',
])

/** Chooses how a claim ends whose work failed: a temporary failure is retried a limited number of times. */
export function jobEnding(thrown: unknown, job: Job, facts: JobFacts, timing: JobTiming): JobEnding {
  const failure = toGatewayError(thrown)
  const { kind, retries, returns } = job
  const { retryAfterMs } = failure.extra
  const isRetried = PROVIDER_FAILURES.has(failure.code) || failure.extra.cause instanceof InputGone
  if (isRetried && retries < RETRIES_MAX[kind]) {
    const pauseMs = spread(timing.retryMs[retries] ?? LONGEST_PAUSE_MS)
    return { state: 'queued', delayMs: notBefore(retryAfterMs, pauseMs), counts: 'retry' }
  }
  if (UNASKED.has(failure.code) && returns < RETURNS_MAX) {
    const pauseMs = doubled(timing.returnMs, returns)
    return { state: 'queued', delayMs: notBefore(retryAfterMs, pauseMs), counts: 'return' }
  }
  return { state: 'failed', error: jobErrorOf(failure), facts }
}

/** Waits at least as long as the provider asks, plus a spread, so that waiting jobs do not all come at once. */
function notBefore(retryAfterMs: number | undefined, pauseMs: number): number {
  if (retryAfterMs === undefined) return pauseMs
  const asked = Math.ceil(retryAfterMs * (1 + 0.2 * Math.random()))
  return Math.max(pauseMs, Math.min(LONGEST_PAUSE_MS, asked))
}

/** Keeps what the caller may know of a failure: never its cause. */
function jobErrorOf({ code, message, extra }: GatewayError): JobError {
  return { code, message, param: extra.param ?? null, details: extra.details ?? {} }
}

interface WorkDependencies extends JobAudioDependencies {
  readonly signals: JobSignals
  /** Begins to read audio that is about to be sent; absent: it is read when it is sent. */
  readonly readAhead?: BeginReading | undefined
  readonly objects: JobObjects
}

interface Worked {
  /** Null for jobs of the queue, whose output is never read. */
  readonly result: KeptText | null
  readonly facts: JobFacts
}

type TranscriptionWork = Extract<JobWork, { readonly operation: TranscriptionTask }>
type OtherWork = Exclude<JobWork, TranscriptionWork>

/**
 * Does the work of a job through the pipeline of every call.
 *
 * @param context collects the facts of the call, also when it fails
 * @throws GatewayError as `run` and `jobAudio`; NO_HEALTHY_PROVIDER when the job's app is no longer configured;
 *         INTERNAL when its input is gone; the abort reason of the claim
 */
async function work(claim: Claim, context: CallContext, deps: WorkDependencies): Promise<Worked> {
  const { job } = claim
  const principal = jobPrincipal(job, deps.services.snapshot())
  if (principal === null) {
    throw new GatewayError('NO_HEALTHY_PROVIDER', 'the app of this job is no longer configured')
  }
  const identified = context.identify(principal)
  if (job.endUser !== undefined) context.endUser = keptEndUser(deps.services, principal, job.endUser)
  const { work: given } = job
  return 'audio' in given
    ? workTranscription(given, claim, identified, deps)
    : generate(given, claim, identified, deps)
}

async function workTranscription(
  { operation, audio: given, options }: TranscriptionWork,
  claim: Claim,
  context: AdmittedContext,
  deps: WorkDependencies,
): Promise<Worked> {
  const { job } = claim
  const audio = await jobAudio(given, claim, deps)
  const { selectors, warnings } = job
  const call: Call<TranscriptionTask> = { operation, payload: { audio, options }, selectors, warnings }
  const counted = { ...jobContext(claim, deps), isUncounted: 'url' in given && claim.job.fence === 1 }
  const request = { mode: 'job', call, job: counted } as const
  const stopReading = deps.readAhead?.(audio, claim.signal)
  const outcome = await run(deps.services, context, request)
    .catch((error: unknown) => {
      throw isJobGone(error) ? new InputGone('the audio of the job is gone', { cause: error }) : error
    })
    .finally(stopReading)
  try {
    const audioFacts = job.callback === undefined ? {} : { audio_channels: audio.channels }
    const facts = { ...outcomeFacts(outcome), ...audioFacts }
    if (job.kind === 'queue') return { result: null, facts }
    const json = JSON.stringify(transcriptEnvelope(outcome))
    // The end of the claim finds out by itself whether the job was cancelled or lost: only an object is not worth it.
    if (!isInline(json)) await claim.checkAnswered()
    return { result: await deps.objects.keepResult(json, job, job.fence), facts }
  } finally {
    outcome.release()
  }
}

async function generate(
  { operation, payload: kept }: OtherWork,
  claim: Claim,
  context: AdmittedContext,
  deps: WorkDependencies,
): Promise<Worked> {
  const json = await deps.objects.open(kept)
  if (json === null) throw new InputGone('the payload of the job is gone')
  const { selectors, warnings } = claim.job
  // As it was read when the job was accepted.
  const call = { operation, payload: JSON.parse(json), selectors, warnings } as Call<OtherWork['operation']>
  const outcome = await run(deps.services, context, { mode: 'job', call, job: jobContext(claim, deps) })
  outcome.release()
  return { result: null, facts: outcomeFacts(outcome) }
}

function jobContext(claim: Claim, deps: WorkDependencies): JobContext {
  const { job } = claim
  const { timing } = deps
  return {
    id: job.id,
    claim: job.fence,
    retries: job.retries,
    deadlineMs: timing.attemptMs,
    progress: claim.progress.upstream,
    note: (progress) => claim.noteUpstream(progress),
    parts: new PartKeeper(claim, { ...deps, clock: deps.services.clock }),
    isRetried: (thrown) =>
      endingOfClaim(thrown, claim, failedFacts({ policyVersionId: null }), timing).state === 'queued',
  }
}

/** The store is well and has no such object, as a folder and as an S3 server say it. */
function isJobGone(error: unknown): boolean {
  if (!(error instanceof GatewayError) || !(error.cause instanceof Error)) return false
  const { name, code } = error.cause as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'EBADMSG' || name === 'NoSuchKey'
}

function outcomeFacts({ envelope }: Outcome<OperationName>): JobFacts {
  const { policy_version_id, lk_applied_purpose, lk_purpose_source } = envelope
  return { policy_version_id, lk_applied_purpose, lk_purpose_source }
}

interface JobAudioDependencies {
  readonly services: Services
  readonly probe: MediaProbe
  readonly remoteAudio: RemoteAudio
  readonly objects: Pick<JobObjects, 'openInline'>
  readonly timing: JobTiming
}

/**
 * The audio of a job, where workers find it: as it was given, as an earlier claim has fetched it, or fetched now.
 *
 * @throws GatewayError as `RemoteAudio.fetch`, `MediaProbe.probe` and `checkDuration`; what the claim ends with
 */
async function jobAudio(
  given: Audio | { readonly url: string },
  claim: Claim,
  deps: JobAudioDependencies,
): Promise<Audio> {
  if (!('url' in given)) {
    if (claim.input === undefined) return given
    const audio = deps.objects.openInline(given, claim.input)
    if (audio === null) throw new InputGone('the audio in the record of the job is damaged')
    return audio
  }
  const { audio: earlier } = claim.progress
  if (earlier !== null) return earlier
  const { services, probe } = deps
  const { audio: fetched, release } = await fetchAudio(given.url, claim, deps)
  try {
    await claim.checkpoint()
    const audio = await probe.probe(fetched, claim.signal)
    checkDuration(audio, limitsOfApp(claim.job, services.snapshot()))
    claim.noteAudio(audio)
    await claim.checkpoint()
    return audio
  } catch (error) {
    if (claim.progress.audio === null) release()
    throw error
  }
}

/** Only what may be the host's bad moment is tried again. */
async function fetchAudio(
  url: string,
  { job, signal }: Claim,
  { services, remoteAudio, timing }: JobAudioDependencies,
): Promise<FetchedAudio> {
  const options = {
    // Allowed when the job was accepted, and maybe no more.
    domains: await allowedDomains(job.workspace, services),
    maxBytes: limitsOfApp(job, services.snapshot()).max_audio_url_bytes,
    workspace: job.workspace,
    job: job.id,
    signal,
  }
  for (const pauseMs of timing.fetchAgainMs) {
    try {
      return await remoteAudio.fetch(url, options)
    } catch (error) {
      if (!(error instanceof GatewayError && isPassing(error))) throw error
    }
    await sleep(services.clock, spread(pauseMs), { signal })
  }
  return await remoteAudio.fetch(url, options)
}

/** The host failed, or no name server told where it is: neither has to last. */
function isPassing({ code, extra }: GatewayError): boolean {
  return code === 'AUDIO_URL_FETCH_FAILED' || extra.details?.reason === 'unresolvable'
}
