import { chatRequest } from '../chat.ts'
import { completeRequest } from '../complete.ts'
import { embeddingsRequest } from '../embeddings.ts'
import { imageRequest } from '../image.ts'
import type { JsonRequest } from '../json-request.ts'
import { videoRequest } from '../video.ts'
import { visionRequest } from '../vision.ts'
import { Chat, ChatEvent, Embeddings, Images, Videos } from './answers.ts'
import { type Answer, CALL_ERRORS, type Content, events, json, type Operation } from './operation.ts'

const STREAMED =
  'One object to an event, in `data:`; the last is followed by `data: [DONE]`. What breaks off behind ' +
  'the first piece is an event `error` with the envelope of errors, and no end follows.'

const WRITTEN: Answer = {
  status: 200,
  description: 'the answer; with `stream: true` its pieces and then the whole',
  contents: [json(Chat), events(ChatEvent, STREAMED)],
}

function made(schema: Content['schema'], description: string): Answer {
  return { status: 200, description, contents: [json(schema)] }
}

function generation(
  request: Pick<JsonRequest, 'operation' | 'schema'>,
  answer: Answer,
  told: Pick<Operation, 'summary'> & Partial<Operation>,
): Operation {
  return {
    method: 'POST',
    path: `/v1/${request.operation}`,
    id: request.operation,
    tag: 'Generation',
    scope: 'inference',
    limited: true,
    routed: true,
    parameters: ['Purpose'],
    body: [json(request.schema)],
    answers: [{ ...answer, headers: ['X-LK-Idempotency', ...(answer.headers ?? [])] }],
    errors: CALL_ERRORS,
    ...told,
  }
}

export const GENERATION: readonly Operation[] = [
  generation(chatRequest, WRITTEN, {
    summary: 'Chat',
    description:
      "Messages in OpenAI's shape. Pictures, tools, recordings and spoken answers ask for more of the " +
      'model than text: `vision`, `function_calling`, `audio_input`, `audio_output`.',
  }),
  generation(completeRequest, WRITTEN, { summary: 'Go on from a text' }),
  generation(visionRequest, WRITTEN, {
    summary: 'Look at pictures',
    description: 'A chat with at least one picture, or `prompt` and `images`.',
  }),
  generation(embeddingsRequest, made(Embeddings, 'the vectors'), { summary: 'Make vectors of texts' }),
  generation(imageRequest, made(Images, 'the pictures'), { summary: 'Draw pictures' }),
  generation(videoRequest, made(Videos, 'the video'), {
    summary: 'Make a video',
    description:
      'Waits until it is made. A video that only the credential of the gateway opens is kept for a day ' +
      'behind a signed URL. A video is ordered once: if its fate is unknown nobody orders it again.',
    errors: [...CALL_ERRORS, 'UPSTREAM_OUTCOME_UNKNOWN'],
  }),
]
