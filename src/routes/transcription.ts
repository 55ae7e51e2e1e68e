import { GatewayError } from '../errors.ts'
import { admit, requireScope } from '../gateway/admit.ts'
import { elsewhere } from '../gateway/elsewhere.ts'
import { fingerprintOf } from '../gateway/fingerprint.ts'
import type { Call, CallRequest, Services, Trail } from '../gateway/gateway.ts'
import { replay, runOnce } from '../gateway/once.ts'
import { run } from '../gateway/run.ts'
import type { Outcome } from '../gateway/settle.ts'
import { runStreamed, type Streaming } from '../gateway/stream.ts'
import { newJobId } from '../ids.ts'
import { type ReceivedAudio, receiveAudio } from '../inbound/body.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { Fields } from '../inbound/form.ts'
import { invalid } from '../inbound/refusals.ts'
import type { Principal } from '../schema/catalog.ts'
import type { PassingDigest } from '../schema/media.ts'
import type { WholeResult } from '../schema/slot-results.ts'
import { checkDuration } from './audio-duration.ts'
import { callerOf, type Doors, type Handle } from './endpoint.ts'
import { type HeardAudio, hearAudio, identityOf } from './heard-audio.ts'
import { checkIdempotencyKey, idempotencyKeyOf } from './idempotency-key.ts'
import { type EventStream, eventStreamReply } from './sse.ts'
import { submitJob } from './submit-job.ts'
import { renderTranscriptReply, transcriptEnvelope } from './transcript-reply.ts'
import {
  type HearingTask,
  type Offers,
  readTranscriptionRequest,
  type TranscriptionRequest,
} from './transcription-request.ts'

/** What an endpoint hears, and how it answers. */
export interface Hearing {
  readonly task: HearingTask
  readonly offers: Offers
  /** Absent: the gateway's own. */
  readonly shape?: HearingShape
}

/** In whose words a transcription is asked for, and in whose shape it is answered. */
export interface HearingShape {
  /** Keeps answers that are stored under an idempotency key from callers who ask for another shape; null: the own. */
  readonly name: string | null
  /** @throws GatewayError as `readTranscriptionRequest` */
  read(exchange: Exchange, fields: Fields, hearing: Hearing, principal: Principal): TranscriptionRequest
  whole(outcome: Outcome<HearingTask>): WholeResult
  /** What becomes of a stream beside its pieces. `done` is given the whole. */
  events(
    streaming: Streaming<'transcription'>,
    call: Call<'transcription'>,
  ): Pick<EventStream<string>, 'headers'> & { done(outcome: Outcome<'transcription'>): readonly object[] }
}

const OWN_SHAPE: HearingShape = {
  name: null,
  read: (exchange, fields, { task, offers }) => readTranscriptionRequest(exchange, fields, task, offers),
  whole: renderTranscriptReply,
  events: () => ({
    done: (outcome) => [{ type: 'transcript.text.done', ...transcriptEnvelope(outcome) }],
  }),
}

const TRANSCRIPTION: Hearing = { task: 'transcription', offers: { stream: true, jobs: true } }
const TRANSLATION: Hearing = { task: 'translation', offers: { stream: false, jobs: false } }

/** POST /v1/transcription */
export const transcription: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe(TRANSCRIPTION, exchange, trail, doors)

/** POST /v1/translation */
export const translation: Handle = (exchange, trail, doors) =>
  receiveAndTranscribe(TRANSLATION, exchange, trail, doors)

/** The answer to a request that brings audio: admitted first, received under its limits, and answered once per key. */
export async function receiveAndTranscribe(
  hearing: Hearing,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services, spool, discard, digester } = doors
  const key = idempotencyKeyOf(exchange)
  const { workspace } = await admit(services, {
    authorization: exchange.headers.authorization,
    trail,
    idempotency: key === undefined ? undefined : { operation: hearing.task, key },
  })
  if (key !== undefined) checkIdempotencyKey(key)
  const { limits } = services.snapshot()
  const options = { limits, workspace: workspace.id, spool }
  trail.trace?.begin('body')
  if (trail.slot?.taken !== true) {
    const body = await receiveAudio(exchange, options)
    trail.trace?.end()
    return transcribe(hearing, body, trail.slot?.id ?? null, exchange, trail, doors)
  }
  // Of a request whose key is in use nothing is needed but its fingerprint, unless it is a stream.
  const passing = digester.passing()
  const unneeded = { spool: discard, passing, unless: hearing.offers.stream ? 'stream' : null }
  const body = await receiveAudio(exchange, { ...options, unneeded })
  trail.trace?.end()
  return answerAgain(hearing, body, passing, exchange, trail, doors)
}

