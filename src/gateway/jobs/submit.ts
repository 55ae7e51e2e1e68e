import type { Audio } from '../../contracts/audio.ts'
import { toAbortSignal } from '../../contracts/cancellation.ts'
import { limitsOf, type Principal, uploadUser } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { newId, partitionOf } from '../../contracts/ids.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type {
  Job,
  JobCallback,
  JobDoor,
  JobSpec,
  JobSubmission,
  Jobs,
  Submitted,
} from '../../contracts/jobs.ts'
import type { AudioDigester, MediaProbe } from '../../contracts/media.ts'
import { type Clock, sleep } from '../../contracts/time.ts'
import type { UploadedAudio } from '../../contracts/uploads.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import { fingerprintOf, slotIdOf } from '../call/context/idempotency.ts'
import type { Services } from '../call/context/services.ts'
import { noAudioField, type ReceivedAudio } from '../edge/body.ts'
import { checkDuration } from '../media/measure.ts'
import { checkAudioUrl, urlIdentity } from '../storage/remote-audio.ts'
import { keepInput } from './inputs.ts'
import { preflightTranscription, type TranscriptionInput } from './preflight-transcription.ts'
import type { JobSignals } from './watch.ts'

/** Shortest time that an idempotency key is remembered, in ms. */
export const KEY_MS = 24 * 3_600_000

/** Longest time that a submission is repeated while the state does not answer, and the pause between tries, in ms. */
const SUBMIT_MS = 5_000
const PAUSE_MS = 200

/** The stores and readers that a submission needs. */
export interface SubmitDependencies {
  readonly services: Services
  readonly probe: MediaProbe
  readonly digester: AudioDigester
  readonly uploads: UploadedAudio
  readonly jobs: { readonly objects: JobObjects; readonly signals: JobSignals }
}

export interface Submission {
  /** As `newJobId` makes them. */
  readonly id: string
  /** Belongs to the job from now on, or is given back. */
  readonly body: ReceivedAudio
  readonly request: TranscriptionInput
  /** The checked idempotency key; undefined without one. */
  readonly key: string | undefined
  /** Absent: it came by the gateway's own endpoint. */
  readonly door?: JobDoor
  /** Absent: its end is told to the webhook of the workspace. */
  readonly callback?: RequestedCallback
}

/** A callback with what tells it from others: each time it is sealed it looks different. */
export interface RequestedCallback {
  readonly kept: JobCallback
  readonly identity: string
}

export interface SubmittedJob {
  /** The id of the job, which is an earlier one's when the key was used before. */
  readonly id: string
  /** Null when the earlier job is gone. */
  readonly job: Job | null
  readonly isNew: boolean
}

/**
 * Accepts a transcription as a durable job. When this resolves its record is in the state, and its audio in that or in
 * the object store; a refused submission leaves neither. Audio by URL is fetched by the worker; only its URL is checked
 * here.
 *
 * @throws GatewayError as the synchronous endpoint for what is wrong with the audio; as `preflightTranscription`;
 *         AUDIO_URL_REJECTED; IDEMPOTENCY_KEY_REUSED; DEPENDENCY_UNAVAILABLE, also when it is unknown whether the state
 *         has taken the job
 */
export async function submitJob(
  submission: Submission,
  context: AdmittedContext,
  deps: SubmitDependencies,
): Promise<SubmittedJob> {
  const { id, key } = submission
  const { principal } = context
  const stored = await storeInput(submission, context, deps)
  const spec = specOf(submission, stored.audio, context)
  const slot = key === undefined ? null : slotOf(key, stored.identity!, submission, principal)
  // When this throws the job may exist: its audio stays until the sweeper has found that it does not.
  const submitted = await submitUntilTaken(
    { spec, slot, input: stored.input },
    deps.services.state.jobs,
    deps.services.clock,
  )
  const isNew = submitted.state === 'accepted' && submitted.id === id
  if (!isNew) stored.drop()
  if (submitted.state === 'reused') throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  if (isNew) deps.jobs.signals.queued(partitionOf(principal.workspace.id))
  else context.answer.replayed = true
  context.jobId = submitted.id
  return { id: submitted.id, job: submitted.job, isNew }
}

/**
 * Submits, and repeats while the state does not answer: with the same id it takes the job once.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE: the job may exist all the same, so nothing of it may be deleted
 */
export async function submitUntilTaken(
  submission: JobSubmission,
  jobs: Pick<Jobs, 'submit'>,
  clock: Clock,
): Promise<Submitted> {
  const untilMs = clock.now() + SUBMIT_MS
  for (;;) {
    try {
      return await jobs.submit(submission)
    } catch (error) {
      const isAway = error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE'
      if (!isAway || clock.now() + PAUSE_MS > untilMs) throw error
    }
    await sleep(clock, PAUSE_MS)
  }
}

