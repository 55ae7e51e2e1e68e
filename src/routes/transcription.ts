import { GatewayError } from '../errors.ts'
import { admit, requireScope } from '../gateway/admit.ts'
import { fingerprintOf } from '../gateway/fingerprint.ts'
import type { Call, CallRequest, Services, Trail } from '../gateway/gateway.ts'
import { replay, runOnce } from '../gateway/once.ts'
import { run } from '../gateway/run.ts'
import { runStreamed } from '../gateway/stream.ts'
import { newJobId } from '../ids.ts'
import { type ReceivedAudio, receiveAudio } from '../inbound/body.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { PassingDigest } from '../schema/media.ts'
import type { WholeResult } from '../schema/slot-results.ts'
import { checkDuration } from './audio-duration.ts'
import { callerOf, type Doors, type Handle } from './endpoint.ts'
import { type HeardAudio, hearAudio, identityOf } from './heard-audio.ts'
import { checkIdempotencyKey, idempotencyKeyOf } from './idempotency-key.ts'
import { eventStreamReply } from './sse.ts'
import { submitJob } from './submit-job.ts'
import { renderTranscriptReply, transcriptEnvelope } from './transcript-reply.ts'
import { type HearingTask, type Offers, readTranscriptionRequest } from './transcription-request.ts'

/** What an endpoint hears, and how it answers. */
interface Hearing {
  readonly task: HearingTask
  readonly offers: Offers
}

const TRANSCRIPTION: Hearing = { task: 'transcription', offers: { stream: true, jobs: true } }
const TRANSLATION: Hearing = { task: 'translation', offers: { stream: false, jobs: false } }

/** POST /v1/transcription */
export const transcription: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe(TRANSCRIPTION, exchange, trail, doors)

/** POST /v1/translation */
export const translation: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe(TRANSLATION, exchange, trail, doors)

async function receiveAndTranscribe(
  hearing: Hearing,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services, spool, discard, digester } = doors
  const key = idempotencyKeyOf(exchange)
  const { workspace, app } = await admit(services, {
    authorization: exchange.headers.authorization,
    trail,
    idempotency: key === undefined ? undefined : { operation: hearing.task, key },
  })
  if (key !== undefined) checkIdempotencyKey(key)
  const { limits } = services.snapshot()
  const options = { limits, workspace: workspace.id, app: app.id }
  if (trail.slot?.taken === true) {
    const passing = digester.passing()
    const passed = await receiveAudio(exchange, { ...options, spool: discard, passing })
    return answerAgain(hearing, passed, passing, exchange, trail, services)
  }
  const body = await receiveAudio(exchange, { ...options, spool })
  return transcribe(hearing, body, trail.slot?.id ?? null, exchange, trail, doors)
}

/** The answer to a request whose idempotency key is in use: of its body nothing but the fingerprint is needed. */
async function answerAgain(
  { task, offers }: Hearing,
  { fields, source }: ReceivedAudio,
  passing: PassingDigest,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const { options, stream, selectors } = readTranscriptionRequest(exchange, fields, task, offers)
  if (stream || options.mode === 'async') {
    throw new GatewayError(
      'IDEMPOTENCY_KEY_REUSED',
      'this idempotency key was used for a request that was answered whole; send this one with another key',
    )
  }
  const workspace = trail.principal!.workspace.id
  const identity = source.kind === 'url' ? identityOf(source.url) : passing.finish()
  const fingerprint = fingerprintOf(task, options, selectors, identity)
  return replyOf(await replay(services, { workspace, slotId: trail.slot!.id, fingerprint }, trail))
}

/**
 * The answer to a call whose body is here. The body is given back when no attempt reads its audio any more, or goes to
 * the job that the call becomes.
 *
 * @param slotId of the caller's idempotency key; null without one
 * @param trail  of a caller who is admitted
 */
export async function transcribe(
  { task, offers }: Hearing,
  body: ReceivedAudio,
  slotId: string | null,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services } = doors
  const principal = trail.principal!
  let { release } = body
  try {
    const request = readTranscriptionRequest(exchange, body.fields, task, offers)
    const { options, stream, selectors, warnings } = request
    if (options.mode === 'async') {
      requireScope(principal, 'jobs')
      const id = newJobId('tj', principal.workspace.id)
      release = () => {}
      return await submitJob({ id, body, request }, exchange, trail, doors)
    }
    const heard = await hearAudio(body, exchange, principal, doors)
    release = () => heard.release()
    const audio = await doors.probe.probe(heard.audio, exchange.signal)
    checkDuration(audio, services.snapshot().limits)
    const call: Call<'transcription'> = { payload: { audio, options }, selectors, warnings }
    if (stream) {
      const reply = await streamTranscript(call, heard, exchange, trail, doors)
      release = () => {}
      return reply
    }
    const asked = { ...callerOf(exchange), operation: task, trail, call }
    if (slotId !== null) return replyOf(await transcribeOnce(asked, heard, slotId, services))
    const outcome = await run(services, asked)
    exchange.onFinished(outcome.release)
    return replyOf(renderTranscriptReply(outcome))
  } finally {
    // Only now does no attempt read the audio any more; its memory goes to the next request.
    release()
  }
}

async function transcribeOnce(
  request: CallRequest<HearingTask>,
  heard: HeardAudio,
  slotId: string,
  services: Services,
): Promise<WholeResult> {
  const { operation, call } = request
  const { options } = call.payload
  return runOnce(services, request, {
    slotId,
    fingerprint: fingerprintOf(operation, options, call.selectors, await heard.identity()),
    render(outcome) {
      const { headers, ...rendered } = renderTranscriptReply(outcome)
      const version = { 'x-lk-policy-version-id': outcome.envelope.policy_version_id }
      return { ...rendered, headers: { ...headers, ...version } }
    },
  })
}

function replyOf({ status, headers, text }: WholeResult): Reply {
  return { status, headers, body: text }
}

/**
 * `transcript.text.delta` for each piece, `transcript.text.done` with the whole envelope at the end. A stream
 * cannot be replayed, so that a key for that is passed by.
 */
async function streamTranscript(
  call: Call<'transcription'>,
  heard: HeardAudio,
  exchange: Exchange,
  trail: Trail,
  { services }: Doors,
): Promise<Reply> {
  if (trail.slot !== null) trail.headers['x-lk-idempotency'] = 'bypassed'
  const request = { ...callerOf(exchange), operation: 'transcription' as const, trail, call }
  const streaming = await runStreamed(services, request)
  // Left, or broken off: in both cases this settles when the provider is sent no more of the audio.
  const leave = () => streaming.deltas.return().catch(() => {})
  exchange.onFinished(() => void leave().then(() => heard.release()))
  return eventStreamReply(
    {
      deltas: streaming.deltas,
      event: (delta) => ({ type: 'transcript.text.delta', delta }),
      done() {
        const outcome = streaming.outcome()
        // A slow reader of the transcript holds no audio.
        heard.release()
        exchange.onFinished(outcome.release)
        return { type: 'transcript.text.done', ...transcriptEnvelope(outcome) }
      },
      terminator: null,
    },
    exchange,
    trail,
  )
}
