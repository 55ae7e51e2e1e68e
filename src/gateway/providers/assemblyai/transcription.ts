import { type Static, Type } from 'typebox'
import type { TranscriptionCall, TranscriptionResult } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Ending, Operation, Step, Target } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamRequest } from '../../../contracts/upstream.ts'
import { endingOf, isGood } from '../answer.ts'
import { classify, classifyInside, failed, unusable } from '../failure.ts'
import { asObject, objectOf } from '../json.ts'
import { pollTrouble } from '../poll.ts'
import { wholeTranscript } from '../transcript-needs.ts'
import { unsent } from '../unsupported.ts'
import { isUnredacted } from './redaction.ts'
import { encodeTranscript, unsupported, warningsOf } from './request.ts'
import { readTranscript } from './transcript.ts'

export const ASSEMBLYAI_OPTIONS = Type.Object(
  {
    delete_after: Type.Optional(
      Type.Boolean({ description: 'deletes the transcript at the provider as soon as it has been read' }),
    ),
  },
  { additionalProperties: false },
)

type TranscriptionEnding = Ending<TranscriptionResult>
type TranscriptionStep = Step<TranscriptionResult>

/** Progress of a transcription, as plain JSON. */
type State =
  | { readonly stage: 'upload' }
  | { readonly stage: 'create' }
  | { readonly stage: 'poll'; readonly id: string; readonly polls: number; readonly troubles: number }
  | { readonly stage: 'delete'; readonly id: string; readonly ending: TranscriptionEnding }

/** Short audio is done in seconds, so the first looks are closer together than the 3 s that the provider advises. */
const FIRST_POLL_MS = 1_000
const POLL_MS = 3_000
/** From this poll on they are equally far apart. */
const POLLS_COUNTED = POLL_MS / FIRST_POLL_MS

/** Longest address of an upload that is taken; theirs have some hundred characters. */
const UPLOAD_URL_MAX_LENGTH = 4_096

/**
 * Upload, unless the provider fetches the audio itself, create, look until it is done: `POST /v2/upload`,
 * `POST /v2/transcript`, `GET /v2/transcript/{id}`. The provider's synchronous interface would save the looking, but it
 * has no speakers, channels, redaction or language detection, and hears only wav of up to 120 s at a higher price.
 */
export const transcription: Operation<TranscriptionCall, TranscriptionResult> = {
  unsupported,
  takesAudioUrl: true,

  start(call, target) {
    const issue = unsupported(call, target)
    if (issue !== null) return unsent(issue)
    if (target.audioUrl !== undefined) return createTranscript(target.audioUrl, call, target)
    const request: UpstreamRequest = {
      method: 'POST',
      url: `${target.baseUrl}/v2/upload`,
      headers: { ...requestHeaders(target), 'content-type': 'application/octet-stream' },
      body: [{ audio: call.audio, as: 'bytes' }],
    }
    return { kind: 'send', request, state: { stage: 'upload' } satisfies State }
  },

  next(given, reply, call, target) {
    const state = given as State
    if (state.stage === 'upload') return createFrom(reply, call, target)
    if (state.stage === 'create') {
      return isGood(reply) ? look(reply, null, call, target) : failed(classify(reply))
    }
    if (state.stage === 'delete') return isGood(reply) ? state.ending : undeleted(state.ending)
    const trouble = pollTrouble<TranscriptionResult>(reply, state, {
      request: transcriptRequest('GET', state.id, target),
      everyMs: POLL_MS,
      again: (troubles) => ({ ...state, troubles }) satisfies State,
    })
    return trouble ?? look(reply, state, call, target)
  },

  /** The stored state may come from another version, so only the transcript's id is read from it. */
  resume(given, target) {
    const id = transcriptId(asObject(given))
    return id === null ? null : poll(id, 1, target)
  },

  /**
   * The provider documents deletion for transcripts that are completed. One that it still works on may be
   * finished, and charged, all the same; there is no request that stops it.
   */
  abandon(given, target) {
    const state = given as State
    return 'id' in state ? transcriptRequest('DELETE', state.id, target) : null
  },
}

/** Headers of every request. The key stands there as it is, without a scheme. */
export function requestHeaders({ credential }: Target): Record<string, string> {
  return { accept: '*/*', ...(credential === null ? {} : { authorization: credential }) }
}

