import type { VideoCall, VideoResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Step, Target } from '../../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamRequest } from '../../../contracts/upstream.ts'
import { errorInside, isGood } from '../answer.ts'
import { failed } from '../failure.ts'
import { asObject, objectOf } from '../json.ts'
import { secondsOf } from '../numbers.ts'
import { pollTrouble } from '../poll.ts'
import { orderFailure, readVideoJob, resumedVideoJob, type VideoJob, videoLost } from '../video-job.ts'
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
  const urlOf = ({ baseUrl }: Target, id: string) => `${baseUrl}/videos/${encodeURIComponent(id)}`
  const get = (target: Target, url: string): UpstreamRequest => ({
    method: 'GET',
    url,
    headers: bearerHeaders(target, extra),
    body: [],
  })

  const poll = (job: VideoJob, target: Target): Step<VideoResult> => {
    const everyMs = Math.min(POLL_MAX_MS, Math.round(job.everyMs * POLL_GROWTH))
    const request = get(target, urlOf(target, job.id))
    return { kind: 'wait', waitMs: job.everyMs, request, state: { ...job, everyMs, troubles: 0 } }
  }

  const finished = (job: VideoJob, body: JsonObject, target: Target): VideoResult => {
    const seconds = secondsOf(typeof body.seconds === 'string' ? Number(body.seconds) : body.seconds)
    const request = get(target, `${urlOf(target, job.id)}/content?variant=video`)
    return {
      videos: [{ kind: 'fetch', request, media_type: mediaType }],
      seconds: seconds === 0 ? null : seconds,
      credits: null,
      warnings: [],
    }
  }

  const read = (job: VideoJob, reply: UpstreamReply, target: Target): Step<VideoResult> => {
    const body = objectOf(reply) ?? {}
    if (body.status === 'completed') return { kind: 'done', result: finished(job, body, target) }
    if (FAILED.has(body.status)) return failed(jobFailure(body, reply))
    // Servers have words of their own for what is not over yet.
    return typeof body.status === 'string' ? poll(job, target) : failed(videoLost(reply))
  }

  return {
    createsOnce: true,
    start(call, target) {
      const request = jsonRequest(target, '/videos', encodeVideo(call, target), extra)
      return { kind: 'send', request, state: null }
    },
    next(state, reply, _call, target) {
      const job = readVideoJob(state)
      if (job === null) {
        const id = isGood(reply) ? objectOf(reply)?.id : null
        const ordered = readVideoJob({ id, everyMs: POLL_MIN_MS, troubles: 0 })
        return ordered === null ? failed(orderFailure(reply)) : read(ordered, reply, target)
      }
      const trouble = pollTrouble<VideoResult>(reply, job, {
        request: get(target, urlOf(target, job.id)),
        everyMs: job.everyMs,
        again: (troubles) => ({ ...job, troubles }),
      })
      if (trouble?.kind === 'failed') return failed(videoLost(reply, trouble.failure))
      return trouble ?? read(job, reply, target)
    },
    resume(state, target) {
      const job = resumedVideoJob(state, POLL_MIN_MS)
      return job === null ? null : poll(job, target)
    },
    abandon(state, target) {
      const job = readVideoJob(state)
      if (job === null) return null
      return { method: 'DELETE', url: urlOf(target, job.id), headers: bearerHeaders(target, extra), body: [] }
    },
  }
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
