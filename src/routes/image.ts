import { type Static, Type } from 'typebox'
import { run } from '../gateway/run.ts'
import type { ImageCall, ImageResult } from '../schema/generation.ts'
import { callerOf, type Handle } from './endpoint.ts'
import { jsonReply, largeText } from './json-reply.ts'
import { jsonRequest, optional, receiveJson, SEED_FIELD } from './json-request.ts'

const Word = Type.String({ minLength: 1, maxLength: 64 })

export const ImageBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'what is to be seen' }),
  n: optional(Type.Integer({ minimum: 1, maximum: 10 }), 'how many pictures, 1 unless said'),
  size: optional(Word, '`<width>x<height>`, or a word of the provider'),
  quality: optional(Word, 'a word of the provider'),
  output_format: optional(Word, 'e.g. png, jpeg, webp'),
  seed: SEED_FIELD,
})

export const imageRequest = jsonRequest('image', ImageBody, readImage)

export function readImage(body: Static<typeof ImageBody>): ImageCall {
  return {
    prompt: body.prompt,
    n: body.n ?? 1,
    size: body.size ?? null,
    quality: body.quality ?? null,
    output_format: body.output_format ?? null,
    seed: body.seed ?? null,
  }
}

/** POST /v1/image: each picture as a block of base64, or as the provider's URL. */
export const image: Handle = async (exchange, trail, { services }) => {
  const { call } = await receiveJson(imageRequest, exchange, trail, services)
  const outcome = await run(services, { ...callerOf(exchange), operation: 'image', trail, call })
  exchange.onFinished(outcome.release)
  return jsonReply({ ...outcome.envelope, content_blocks: outcome.result.images.map(blockOf) })
}

function blockOf({ base64, url, media_type }: ImageResult['images'][number]): object {
  const picture = base64 === null ? { url } : { base64: largeText(base64) }
  return { type: 'output_image', ...picture, media_type }
}
