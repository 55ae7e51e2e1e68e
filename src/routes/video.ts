import { Type } from 'typebox'
import { elsewhere } from '../gateway/elsewhere.ts'
import { run } from '../gateway/run.ts'
import { callerOf, type Handle } from './endpoint.ts'
import { jsonReply } from './json-reply.ts'
import { jsonRequest, optional, receiveJson, SEED_FIELD } from './json-request.ts'
import { videoBlocks } from './video-blocks.ts'

const VideoBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'what is to be seen' }),
  duration_seconds: optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 3600 }),
    'length, where the model can choose',
  ),
  size: optional(
    Type.String({
      pattern: '^[1-9]\\d{1,4}x[1-9]\\d{1,4}$',
      description: '`<width>x<height>`, e.g. 1280x720',
    }),
    'resolution, where the model can choose',
  ),
  seed: SEED_FIELD,
})

export const videoRequest = jsonRequest('video', VideoBody, (body) => ({
  prompt: body.prompt,
  duration_seconds: body.duration_seconds ?? null,
  size: body.size ?? null,
  seed: body.seed ?? null,
}))

/** POST /v1/video: waits until the video is made. It comes as a URL, or as base64 where the provider answers so. */
export const video: Handle = async (exchange, trail, doors) => {
  const { services } = doors
  const { call, principal } = await receiveJson(videoRequest, exchange, trail, services)
  const caller = callerOf(exchange)
  const outcome = await run(services, { ...caller, operation: 'video', trail, call })
  exchange.onFinished(outcome.release)
  const { envelope, result } = outcome
  const traceparent = trail.trace?.traceparent ?? caller.traceparent
  const { signal } = caller
  const workspace = principal.workspace.id
  const policyVersionId = envelope.policy_version_id
  const owner = { workspace, policyVersionId, traceparent, signal }
  const content_blocks = await elsewhere(trail, videoBlocks(result.videos, owner, doors))
  return jsonReply({ ...envelope, content_blocks })
}
