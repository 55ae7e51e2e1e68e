import { type Static, Type } from 'typebox'
import type { ImageCall, ImageResult } from '../../../contracts/generation.ts'
import { run } from '../../call/pipeline.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply, largeText } from '../json-reply.ts'
import { jsonRequest, optional, SEED_FIELD } from '../json-request.ts'
import { Images } from '../openapi/answers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'

const Word = Type.String({ minLength: 1, maxLength: 64 })

export const ImageBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'what is to be seen' }),
  n: optional(Type.Integer({ minimum: 1, maximum: 10 }), 'how many pictures; default: 1'),
  size: optional(Word, '`<width>x<height>`, or a word of the provider'),
  quality: optional(Word, 'a word of the provider'),
  output_format: optional(Word, 'e.g. png, jpeg, webp'),
  seed: SEED_FIELD,
})

export const imageRequest = jsonRequest('image', ImageBody, imageCall)

export function imageCall(body: Static<typeof ImageBody>): ImageCall {
  return {
    prompt: body.prompt,
    n: body.n ?? 1,
    size: body.size ?? null,
    quality: body.quality ?? null,
    output_format: body.output_format ?? null,
    seed: body.seed ?? null,
  }
}

export const image = endpoint({
  method: 'POST',
  path: '/v1/image',
  kind: 'call',
  id: 'image',
  tag: 'Generation',
  summary: 'Generate images',
  scope: 'inference',
  body: imageRequest,
  answers: [{ status: 200, description: 'the images', contents: [json(Images)] }],
  errors: CALL_ERRORS,
  async handle({ exchange, context, deps: { services }, body: { call } }) {
    const outcome = await run(services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    return jsonReply({ ...outcome.envelope, content_blocks: outcome.result.images.map(blockOf) })
  },
})

function blockOf({ base64, url, media_type }: ImageResult['images'][number]): object {
  const picture = base64 === null ? { url } : { base64: largeText(base64) }
  return { type: 'output_image', ...picture, media_type }
}