/** The answer to a request whose idempotency key is in use: what was answered before, or a stream all the same. */
async function answerAgain(
  hearing: Hearing,
  body: ReceivedAudio,
  passing: PassingDigest,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services, digester } = doors
  const { task, shape = OWN_SHAPE } = hearing
  const { fields, source, kept } = body
  const principal = trail.principal!
  let { release } = body
  try {
    const { options, stream, selectors } = shape.read(exchange, fields, hearing, principal)
    if (stream) {
      // A JSON body can say it twice, of which the last counts: too late here.
      if (!kept) throw invalid('stream was sent more than once', 'stream')
      release = () => {}
      return await transcribe(hearing, body, null, exchange, trail, doors)
    }
    if (options.mode === 'async') {
      throw new GatewayError(
        'IDEMPOTENCY_KEY_REUSED',
        'this idempotency key was used for a request that was answered at once; send this one with another key',
      )
    }
    const workspace = principal.workspace.id
    const heard = () =>
      source.kind === 'audio' && kept ? digester.digest(source.audio, exchange.signal) : passing.finish()
    const identity = source.kind === 'url' ? identityOf(source.url) : await heard()
    const fingerprint = fingerprintOf(task, options, selectors, identity, shape.name)
    return replyOf(await replay(services, { workspace, slotId: trail.slot!.id, fingerprint }, trail))
  } finally {
    release()
  }
}

/**
 * The answer to a call whose body is here. The body is given back when no attempt reads its audio any more, or goes to
 * the job that the call becomes.
 *
 * @param slotId of the caller's idempotency key; null without one
 * @param trail  of a caller who is admitted
 */
export async function transcribe(
  hearing: Hearing,
  body: ReceivedAudio,
  slotId: string | null,
  exchange: Exchange,
  trail: Trail,
  doors: Doors,
): Promise<Reply> {
  const { services } = doors
  const { task, shape = OWN_SHAPE } = hearing
  const principal = trail.principal!
  let { release } = body
  try {
    const request = shape.read(exchange, body.fields, hearing, principal)
    const { options, stream, selectors, warnings } = request
    if (options.mode === 'async') {
      requireScope(principal, 'jobs')
      const id = newJobId('tj', principal.workspace.id)
      release = () => {}
      return await submitJob({ id, body, request }, exchange, trail, doors)
    }
    if (body.source.kind === 'url') trail.trace?.begin('fetch')
    const coming = hearAudio(body, exchange, principal, doors)
    const heard = await (body.source.kind === 'url' ? elsewhere(trail, coming) : coming)
    trail.trace?.end()
    release = () => heard.release()
    const audio = await doors.probe.probe(heard.audio, exchange.signal)
    checkDuration(audio, services.snapshot().limits)
    const call: Call<'transcription'> = { payload: { audio, options }, selectors, warnings }
    if (stream) {
      const reply = await streamTranscript(call, shape, heard, exchange, trail, doors)
      release = () => {}
      return reply
    }
    const asked = { ...callerOf(exchange), operation: task, trail, call }
    if (slotId !== null) return replyOf(await transcribeOnce(asked, shape, heard, slotId, services))
    const outcome = await run(services, asked)
    exchange.onFinished(outcome.release)
    return replyOf(shape.whole(outcome))
  } finally {
    // Only now does no attempt read the audio any more; its memory goes to the next request.
    release()
  }
}

async function transcribeOnce(
  request: CallRequest<HearingTask>,
  shape: HearingShape,
  heard: HeardAudio,
  slotId: string,
  services: Services,
): Promise<WholeResult> {
  const { operation, call } = request
  const { options } = call.payload
  return runOnce(services, request, {
    slotId,
    fingerprint: fingerprintOf(operation, options, call.selectors, await heard.identity(), shape.name),
    render(outcome) {
      const { headers, ...rendered } = shape.whole(outcome)
      const version = { 'x-lk-policy-version-id': outcome.envelope.policy_version_id }
      return { ...rendered, headers: { ...headers, ...version } }
    },
  })
}

function replyOf({ status, headers, text }: WholeResult): Reply {
  return { status, headers, body: text }
}

/**
 * `transcript.text.delta` for each piece, `transcript.text.done` with the whole at the end. A stream cannot be
 * replayed, so that a key for that is passed by.
 */
async function streamTranscript(
  call: Call<'transcription'>,
  shape: HearingShape,
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
  const { done, ...events } = shape.events(streaming, call)
  return eventStreamReply(
    {
      ...events,
      deltas: streaming.deltas,
      event: (delta) => ({ type: 'transcript.text.delta', delta }),
      done() {
        const outcome = streaming.outcome()
        // A slow reader of the transcript holds no audio.
        heard.release()
        exchange.onFinished(outcome.release)
        return done(outcome)
      },
      terminator: null,
    },
    exchange,
    trail,
  )
}