/** The fields of a job that say who submitted it, and by which request. */
export function submitterFields({ id, principal, endUser, trace, traceparent }: AdmittedContext) {
  const { workspace, app, key } = principal
  const { requestsPerMinute: _, burst: __, ...keyRates } = key.rateLimit
  return {
    workspace: workspace.id,
    app: app.id,
    keyId: key.id,
    keyBudgetMicros: key.budgetMicros,
    ...(Object.keys(keyRates).length === 0 ? {} : { keyRates }),
    ...(endUser === null ? {} : { endUser: endUser.id }),
    requestId: id,
    traceparent: trace?.traceparent ?? traceparent ?? null,
  } satisfies Partial<JobSpec>
}

/** The input of a job where its worker finds it. */
interface StoredInput extends Pick<JobSubmission, 'input'> {
  readonly audio: Audio | { readonly url: string }
  /** Equal for two submissions of the same audio; null when there is no key to compare it for. */
  readonly identity: string | null
  /** Deletes it, when no job has taken it. */
  drop(): void
}

/** Finds everything that can be wrong before the audio is stored. Gives the body back when it throws. */
async function storeInput(
  { id, body, request, key }: Submission,
  context: AdmittedContext,
  deps: SubmitDependencies,
): Promise<StoredInput> {
  const { services, probe, uploads } = deps
  const { source, fields } = body
  try {
    if (source.kind === 'none') throw noAudioField(fields)
    const signal = toAbortSignal(context.signal)
    const url = source.kind === 'url' ? source.url : null
    const user = uploadUser(context.principal, services.snapshot())
    const sent = source.kind === 'url' ? await uploads.at(source.url, user, signal) : source.audio
    if (sent === null) return await storeUrl(url!, request, context, services)
    const audio = await probe.probe(sent, signal)
    checkDuration(audio, limitsOf(context.principal, services.snapshot()))
    await preflightTranscription(services, context, 'transcription', { ...request, audio })
    const stored = await storeAudio(
      audio,
      { id, body, isKeyed: key !== undefined && url === null },
      context,
      deps,
    )
    return url === null ? stored : { ...stored, identity: urlIdentity(url) }
  } catch (error) {
    body.release()
    throw error
  }
}

/** Leaves the audio to the worker but for its URL. */
async function storeUrl(
  url: string,
  request: TranscriptionInput,
  context: AdmittedContext,
  services: Services,
): Promise<StoredInput> {
  await checkAudioUrl(url, context.principal.workspace.id, services)
  await preflightTranscription(services, context, 'transcription', { ...request, audio: null })
  context.signal.throwIfAborted()
  return { audio: { url }, identity: urlIdentity(url), drop() {} }
}

/** Stores the audio for the worker, and takes its digest at the same time where a key needs one. */
async function storeAudio(
  audio: Audio,
  { id, body, isKeyed }: { id: string; body: ReceivedAudio; isKeyed: boolean },
  { principal, signal }: AdmittedContext,
  { services: { state }, digester, jobs: { objects } }: SubmitDependencies,
): Promise<StoredInput> {
  const owner = { id, workspace: principal.workspace.id }
  // Both are awaited whatever becomes of the other: one that still reads would read the next request's audio.
  const [storing, digesting] = await Promise.allSettled([
    keepInput(audio, owner, toAbortSignal(signal), { objects, state }),
    isKeyed ? digester.digest(audio, toAbortSignal(signal)) : null,
  ])
  if (storing.status === 'rejected') throw storing.reason
  const { audio: kept, input } = storing.value
  const isCopy = !isSameObject(kept, audio)
  const drop = () => {
    if (!isCopy) body.release()
    else if (input === undefined) void objects.drop(kept)
  }
  // The copy replaces the bytes in memory or at another place of the store.
  if (isCopy) body.release()
  if (digesting.status === 'rejected' || signal.aborted) {
    drop()
    throw digesting.status === 'rejected' ? digesting.reason : signal.reason
  }
  return { audio: kept, input, identity: digesting.value, drop }
}

function isSameObject({ source: one }: Audio, { source: other }: Audio): boolean {
  return one.kind === 'object' && other.kind === 'object' && one.key === other.key
}

function specOf(
  { id, request: { options, selectors, warnings }, door, callback }: Submission,
  audio: StoredInput['audio'],
  context: AdmittedContext,
): JobSpec {
  return {
    id,
    kind: 'transcription',
    mode: 'priority',
    endpoint: 'transcription',
    ...submitterFields(context),
    selectors,
    warnings,
    work: { operation: 'transcription', options, audio },
    eventId: newId(callback === undefined ? 'evt' : 'cbk'),
    ...(door === undefined ? {} : { door }),
    ...(callback === undefined ? {} : { callback: callback.kept }),
  }
}

function slotOf(
  key: string,
  identity: string,
  { request: { options, selectors }, callback }: Pick<Submission, 'request' | 'callback'>,
  principal: Principal,
): JobSubmission['slot'] {
  // The mode that a job was asked for with makes no other job.
  const comparable = { ...options, mode: 'async' as const }
  return {
    id: slotIdOf(principal, 'transcription_job', key),
    fingerprint: fingerprintOf('transcription', comparable, selectors, identity, callback?.identity),
    keepMs: KEY_MS,
  }
}
