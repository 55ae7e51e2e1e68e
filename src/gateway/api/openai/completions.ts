import { Type } from 'typebox'
import type { ChatChoice, ChatDelta } from '../../../contracts/chat.ts'
import type { Logprobs } from '../../../contracts/logprobs.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import { JsonOptions } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { largeText } from '../json-reply.ts'
import { writeChat } from '../native/chat.ts'
import { readSampling, SAMPLING_FIELDS } from '../native/chat-request.ts'
import { TOKEN_FACTS } from '../openapi/headers.ts'
import { OpenAiCompletion, OpenAiCompletionEvent } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, events, json } from '../openapi/operation.ts'
import {
  answerFacts,
  choicesOf,
  completionShape,
  completionUsage,
  MODEL_FIELD,
  OPENAI,
  openaiAnswer,
  openaiRequest,
  STREAM_OPTIONS_FIELD,
  STREAMED,
  USER_FIELD,
} from './door.ts'
import { COMPLETION_OPTIONS } from './options.ts'

const Prompt = Type.String({ minLength: 1 })

const CompletionBody = Type.Object({
  model: MODEL_FIELD,
  prompt: Type.Union([Prompt, Type.Array(Prompt, { minItems: 1, maxItems: 1 })], {
    description: 'text to go on from; tokens are not taken',
  }),
  ...SAMPLING_FIELDS,
  ...USER_FIELD,
  stream_options: STREAM_OPTIONS_FIELD,
})

const openaiCompletionRequest = openaiRequest(
  'complete',
  CompletionBody,
  (body) => ({
    prompt: typeof body.prompt === 'string' ? body.prompt : body.prompt.join(''),
    ...readSampling(body),
  }),
  new JsonOptions(COMPLETION_OPTIONS),
)

export const completions = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/completions',
  kind: 'call',
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
export function textCompletion(outcome: Outcome<'complete'>, created: number) {
  const { id, model } = outcome.envelope
  const usage = completionUsage(outcome)
  const choices = choicesOf(outcome.result).map((choice, index) => ({
    index,
    text: largeText(choice.content),
    finish_reason: finishReasonOf(choice),
    logprobs: logprobsOf(choice),
  }))
  const completion = { id, object: 'text_completion' as const, created, model, choices }
  return { ...completion, ...(usage === null ? {} : { usage }), ...answerFacts(outcome) }
}

/** The client has the lists of text completions alone here. */
function logprobsOf({ logprobs = null }: { readonly logprobs?: Logprobs | null }) {
  return logprobs !== null && 'tokens' in logprobs ? logprobs : null
}

/** The chunks of a streamed text; there is no reason before the last one. @param created Unix seconds */
function textChunks({ head }: Streaming<'complete'>, includeUsage: boolean, created: number) {
  const { id, model } = head
  const common = { id, object: 'text_completion' as const, created, model }
  const chunk = (
    index: number,
    text: string,
    reason: ReturnType<typeof finishReasonOf> | null,
    logprobs: ReturnType<typeof logprobsOf> = null,
  ) => ({
    ...common,
    choices: [{ index, text, logprobs, finish_reason: reason }],
    ...(includeUsage ? { usage: null } : {}),
  })
  return {
    event: (delta: ChatDelta) =>
      delta.type === 'text'
        ? chunk(delta.choice ?? 0, delta.text, null, logprobsOf(delta))
        : chunk(delta.choice ?? 0, '', null),
    done(outcome: Outcome<'complete'>) {
      const ends = choicesOf(outcome.result).map((choice, index) => chunk(index, '', finishReasonOf(choice)))
      const facts = answerFacts(outcome)
      const last = ends.map((end, at) => (at === ends.length - 1 ? { ...end, ...facts } : end))
      return includeUsage ? [...last, { ...common, choices: [], usage: completionUsage(outcome) }] : last
    },
  }
}

/** OpenAI always gives a reason, and a text calls no tools. */
function finishReasonOf({ finish_reason: reason }: ChatChoice) {
  return reason === null || reason === 'tool_calls' ? ('stop' as const) : reason
}
