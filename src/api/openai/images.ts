import { Type } from 'typebox'
import type { Outcome } from '../../gateway/outcome.ts'
import { run } from '../../gateway/pipeline.ts'
import { endpoint } from '../endpoint.ts'
import { largeText } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { ImageBody, readImage } from '../native/image.ts'
import { IMAGE_FACTS } from '../openapi/headers.ts'
import { OpenAiImages } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'
import {
  END_USER_FIELDS,
  factReply,
  MODEL_FIELD,
  OPENAI,
  openaiAnswer,
  openaiRequest,
  refusedField,
  secondsNow,
} from './door.ts'

const OpenAiImageBody = Type.Object({
  model: MODEL_FIELD,
  ...ImageBody.properties,
  response_format: optional(
    Type.Literal('b64_json'),
    'a picture is only at a URL where its provider keeps it there',
  ),
  background: optional(Type.Enum(['auto', 'opaque']), 'nothing shines through'),
  stream: optional(Type.Literal(false), 'pictures come whole'),
  svg: refusedField('pictures are made of pixels'),
  frame_count: refusedField('nothing moves'),
  frame_duration_ms: refusedField('nothing moves'),
  ...END_USER_FIELDS,
})

/** `auto` is the provider's own choice, which the gateway has by saying nothing. */
const openaiImageRequest = openaiRequest(
  'image',
  OpenAiImageBody,
  (body) => readImage({ ...body, size: unlessAuto(body.size), quality: unlessAuto(body.quality) }),
  ['moderation', 'output_compression', 'partial_images', 'style', 'complexity'],
)

export const imagesGenerations = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/images/generations',
  id: 'openaiImages',
  summary: 'Generate images',
  body: openaiImageRequest,
  answers: [openaiAnswer([json(OpenAiImages)], IMAGE_FACTS)],
  errors: CALL_ERRORS,
  async handle({ exchange, context, dependencies: { services }, body: { call } }) {
    const outcome = await run(services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    return factReply(outcome.envelope, imagesResponse(outcome, secondsNow()))
  },
})

/** @param created Unix seconds */
export function imagesResponse({ envelope, result }: Outcome<'image'>, created: number) {
  const {
    input_tokens: input = null,
    output_tokens: output = null,
    total_tokens: total = null,
  } = envelope.usage
  const data = result.images.map(({ base64, url }) =>
    base64 === null ? { url: url ?? '' } : { b64_json: largeText(base64) },
  )
  const made = { created, ...result.made, data }
  if (input === null || output === null || total === null) return made
  const { text_tokens = input, image_tokens = 0 } = result.inputDetails ?? {}
  const usage = {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total,
    // As the provider says; where it says nothing, the prompt is text and nothing else.
    input_tokens_details: { text_tokens, image_tokens },
  }
  return { ...made, usage }
}

function unlessAuto(word: string | null | undefined): string | null {
  return word === undefined || word === 'auto' ? null : word
}
