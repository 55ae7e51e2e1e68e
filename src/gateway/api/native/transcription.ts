import type { TSchema } from 'typebox'
import type { AudioRef } from '../../../contracts/audio.ts'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf, type Principal, type Selectors, uploadUser } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { newJobId } from '../../../contracts/ids.ts'
import type { PassingDigest } from '../../../contracts/media.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { Requirements } from '../../../contracts/requirements.ts'
import type { WholeResult } from '../../../contracts/slot-results.ts'
import type { Clock } from '../../../contracts/time.ts'
import { EarlyAttempt, mayCutThrough } from '../../call/attempt/cut-through.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import { transcriptEnvelope } from '../../call/attempt/transcript.ts'
import { requireScope } from '../../call/authentication.ts'
import type { AdmittedContext } from '../../call/context/call-context.ts'
import { fingerprintOf, replay } from '../../call/context/idempotency.ts'
import type { Call } from '../../call/facts/call.ts'
import { type IdempotentRequest, run } from '../../call/pipeline.ts'
import { requirementsFor } from '../../call/select/eligibility.ts'
import type { ArrivingAudio, BodyLayout, ReceivedAudio, ReceiveOptions } from '../../edge/body.ts'
import { noAudioField, receiveAudio } from '../../edge/body.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import type { Fields } from '../../edge/form.ts'
import { invalid } from '../../edge/refusals.ts'
import { type SubmittedJob, submitJob } from '../../jobs/submit.ts'
import { checkDuration } from '../../media/measure.ts'
import { allowedDomains, urlIdentity } from '../../storage/remote-audio.ts'
import { type AskedCallback, acceptCallback } from '../callbacks.ts'
import type { Admitted, Dependencies, EndpointCall, RequestBody } from '../endpoint.ts'
import { checkIdempotencyKey, endpoint, idempotencyKeyOf } from '../endpoint.ts'
import { isKeptFromStore, SELECTOR_FIELDS } from '../fields.ts'
import { LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { type EventStream, eventStreamReply } from '../sse.ts'
import { JOB_ACCEPTED, submittedReply } from './job-view.ts'
import { renderTranscriptReply, TRANSCRIPT_EVENTS, transcriptAnswer } from './transcript-reply.ts'
import {
  audioContents,
  type Offers,
  queryFields,
  readTranscriptionRequest,
  TRANSCRIPTION_FIELDS,
  type TranscriptionRequest,
  UNSTREAMED_FIELDS,
} from './transcription-request.ts'
import { answerUpload, isLiveUpload } from './transcription-upload.ts'

/** The audio of a call, at rest. */
export interface RequestAudio {
  readonly audio: AudioRef
  /** Identity that two requests with the same audio share: its digest, or the URL that it is fetched from. */
  identity(): Promise<string>
  /** Gives back what it holds. Idempotent; see StoredBody. */
  release(): void
}

/**
 * The audio that came with a request, or from where the request says that it is.
 *
 * @throws GatewayError INVALID_REQUEST without any; as `UploadedAudio.at` and `RemoteAudio.fetch`;
 *         DEPENDENCY_UNAVAILABLE when the state does not tell where the workspace may fetch from
 */
async function prepareAudio(
  { fields, source, release }: ReceivedAudio,
  { signal }: Exchange,
  { principal, selectors }: { readonly principal: Principal; readonly selectors: Selectors },
  { digester, remoteAudio, services, uploads }: Dependencies,
): Promise<RequestAudio> {
  if (source.kind === 'none') throw noAudioField(fields)
  if (source.kind === 'audio') {
    const { audio } = source
    return { audio, identity: () => digester.digest(audio, toAbortSignal(signal)), release }
  }
  const { url } = source
  const { id: workspace } = principal.workspace
  const uploaded = await uploads.at(url, uploadUser(principal, services.snapshot()), toAbortSignal(signal))
  if (uploaded !== null) return { audio: uploaded, identity: async () => urlIdentity(url), release() {} }
  const fetched = await remoteAudio.fetch(url, {
    domains: await allowedDomains(workspace, services),
    maxBytes: limitsOf(principal, services.snapshot()).max_audio_url_bytes,
    workspace,
    sealed: requirementsFor(selectors, principal)?.retentionDays === 0,
    signal: toAbortSignal(signal),
  })
  return { audio: fetched.audio, identity: async () => urlIdentity(url), release: () => fetched.release() }
}

/** A task, and how its endpoint answers. */
export interface TranscriptionRun {
  readonly task: TranscriptionTask
  readonly offers: Offers
  /** Absent: the gateway's own. */
  readonly shape?: TranscriptionShape
  /** Where the body has the audio; absent: as in the gateway's own. */
  readonly layout?: BodyLayout
  /**
   * Demands of a request's query on the handling of its content, which are known before the body comes.
   *
   * @throws GatewayError INVALID_REQUEST
   */
  demandedBy?(exchange: Exchange): Requirements | null
}

export interface TranscriptionAnswer {
  /** Keeps answers that are stored under an idempotency key from callers who ask for another shape; null: the own. */
  readonly name: string | null
  /** A promise where the answer is so large that it is written in turns of the event loop. */
  whole(outcome: Outcome<TranscriptionTask>, clock: Clock): WholeResult | Promise<WholeResult>
}

/** A request, and its answer where that depends on more than the options of the call. */
export interface ShapedRequest extends TranscriptionRequest {
  readonly answer?: TranscriptionAnswer
  /** Where the end of the job is told that it becomes, with `mode: async`. */
  readonly callback?: AskedCallback
}

/** Translator between a wire format and the call. Its functions are pure. */
export interface TranscriptionShape extends TranscriptionAnswer {
  /** @throws GatewayError as `readTranscriptionRequest` */
  read(exchange: Exchange, fields: Fields, definition: TranscriptionRun, principal: Principal): ShapedRequest
  /** Answers a submission; absent: as the gateway's own. */
  submitted?(submitted: SubmittedJob, request: ShapedRequest, requestId: string): Reply
  /** Events of a stream beside its deltas. `done` is given the whole. Absent: it offers no stream. */
  events?(
    streaming: Streaming<'transcription'>,
  ): Pick<EventStream<string>, 'headers'> & { done(outcome: Outcome<'transcription'>): readonly object[] }
}

const OWN_SHAPE: TranscriptionShape = {
  name: null,
  read: (exchange, fields, { task, offers }) => readTranscriptionRequest(exchange, fields, task, offers),
  whole: renderTranscriptReply,
  events: () => ({ done: (outcome) => [{ type: 'transcript.text.done', ...transcriptEnvelope(outcome) }] }),
}

const TRANSCRIPTION: TranscriptionRun = { task: 'transcription', offers: { stream: true, jobs: true } }
const TRANSLATION: TranscriptionRun = { task: 'translation', offers: { stream: false, jobs: false } }

export const transcription = endpoint({
  method: 'POST',
  path: '/v1/transcription',
  kind: 'call',
  id: 'transcription',
  tag: 'Speech',
  summary: 'Transcribe audio',
  description:
    'Required features (diarization, timestamps, redaction, keyterms, multichannel) are guaranteed: without ' +
    'a model that supports them the request is refused. Unsupported hints are dropped, with a line in ' +
    '`warnings`. `mode: async` turns the request into a job.',
  scope: 'inference',
  idempotent: 'transcription',
  body: transcriptionBody(TRANSCRIPTION, { ...TRANSCRIPTION_FIELDS, ...SELECTOR_FIELDS }),
  answers: [transcriptAnswer([TRANSCRIPT_EVENTS], ['X-LK-Idempotency']), JOB_ACCEPTED],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  handle: (request) => answerTranscription(TRANSCRIPTION, request),
})

export const translation = endpoint({
  method: 'POST',
  path: '/v1/translation',
  kind: 'call',
  id: 'translation',
  tag: 'Speech',
  summary: 'Translate audio into English',
  scope: 'inference',
  idempotent: 'translation',
  body: transcriptionBody(TRANSLATION, UNSTREAMED_FIELDS),
  answers: [transcriptAnswer()],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  handle: (request) => answerTranscription(TRANSLATION, request),
})

/** A body with audio, received under the limits of its call. */
interface ReceivedTranscription {
  readonly audio: ReceivedAudio
  /** Null: its idempotency key was not in use, and its audio is kept. */
  readonly repeated: RepeatedKey | null
  /** Attempt that was begun while the audio came. */
  readonly early: EarlyAttempt | null
}

/** The body is left to the answer: it is transcribed while it comes. */
const LIVE = 'live'

/** The idempotency key of a request was in use when it came. */
interface RepeatedKey {
  readonly slotId: string
  /** Digest of audio that is not kept. */
  readonly passing: PassingDigest
}

/** Body of a transcription or translation. @param fields that are documented */
export function transcriptionBody(
  definition: TranscriptionRun,
  fields: Readonly<Record<string, TSchema>>,
): RequestBody<ReceivedTranscription | typeof LIVE> {
  return {
    contents: audioContents(fields),
    parameters: ['Purpose', 'Require', queryFields(fields)],
    async receive(request) {
      const { exchange, context, deps } = request
      const { services, spool, discard, digester } = deps
      if (definition.offers.jobs && isLiveUpload(exchange)) return LIVE
      const key = idempotencyKeyOf(exchange)
      if (key !== undefined) checkIdempotencyKey(key)
      const options = {
        limits: limitsOf(context.principal, services.snapshot()),
        workspace: context.principal.workspace.id,
        sealed: isKeptFromStore(exchange, context.principal, definition.demandedBy?.(exchange)),
        spool,
        ...(definition.layout === undefined ? {} : { layout: definition.layout }),
      }
      const { slot } = context
      if (key === undefined && mayCutThrough(context.principal))
        return receiveEarly(definition, request, options)
      if (slot?.taken !== true) {
        return { audio: await receiveAudio(exchange, options), repeated: null, early: null }
      }
      // A request whose key is in use needs nothing but its fingerprint, unless it is a stream.
      const passing = digester.passing()
      const unneeded = { spool: discard, passing, unless: definition.offers.stream ? 'stream' : null }
      const audio = await receiveAudio(exchange, { ...options, unneeded })
      return { audio, repeated: { slotId: slot.id, passing }, early: null }
    },
  }
}

/**
 * Receives a body whose first attempt may begin before it is whole. A request with an idempotency key never gets here:
 * its identity is the digest of all its audio.
 */
async function receiveEarly(
  definition: TranscriptionRun,
  request: Admitted,
  options: ReceiveOptions,
): Promise<ReceivedTranscription> {
  let early: EarlyAttempt | null = null
  const onArriving = (arriving: ArrivingAudio) => {
    early = beginEarly(definition, arriving, request)
  }
  try {
    const audio = await receiveAudio(request.exchange, { ...options, onArriving })
    return { audio, repeated: null, early }
  } catch (error) {
    const begun = early as EarlyAttempt | null
    void begun?.end()
    throw error
  }
}

/** Begins an attempt of a call that is answered whole and at once. */
function beginEarly(
  definition: TranscriptionRun,
  { fields, audio, body }: ArrivingAudio,
  { exchange, context, deps: { services, probe } }: Admitted,
): EarlyAttempt {
  const { task, shape = OWN_SHAPE } = definition
  return new EarlyAttempt(services, context, {
    audio,
    body,
    detect: (coming, signal) => probe.detect(coming, signal),
    make(coming) {
      const { options, stream, selectors, warnings } = shape.read(
        exchange,
        fields,
        definition,
        context.principal,
      )
      if (stream || options.mode === 'async') return null
      return { operation: task, payload: { audio: coming, options }, selectors, warnings }
    },
  })
}

/** Answers a transcription or translation once per idempotency key. */
export function answerTranscription(
  run: TranscriptionRun,
  request: EndpointCall<ReceivedTranscription | typeof LIVE>,
): Promise<Reply> {
  if (request.body === LIVE) return answerUpload(request)
  const { audio, repeated, early } = request.body
  if (repeated !== null) return replayTranscription(run, audio, repeated, request)
  return transcribeNow(run, audio, request.context.slot?.id ?? null, request, early)
}

/** Answers a request whose idempotency key is in use: with the answer given before, or with a stream all the same. */
async function replayTranscription(
  definition: TranscriptionRun,
  body: ReceivedAudio,
  { slotId, passing }: RepeatedKey,
  request: Admitted,
): Promise<Reply> {
  const { exchange, context, deps } = request
  const { services, digester } = deps
  const { task, shape = OWN_SHAPE } = definition
  const { fields, source, kept } = body
  const { principal } = context
  let { release } = body
  try {
    const { options, stream, selectors, answer = shape } = shape.read(exchange, fields, definition, principal)
    if (stream) {
      // A JSON body can say it twice, of which the last counts: too late here.
      if (!kept) throw invalid('stream was sent more than once', 'stream')
      release = () => {}
      return await transcribeNow(definition, body, null, request)
    }
    if (options.mode === 'async') {
      throw new GatewayError(
        'IDEMPOTENCY_KEY_REUSED',
        'this idempotency key was used for a request that was answered at once; send this one with another key',
      )
    }
    const identityOfBytes = () =>
      source.kind === 'audio' && kept
        ? digester.digest(source.audio, toAbortSignal(exchange.signal))
        : passing.finish()
    const identity = source.kind === 'url' ? urlIdentity(source.url) : await identityOfBytes()
    const fingerprint = fingerprintOf(task, options, selectors, identity, answer.name)
    return replyOf(await replay(services, context, { slotId, fingerprint }))
  } finally {
    release()
  }
}

/**
 * The answer to a call whose body is here. The body is given back when no attempt reads its audio any more, or goes to
 * the job that the call becomes.
 *
 * @param slotId of the caller's idempotency key; null without one
 * @param early  begun while the body came; it is over when this settles
 */
export async function transcribeNow(
  definition: TranscriptionRun,
  body: ReceivedAudio,
  slotId: string | null,
  { exchange, context, deps }: Admitted,
  early: EarlyAttempt | null = null,
): Promise<Reply> {
  const { services } = deps
  const { task, shape = OWN_SHAPE } = definition
  const { principal } = context
  let { release } = body
  try {
    const request = shape.read(exchange, body.fields, definition, principal)
    const { options, stream, selectors, warnings, answer = shape } = request
    if (options.mode === 'async') {
      requireScope(principal, 'jobs')
      const { id: workspace } = principal.workspace
      const { callback: asked } = request
      const callback = asked && { callback: await acceptCallback(asked, workspace, deps) }
      const id = newJobId('tj', workspace)
      release = () => {}
      const submission = { id, body, request, key: idempotencyKeyOf(exchange), ...callback }
      const submitted = await submitJob(submission, context, deps)
      return shape.submitted?.(submitted, request, context.id) ?? submittedReply(submitted)
    }
    if (body.source.kind === 'url') context.trace?.begin('fetch')
    const coming = prepareAudio(body, exchange, { principal, selectors }, deps)
    const received = await (body.source.kind === 'url'
      ? context.externalWait(coming, services.clock)
      : coming)
    context.trace?.end()
    release = () => received.release()
    const audio = await deps.probe.probe(received.audio, toAbortSignal(exchange.signal))
    checkDuration(audio, limitsOf(principal, services.snapshot()))
    const payload = { audio, options }
    if (stream) {
      const call = { operation: 'transcription' as const, payload, selectors, warnings }
      const reply = await streamTranscript(call, shape, received, exchange, context, deps)
      release = () => {}
      return reply
    }
    const call: Call<TranscriptionTask> = { operation: task, payload, selectors, warnings }
    if (slotId !== null) {
      const idempotent = await idempotentRequest(call, answer, received, slotId, services.clock)
      return replyOf(await run(services, context, idempotent))
    }
    const outcome = await run(services, context, { mode: 'whole', call, early })
    exchange.onFinished(outcome.release)
    return replyOf(await answer.whole(outcome, services.clock))
  } finally {
    if (early !== null) await early.end()
    // Only now does no attempt read the audio any more; its memory goes to the next request.
    release()
  }
}

async function idempotentRequest(
  call: Call<TranscriptionTask>,
  answer: TranscriptionAnswer,
  received: RequestAudio,
  slotId: string,
  clock: Clock,
): Promise<IdempotentRequest<TranscriptionTask>> {
  const { operation, payload, selectors } = call
  const identity = await received.identity()
  return {
    mode: 'idempotent',
    call,
    slotId,
    fingerprint: fingerprintOf(operation, payload.options, selectors, identity, answer.name),
    async render(outcome) {
      const { headers, ...rendered } = await answer.whole(outcome, clock)
      const version = { 'x-lk-policy-version-id': outcome.envelope.policy_version_id }
      return { ...rendered, headers: { ...headers, ...version } }
    },
  }
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
  shape: TranscriptionShape,
  received: RequestAudio,
  exchange: Exchange,
  context: AdmittedContext,
  { services }: Dependencies,
): Promise<Reply> {
  if (context.slot !== null) context.answer.headers['x-lk-idempotency'] = 'bypassed'
  const streaming = await run(services, context, { mode: 'streamed', call })
  // Left, or broken off: in both cases this settles when the provider is sent no more of the audio.
  const leave = () => streaming.deltas.return().catch(() => {})
  exchange.onFinished(() => void leave().then(() => received.release()))
  const { done, ...events } = shape.events!(streaming)
  return eventStreamReply(
    {
      ...events,
      deltas: streaming.deltas,
      event: (delta) => ({ type: 'transcript.text.delta', delta }),
      done() {
        const outcome = streaming.outcome()
        // A slow reader of the transcript holds no audio.
        received.release()
        exchange.onFinished(outcome.release)
        return done(outcome)
      },
      terminator: null,
    },
    exchange,
    context,
  )
}
