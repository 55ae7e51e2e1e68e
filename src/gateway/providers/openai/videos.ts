import type { VideoCall, VideoResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamRequest } from '../../../contracts/upstream.ts'
import { errorInside } from '../answer.ts'
import { asObject, objectOf } from '../json.ts'
import { secondsOf } from '../numbers.ts'
import { videoJobOperation, videoLost } from '../video-job.ts'
import { bearerHeaders, type ExtraHeaders, jsonRequest } from './wire.ts'

const POLL_MIN_MS = 2_000
const POLL_MAX_MS = 10_000
const POLL_GROWTH = 1.5

/** Ends without a video. OpenAI knows only the first. */
const FAILED: ReadonlySet<unknown> = new Set(['failed', 'cancelled', 'canceled', 'expired'])

/**
 * Videos in OpenAI's wire format, which others serve on since OpenAI itself stopped on 2026-09-24: `POST
 * /videos` orders, `GET /videos/{id}` is asked until the video is made, `GET /videos/{id}/content` has it.
 * openai 7.55.0, `resources/videos.d.ts`.
 */
export function videoOperation(
  extra: ExtraHeaders,
  mediaType = 'video/mp4',
): Operation<VideoCall, VideoResult> {
  const request = (method: 'GET' | 'DELETE', target: Target, path: string): UpstreamRequest => {
    const url = `${target.baseUrl}/videos/${path}`
    return { method, url, headers: bearerHeaders(target, extra), body: [] }
  }
  const finished = (id: string, body: JsonObject, target: Target): VideoResult => {
    const seconds = secondsOf(typeof body.seconds === 'string' ? Number(body.seconds) : body.seconds)
    const fetching = request('GET', target, `${encodeURIComponent(id)}/content?variant=video`)
    return {
      videos: [{ kind: 'fetch', request: fetching, media_type: mediaType }],
      seconds: seconds === 0 ? null : seconds,
      credits: null,
      warnings: [],
    }
  }
  return videoJobOperation({
    pollMs: POLL_MIN_MS,
    nextMs: (everyMs) => Math.min(POLL_MAX_MS, Math.round(everyMs * POLL_GROWTH)),
    tellsAtOnce: true,
    order: (call, target) => jsonRequest(target, '/videos', encodeVideo(call, target), extra),
    look: (id, target) => request('GET', target, encodeURIComponent(id)),
    cancel: (id, target) => request('DELETE', target, encodeURIComponent(id)),
    read(reply, _call, target, id) {
      const body = objectOf(reply) ?? {}
      if (body.status === 'completed') return { result: finished(id, body, target) }
      if (FAILED.has(body.status)) return jobFailure(body, reply)
      // Servers have words of their own for what is not over yet.
      return typeof body.status === 'string' ? null : videoLost(reply)
    },
  })
}

/** Lengths are strings in this format. */
function encodeVideo({ prompt, duration_seconds: seconds, size }: VideoCall, { model }: Target): JsonObject {
  return {
    model,
    prompt,
    ...(seconds === null ? {} : { seconds: String(seconds) }),
    ...(size === null ? {} : { size }),
  }
}

/** Why the job itself failed. Nothing was made, so that another entry may be asked. */
function jobFailure(body: JsonObject, reply: UpstreamReply): Failure {
  const error = asObject(body.error) ?? { message: 'no reason given' }
  const failure = errorInside({ error }, reply)
  return failure ?? videoLost(reply)
}