/** Continues with the URL that the answer to the upload names. */
function createFrom(reply: UpstreamReply, call: TranscriptionCall, target: Target): TranscriptionStep {
  // A 422 is a passing trouble of theirs: https://www.assemblyai.com/blog/customer-issues-retrying-requests
  if (reply.status === 422) return failed({ ...classify(reply), kind: 'server', reason: 'the upload failed' })
  if (!isGood(reply)) return failed(classify(reply))
  const { upload_url: url } = objectOf(reply) ?? {}
  if (typeof url !== 'string' || url === '' || url.length > UPLOAD_URL_MAX_LENGTH) {
    return failed(unusable(reply, 'the answer of the provider is no upload'))
  }
  return createTranscript(url, call, target)
}

function createTranscript(url: string, call: TranscriptionCall, target: Target): TranscriptionStep {
  const request: UpstreamRequest = {
    method: 'POST',
    url: `${target.baseUrl}/v2/transcript`,
    headers: { ...requestHeaders(target), 'content-type': 'application/json' },
    body: [Buffer.from(JSON.stringify(encodeTranscript(call, target, url)))],
  }
  return { kind: 'send', request, state: { stage: 'create' } satisfies State }
}

/** @param state null for the answer to the create, which is a transcript like those that follow */
function look(
  reply: UpstreamReply,
  state: (State & { readonly stage: 'poll' }) | null,
  call: TranscriptionCall,
  target: Target,
): TranscriptionStep {
  const body = objectOf(reply)
  const id = state?.id ?? transcriptId(body)
  if (body === null || id === null)
    return failed(unusable(reply, 'the answer of the provider is no transcript'))
  if (body.status === 'queued' || body.status === 'processing') {
    return poll(id, Math.min((state?.polls ?? 0) + 1, POLLS_COUNTED), target)
  }
  const ending = transcriptionEnding(body, reply, call, target)
  const { delete_after: deletes }: Static<typeof ASSEMBLYAI_OPTIONS> = target.options
  if (deletes !== true) return ending
  return {
    kind: 'send',
    request: transcriptRequest('DELETE', id, target),
    state: { stage: 'delete', id, ending } satisfies State,
    otherwise: undeleted(ending),
  }
}

/** @param polls how many there are by then */
function poll(id: string, polls: number, target: Target): TranscriptionStep {
  return {
    kind: 'wait',
    waitMs: polls * FIRST_POLL_MS,
    request: transcriptRequest('GET', id, target),
    state: { stage: 'poll', id, polls, troubles: 0 } satisfies State,
  }
}

function transcriptionEnding(
  body: JsonObject,
  reply: UpstreamReply,
  call: TranscriptionCall,
  target: Target,
): TranscriptionEnding {
  if (body.status === 'error') return failed(replyFailure(body.error, reply))
  const { options } = call
  const read = body.status === 'completed' ? readTranscript(body, options, warningsOf(call, target)) : null
  if (read !== null && read.text !== '' && isUnredacted(body, options))
    return failed(unusable(reply, 'the answer lacks the redaction that was asked for'))
  return endingOf(wholeTranscript(read, options, reply))
}

/** A transcript that failed, in an answer of 200: what is not known to be the provider's fault is the audio's. */
function replyFailure(error: unknown, { status, headers }: UpstreamReply): Failure {
  const failure = { ...classifyInside({ error }, { status: 400, headers }), status }
  if (failure.kind !== 'caller') return failure
  const rejection = { reason: 'bad_audio', param: 'audio' } as const
  return { ...failure, reason: 'the provider cannot transcribe this audio', rejection }
}

/** The transcript counts for more than that it could not be deleted. */
function undeleted(ending: TranscriptionEnding): TranscriptionEnding {
  if (ending.kind === 'failed') return ending
  const warnings = [...ending.result.warnings, 'the transcript could not be deleted at the provider']
  return { kind: 'done', result: { ...ending.result, warnings } }
}

/** The provider's number becomes part of an address, so that it must be nothing else. */
function transcriptId(body: JsonObject | null): string | null {
  const { id } = body ?? {}
  return typeof id === 'string' && /^[A-Za-z0-9_-]{1,128}$/.test(id) ? id : null
}

function transcriptRequest(method: 'GET' | 'DELETE', id: string, target: Target): UpstreamRequest {
  return { method, url: `${target.baseUrl}/v2/transcript/${id}`, headers: requestHeaders(target), body: [] }
}
