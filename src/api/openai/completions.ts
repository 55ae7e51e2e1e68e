import { Type } from 'typebox'
import type { ChatDelta, ChatResult } from '../../contracts/chat.ts'
import type { Outcome } from '../../gateway/outcome.ts'
import type { Streaming } from '../../gateway/stream.ts'
import { endpoint } from '../endpoint.ts'
import { largeText } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { writeChat } from '../native/chat.ts'
import { readSampling, SAMPLING_FIELDS } from '../native/chat-request.ts'
import { TOKEN_FACTS } from '../openapi/headers.ts'
import { OpenAiCompletion, OpenAiCompletionEvent } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, events, json } from '../openapi/operation.ts'
import {
  completionShape,
  completionUsage,
  MODEL_FIELD,
  OPENAI,
  openaiAnswer,
  openaiRequest,
  refusedField,
  STREAM_OPTIONS_FIELD,
  STREAMED,
  USER_FIELD,
} from './door.ts'

const Prompt = Type.String({ minLength: 1 })

const CompletionBody = Type.Object({
  model: MODEL_FIELD,
  prompt: Type.Union([Prompt, Type.Array(Prompt, { minItems: 1, maxItems: 1 })], {
    description: 'text to go on from; tokens are not taken',
  }),
  ...SAMPLING_FIELDS,
  ...USER_FIELD,
  stream_options: STREAM_OPTIONS_FIELD,
  n: optional(Type.Literal(1), 'there is one answer'),
  best_of: optional(Type.Literal(1), 'the same'),
  echo: optional(Type.Literal(false), 'the prompt is not repeated'),
  suffix: optional(Type.Literal(''), 'there is nothing behind the answer'),
  logprobs: refusedField('probabilities of tokens are not told'),
  logit_bias: refusedField('tokens differ from model to model, and the route chooses the model'),
})

const openaiCompletionRequest = openaiRequest(
  'complete',
  CompletionBody,
  (body) => ({
    prompt: typeof body.prompt === 'string' ? body.prompt : body.prompt.join(''),
    ...readSampling(body),
  }),
  ['frequency_penalty', 'presence_penalty'],
)

export const completions = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/completions',
  id: 'openaiCompletion',
  summary: 'Text completion',
  body: openaiCompletionRequest,
  answers: [openaiAnswer([json(OpenAiCompletion), events(OpenAiCompletionEvent, STREAMED)], TOKEN_FACTS)],
  errors: CALL_ERRORS,
  handle(request) {
    const includeUsage = request.body.fields.stream_options?.include_usage === true
    const shape = completionShape(textCompletion, (streaming, created) =>
      textChunks(streaming, includeUsage, created),
    )
    return writeChat(shape, request)
  },
})

/** @param created Unix seconds */
export function textCompletion({ envelope, result }: Outcome<'complete'>, created: number) {
  const { id, model } = envelope
  const usage = completionUsage(envelope)
  const choice = {
    index: 0,
    text: largeText(result.content),
    finish_reason: finishReasonOf(result),
    logprobs: null,
  }
  const completion = { id, object: 'text_completion' as const, created, model, choices: [choice] }
  return usage === null ? completion : { ...completion, usage }
}

/** The chunks of a streamed text; there is no reason before the last one. @param created Unix seconds */
function textChunks({ head }: Streaming<'complete'>, includeUsage: boolean, created: number) {
  const { id, model } = head
  const common = { id, object: 'text_completion' as const, created, model }
  const chunk = (text: string, reason: 'stop' | 'length' | 'content_filter' | null) => ({
    ...common,
    choices: [{ index: 0, text, logprobs: null, finish_reason: reason }],
    ...(includeUsage ? { usage: null } : {}),
  })
  return {
    event: (delta: ChatDelta) => chunk(delta.type === 'text' ? delta.text : '', null),
    done({ envelope, result }: Outcome<'complete'>) {
      const last = chunk('', finishReasonOf(result))
      return includeUsage ? [last, { ...common, choices: [], usage: completionUsage(envelope) }] : [last]
    },
  }
}

/** OpenAI always gives a reason, and a text calls no tools. */
function finishReasonOf({ finish_reason: reason }: ChatResult) {
  return reason === null || reason === 'tool_calls' ? ('stop' as const) : reason
}
