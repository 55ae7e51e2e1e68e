import { GatewayError } from '../errors.ts'
import { fingerprintOf, slotIdOf } from '../gateway/fingerprint.ts'
import type { Trail } from '../gateway/gateway.ts'
import { newId, partitionOf } from '../ids.ts'
import { noAudio, type ReceivedAudio } from '../inbound/body.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { Audio } from '../schema/audio.ts'
import type { Principal } from '../schema/catalog.ts'
import type { JobSpec, JobSubmission } from '../schema/jobs.ts'
import { checkDuration } from './audio-duration.ts'
import type { Doors } from './endpoint.ts'
import { foreseeHearing } from './foresee-hearing.ts'
import { checkAudioUrl, identityOf } from './heard-audio.ts'
import { idempotencyKeyOf } from './idempotency-key.ts'
import { pollHeaders, pollUrl, submissionView } from './job-view.ts'
import { KEY_MS, submitSurely, submitterOf } from './submission.ts'
import type { TranscriptionRequest } from './transcription-request.ts'

export interface Submission {
  /** As `newJobId` makes them. */
  readonly id: string
  /** Belongs to the job from now on, or is given back. */
  readonly body: ReceivedAudio
  readonly request: TranscriptionRequest
}

/**
 * Accepts a transcription as a durable job. Before the answer its audio is in the object store and its record in the
 * state; what is refused before leaves neither. Audio by URL is left to the worker, but for whether it may be fetched.
 *
 * @param trail of a caller who is admitted and may have jobs
 * @throws GatewayError of what is wrong with the audio, as the synchronous endpoint; as `foreseeHearing`;
 *         AUDIO_URL_REJECTED; IDEMPOTENCY_KEY_REUSED; DEPENDENCY_UNAVAILABLE, also when nobody knows whether the state
 *         has taken the job
 */
export async function submitJob(
  { id, body, request }: Submission,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services, jobs } = doors
  const principal = trail.principal!
  const key = idempotencyKeyOf(exchange)
  const handed = await handOver({ id, body, request }, key !== undefined, exchange, trail, doors)
  const spec = specOf(id, request, handed.audio, exchange, trail)
  const slot = key === undefined ? null : slotOf(key, handed.identity!, request, principal)
  // When this throws the job may be there: its audio stays until the sweep has found that it is not.
  const submitted = await submitSurely({ spec, slot }, services.state.jobs)
  const isOurs = submitted.state === 'accepted' && submitted.id === id
  if (!isOurs) handed.drop()
  if (submitted.state === 'reused') throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  if (isOurs) jobs.signals.queued(partitionOf(principal.workspace.id))
  else trail.replayed = true
  trail.jobId = submitted.id
  const { job } = submitted
  return {
    status: isOurs ? 202 : 200,
    headers: {
      location: pollUrl(submitted.id),
      ...pollHeaders(job),
      ...(isOurs ? {} : { 'x-lk-idempotent-replay': 'true' }),
    },
    body: JSON.stringify(submissionView(submitted.id, job)),
  }
}

/** What a job is given to hear. */
interface Handed {
  readonly audio: Audio | { readonly url: string }
  /** What two submissions with the same audio have in common; null when nobody asked. */
  readonly identity: string | null
  /** Deletes it: no job has it. */
  drop(): void
}

/** Everything that can be wrong is found before the audio is kept. The body is given back when this throws. */
async function handOver(
  { id, body, request }: Submission,
  keyed: boolean,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Handed> {
  const { services, probe } = doors
  const { source, fields } = body
  try {
    if (source.kind === 'none') throw noAudio(fields)
    if (source.kind === 'url') {
      const { url } = source
      await checkAudioUrl(url, trail.principal!.workspace.id, services)
      foreseeHearing(services, 'transcription', request, null, trail)
      exchange.signal.throwIfAborted()
      return { audio: { url }, identity: identityOf(url), drop() {} }
    }
    const audio = await probe.probe(source.audio, exchange.signal)
    checkDuration(audio, services.snapshot().limits)
    foreseeHearing(services, 'transcription', request, audio, trail)
    return await keep(audio, { id, body }, keyed, exchange, trail, doors)
  } catch (error) {
    body.release()
    throw error
  }
}

/** Brings the audio to where the job finds it, and meanwhile takes its digest where a key asks for one. */
async function keep(
  audio: Audio,
  { id, body }: Pick<Submission, 'id' | 'body'>,
  keyed: boolean,
  { signal }: Exchange,
  trail: Trail,
  { digester, jobs: { objects } }: Doors,
): Promise<Handed> {
  const filed = { id, workspace: trail.principal!.workspace.id }
  // Both are awaited whatever comes of the other: one that still reads would read the next request's audio.
  const [keeping, digesting] = await Promise.allSettled([
    objects.keepAudio(audio, filed, signal),
    keyed ? digester.digest(audio, signal) : null,
  ])
  if (keeping.status === 'rejected') throw keeping.reason
  const kept = keeping.value
  const isCopy = !isSameObject(kept, audio)
  const drop = () => {
    if (isCopy) void objects.drop(kept)
    else body.release()
  }
  // What was in memory, or elsewhere in the store, is needed no more.
  if (isCopy) body.release()
  if (digesting.status === 'rejected' || signal.aborted) {
    drop()
    throw digesting.status === 'rejected' ? digesting.reason : signal.reason
  }
  return { audio: kept, identity: digesting.value, drop }
}

function isSameObject({ source: one }: Audio, { source: other }: Audio): boolean {
  return one.kind === 'object' && other.kind === 'object' && one.key === other.key
}

function specOf(
  id: string,
  { options, selectors, warnings }: TranscriptionRequest,
  audio: Handed['audio'],
  exchange: Exchange,
  trail: Trail,
): JobSpec {
  return {
    id,
    kind: 'transcription',
    mode: 'priority',
    endpoint: 'transcription',
    ...submitterOf(exchange, trail),
    selectors,
    warnings,
    work: { operation: 'transcription', options, audio },
    eventId: newId('evt'),
  }
}

function slotOf(
  key: string,
  identity: string,
  { options, selectors }: TranscriptionRequest,
  principal: Principal,
): JobSubmission['slot'] {
  // How the job was asked for makes no other job.
  const same = { ...options, mode: 'async' as const }
  return {
    id: slotIdOf(principal, 'transcription_job', key),
    fingerprint: fingerprintOf('transcription', same, selectors, identity),
    keepMs: KEY_MS,
  }
}
