import { Type } from 'typebox'
import type { Outcome } from '../../call/attempt/outcome.ts'
import { run } from '../../call/pipeline.ts'
import type { Reply } from '../../edge/exchange.ts'
import { JsonOptions } from '../door-options.ts'
import { type Admitted, endpoint } from '../endpoint.ts'
import { factHeaders } from '../fact-headers.ts'
import { largeText } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { ImageBody, imageCall } from '../native/image.ts'
import { IMAGE_FACTS } from '../openapi/headers.ts'
import { OpenAiImageEvent, OpenAiImages } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, events, json } from '../openapi/operation.ts'
import { eventStreamReply } from '../sse.ts'
import {
  END_USER_FIELDS,
  factReply,
  MODEL_FIELD,
  OPENAI,
  openaiAnswer,
  openaiRequest,
  secondsNow,
  warningsIn,
} from './door.ts'
import { IMAGE_OPTIONS } from './options.ts'

const OpenAiImageBody = Type.Object({
  model: MODEL_FIELD,
  ...ImageBody.properties,
  stream: optional(Type.Boolean(), 'each picture in an event, once it is made'),
  ...END_USER_FIELDS,
})

/** `auto` is the provider's own choice, which the gateway has by saying nothing. */
const openaiImageRequest = openaiRequest(
  'image',
  OpenAiImageBody,
  (body) => imageCall({ ...body, size: unlessAuto(body.size), quality: unlessAuto(body.quality) }),
  new JsonOptions(IMAGE_OPTIONS),
)

const STREAMED = 'With `stream: true`: `image_generation.completed`, once for each picture.'

export const imagesGenerations = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/images/generations',
  kind: 'call',
  id: 'openaiImages',
  summary: 'Generate images',
  body: openaiImageRequest,
  answers: [openaiAnswer([json(OpenAiImages), events(OpenAiImageEvent, STREAMED)], IMAGE_FACTS)],
  errors: CALL_ERRORS,
  async handle({ exchange, context, deps: { services }, body: { call, stream } }) {
    const outcome = await run(services, context, { mode: 'whole', call })
    exchange.onFinished(outcome.release)
    const made = imagesResponse(outcome, secondsNow(services.clock))
    return stream ? pictureEvents(made, outcome, { exchange, context }) : factReply(outcome.envelope, made)
  },
})

/** A stream may have no partial pictures, and then has the whole ones alone. */
function pictureEvents(
  response: ReturnType<typeof imagesResponse>,
  { envelope }: Outcome<'image'>,
  { exchange, context }: Pick<Admitted, 'exchange' | 'context'>,
): Reply {
  const { created, data, ...made } = { usage: undefined, ...response }
  const { usage, ...picture } = made
  return eventStreamReply(
    {
      deltas: none(),
      headers: factHeaders(envelope),
      event: () => [],
      done: () =>
        data.map((content, index) => ({
          ...{ type: 'image_generation.completed', created_at: created },
          ...picture,
          ...content,
          ...(index === data.length - 1 && usage !== undefined ? { usage } : {}),
        })),
      terminator: null,
      named: true,
    },
    exchange,
    context,
  )
}

async function* none(): AsyncGenerator<never, void, void> {}

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
  const made = { created, ...result.made, data, ...warningsIn(envelope.warnings) }
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
