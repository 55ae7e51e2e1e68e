import { Type } from 'typebox'
import type { Outcome } from '../../gateway/settle.ts'
import type { Streaming } from '../../gateway/stream.ts'
import type { ChatDelta, ChatResult } from '../../schema/chat.ts'
import { writeChat } from '../chat-reply.ts'
import { readSampling, SAMPLING_FIELDS } from '../chat-request.ts'
import type { Handle } from '../endpoint.ts'
import { largeText } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { completionShape } from './completion-shape.ts'
import { MODEL_FIELD, openaiRequest, refusedField } from './request.ts'
import { STREAM_OPTIONS_FIELD } from './stream-options.ts'
import { completionUsage } from './usage.ts'

const Prompt = Type.String({ minLength: 1 })

const CompletionBody = Type.Object({
  model: MODEL_FIELD,
  prompt: Type.Union([Prompt, Type.Array(Prompt, { minItems: 1, maxItems: 1 })], {
    description: 'text to go on from; tokens are not taken',
  }),
  ...SAMPLING_FIELDS,
  stream_options: STREAM_OPTIONS_FIELD,
  n: optional(Type.Literal(1), 'there is one answer'),
  best_of: optional(Type.Literal(1), 'the same'),
  echo: optional(Type.Literal(false), 'the prompt is not repeated'),
  suffix: optional(Type.Literal(''), 'there is nothing behind the answer'),
  logprobs: refusedField('probabilities of tokens are not told'),
  logit_bias: refusedField('tokens differ from model to model, and the route chooses the model'),
})

export const openaiCompletionRequest = openaiRequest(
  'complete',
  CompletionBody,
  (body) => ({
    prompt: typeof body.prompt === 'string' ? body.prompt : body.prompt.join(''),
    ...readSampling(body),
  }),
  ['frequency_penalty', 'presence_penalty', 'user'],
)

/** POST /openai/v1/completions */
export const completions: Handle = async (exchange, trail, { services }) => {
  const { call, stream, body } = await openaiCompletionRequest.receive(exchange, trail, services)
  const includeUsage = body.stream_options?.include_usage === true
  const shape = completionShape(textCompletion, (streaming, created) =>
    textChunks(streaming, includeUsage, created),
  )
  return writeChat({ operation: 'complete', call, stream }, shape, exchange, trail, services)
}

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
