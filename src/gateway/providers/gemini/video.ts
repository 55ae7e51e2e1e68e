import type { VideoCall, VideoOutput, VideoResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Step, Target } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { isGood } from '../answer.ts'
import { failed, refused } from '../failure.ts'
import { objectOf } from '../json.ts'
import { pollTrouble } from '../poll.ts'
import { orderFailure, readVideoJob, resumedVideoJob, type VideoJob, videoLost } from '../video-job.ts'
import { refusedContent } from './answer.ts'
import { deadEndOf, type Interaction, interactionUrl, readInteraction } from './interactions.ts'
import { getRequest, headersOf, postJson } from './wire.ts'

/** The model has no sizes in pixels but shapes and heights, https://ai.google.dev/gemini-api/docs/omni */
const SIZES: ReadonlyMap<string, JsonObject> = new Map(
  [
    ['360p', 640, 360],
    ['720p', 1280, 720],
    ['1080p', 1920, 1080],
    ['4k', 3840, 2160],
  ].flatMap(([resolution, long, short]) => [
    [`${long}x${short}`, { aspect_ratio: '16:9', resolution }],
    [`${short}x${long}`, { aspect_ratio: '9:16', resolution }],
  ]),
)

const SECONDS = { min: 3, max: 10 }
const POLL_MS = 5_000

/** A video by `POST /interactions` in the background, then polled for. */
export const geminiVideo: Operation<VideoCall, VideoResult> = {
  createsOnce: true,
  start({ prompt, size, duration_seconds: seconds }, target) {
    const shape = size === null ? {} : SIZES.get(size)
    if (shape === undefined) {
      const sizes = [...SIZES.keys()].join(', ')
      return failed(refused(`size: must be one of ${sizes} for this provider`))
    }
    if (
      seconds !== null &&
      !(Number.isInteger(seconds) && seconds >= SECONDS.min && seconds <= SECONDS.max)
    ) {
      const reason = `duration_seconds: must be a whole number from ${SECONDS.min} to ${SECONDS.max} for this provider`
      return failed(refused(reason))
    }
    const request = postJson(target, interactionUrl(target), {
      model: target.model,
      input: prompt,
      background: true,
      response_format: {
        type: 'video',
        delivery: 'uri',
        ...shape,
        ...(seconds === null ? {} : { duration: `${seconds}s` }),
      },
    })
    return { kind: 'send', request, state: null }
  },
  next(state, reply, call, target) {
    const job = readVideoJob(state)
    if (job === null) return ordered(reply, call, target)
    const again = (troubles: number) => ({ ...job, troubles })
    const request = getRequest(target, interactionUrl(target, job.id))
    const trouble = pollTrouble<VideoResult>(reply, job, { request, everyMs: POLL_MS, again })
    if (trouble?.kind === 'failed') return failed(videoLost(reply, trouble.failure))
    return trouble ?? readJob(job, reply, call, target)
  },
  resume(state, target) {
    const job = resumedVideoJob(state, POLL_MS)
    return job === null ? null : poll(job, target)
  },
  abandon(state, target) {
    const job = readVideoJob(state)
    if (job === null) return null
    const url = `${interactionUrl(target, job.id)}/cancel`
    return { method: 'POST', url, headers: headersOf(target), body: [] }
  },
}

/** The answer to the order. */
function ordered(reply: UpstreamReply, call: VideoCall, target: Target): Step<VideoResult> {
  const id = isGood(reply) ? objectOf(reply)?.id : null
  const job = readVideoJob({ id, everyMs: POLL_MS, troubles: 0 })
  return job === null ? failed(orderFailure(reply)) : readJob(job, reply, call, target)
}

function readJob(job: VideoJob, reply: UpstreamReply, call: VideoCall, target: Target): Step<VideoResult> {
  const interaction = readInteraction(objectOf(reply) ?? {})
  if (interaction === null) return failed(videoLost(reply))
  const failure = deadEndOf(interaction, reply)
  if (failure !== null) return failed(failure)
  return interaction.status === 'completed' ? finished(interaction, reply, call, target) : poll(job, target)
}

function poll(job: VideoJob, target: Target): Step<VideoResult> {
  const request = getRequest(target, interactionUrl(target, job.id))
  return { kind: 'wait', waitMs: POLL_MS, request, state: { ...job, troubles: 0 } }
}

function finished(
  { contents }: Interaction,
  reply: UpstreamReply,
  call: VideoCall,
  target: Target,
): Step<VideoResult> {
  const videos = contents
    .filter(({ type }) => type === 'video')
    .flatMap((content) => readVideo(content, target))
  if (videos.length > 0) {
    // Gemini does not say how long the video is; what was asked for is what it makes.
    const seconds = call.duration_seconds
    return { kind: 'done', result: { videos, seconds, credits: null, warnings: [] } }
  }
  // A refusal is completed, too, with a text in the place of the video.
  const textOnly = contents.length > 0 && contents.every(({ type }) => type === 'text')
  if (!textOnly) return failed(videoLost(reply))
  return failed(refusedContent(reply.status, 'the provider answered in text only', null))
}

/** None when it is neither data nor a URL over https, or one of the provider's own. */
function readVideo({ uri, data, mime_type: mimeType }: JsonObject, target: Target): VideoOutput[] {
  const media_type =
    typeof mimeType === 'string' && /^video\/[a-z0-9.+-]{1,64}$/i.test(mimeType) ? mimeType : 'video/mp4'
  if (typeof data === 'string' && data !== '') return [{ kind: 'base64', base64: data, media_type }]
  const url = typeof uri === 'string' ? URL.parse(uri) : null
  if (url === null || url.username !== '' || url.password !== '') return []
  // The key is sent to the provider itself alone.
  if (url.origin === URL.parse(target.baseUrl)?.origin) {
    url.searchParams.set('alt', 'media')
    return [{ kind: 'fetch', request: getRequest(target, url.href), media_type }]
  }
  return url.protocol === 'https:' ? [{ kind: 'url', url: url.href, media_type }] : []
}
