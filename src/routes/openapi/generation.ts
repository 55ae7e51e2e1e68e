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
  'One object per event, in `data:`; the last is followed by `data: [DONE]`. A failure after the first ' +
  'chunk is sent as an `error` event with the error envelope, and nothing follows it.'

const WRITTEN: Answer = {
  status: 200,
  description: 'the answer; with `stream: true` its chunks, then the complete answer',
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
  generation(completeRequest, WRITTEN, { summary: 'Text completion' }),
  generation(visionRequest, WRITTEN, {
    summary: 'Vision',
    description: 'A chat with at least one image, or `prompt` and `images`.',
  }),
  generation(embeddingsRequest, made(Embeddings, 'the embeddings'), { summary: 'Embeddings' }),
  generation(imageRequest, made(Images, 'the images'), { summary: 'Generate images' }),
  generation(videoRequest, made(Videos, 'the video'), {
    summary: 'Generate a video',
    description:
      'Waits until the video is ready. A video that only the gateway’s credential can open is stored for a day ' +
      'behind a signed URL. A video is ordered once: if its outcome is unknown, it isn’t ordered again.',
    errors: [...CALL_ERRORS, 'UPSTREAM_OUTCOME_UNKNOWN'],
  }),
]
