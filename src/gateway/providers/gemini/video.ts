import type { VideoCall, VideoOutput, VideoResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Target } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import type { Made } from '../answer.ts'
import { objectOf } from '../json.ts'
import { videoJobOperation, videoLost } from '../video-job.ts'
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
export const geminiVideo = videoJobOperation({
  pollMs: POLL_MS,
  tellsAtOnce: true,
  order({ prompt, size, duration_seconds: seconds }, target) {
    const shape = size === null ? {} : SIZES.get(size)
    if (shape === undefined) return `size: must be one of ${[...SIZES.keys()].join(', ')} for this provider`
    const { min, max } = SECONDS
    if (seconds !== null && !(Number.isInteger(seconds) && seconds >= min && seconds <= max))
      return `duration_seconds: must be a whole number from ${min} to ${max} for this provider`
    return postJson(target, interactionUrl(target), {
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
  },
  look: (id, target) => getRequest(target, interactionUrl(target, id)),
  cancel: (id, target) => {
    const url = `${interactionUrl(target, id)}/cancel`
    return { method: 'POST', url, headers: headersOf(target), body: [] }
  },
  read(reply, call, target) {
    const interaction = readInteraction(objectOf(reply) ?? {})
    if (interaction === null) return videoLost(reply)
    const failure = deadEndOf(interaction, reply)
    if (failure !== null) return failure
    return interaction.status === 'completed' ? finished(interaction, reply, call, target) : null
  },
})

function finished(
  { contents }: Interaction,
  reply: UpstreamReply,
  call: VideoCall,
  target: Target,
): Made<VideoResult> {
  const videos = contents
    .filter(({ type }) => type === 'video')
    .flatMap((content) => readVideo(content, target))
  if (videos.length > 0) {
    // Gemini does not say how long the video is; what was asked for is what it makes.
    const seconds = call.duration_seconds
    return { result: { videos, seconds, credits: null, warnings: [] } }
  }
  // A refusal is completed, too, with a text in the place of the video.
  const textOnly = contents.length > 0 && contents.every(({ type }) => type === 'text')
  if (!textOnly) return videoLost(reply)
  return refusedContent(reply.status, 'the provider answered in text only', null)
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
