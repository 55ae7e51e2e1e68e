import { Type } from 'typebox'
import { ChatTokenLogprob } from './openai-answers.ts'
import { count, nullable, shape, text } from './schema.ts'

const tokenLogprobs = Type.Array(ChatTokenLogprob, {
  description: 'with `include: ["message.output_text.logprobs"]`, or with `top_logprobs`',
})

const ItemStatus = Type.Enum(['in_progress', 'completed', 'incomplete'])

const OutputText = shape('OpenAiOutputText', {
  type: Type.Literal('output_text'),
  text: Type.String(),
  annotations: Type.Array(Type.Object({}), { maxItems: 0 }),
  logprobs: tokenLogprobs,
})

const OutputItem = Type.Union(
  [
    shape('OpenAiOutputMessage', {
      id: Type.String(),
      type: Type.Literal('message'),
      status: ItemStatus,
      role: Type.Literal('assistant'),
      content: Type.Array(OutputText),
    }),
    shape('OpenAiFunctionCall', {
      id: text('of the item'),
      type: Type.Literal('function_call'),
      status: ItemStatus,
      call_id: text('that its output names'),
      name: Type.String(),
      arguments: text('JSON as the model wrote it'),
    }),
  ],
  { title: 'OpenAiOutputItem' },
)

const Usage = shape('OpenAiResponseUsage', {
  input_tokens: count('tokens'),
  input_tokens_details: Type.Object({
    cached_tokens: count('0 where the provider does not tell it'),
    cache_write_tokens: count('0 where the provider does not tell it'),
  }),
  output_tokens: count('tokens'),
  output_tokens_details: Type.Object({ reasoning_tokens: count('0 where the provider does not tell it') }),
  total_tokens: count('tokens'),
})

const IncompleteReason = Type.Enum(['max_output_tokens', 'content_filter'])
const unixSeconds = count('Unix seconds')
const Repeated = (description: string) => Type.Unknown({ description })

export const OpenAiResponse = shape('OpenAiResponse', {
  id: Type.String(),
  object: Type.Literal('response'),
  created_at: unixSeconds,
  status: Type.Enum(['in_progress', 'completed', 'incomplete', 'failed']),
  background: Type.Literal(false),
  completed_at: nullable(unixSeconds, 'null unless it is completed'),
  error: nullable(
    Type.Object({ code: text('one of OpenAI’s'), message: Type.String() }),
    'why a stream broke off',
  ),
  incomplete_details: nullable(Type.Object({ reason: IncompleteReason }), 'why the answer is incomplete'),
  instructions: nullable(Type.String(), 'as they were sent'),
  max_output_tokens: nullable(Type.Integer(), 'as it was sent'),
  metadata: Repeated('as it was sent; `{}` otherwise'),
  model: text('that answered'),
  output: Type.Array(OutputItem),
  parallel_tool_calls: Type.Boolean({ description: 'as it was sent; true otherwise' }),
  previous_response_id: Type.Null(),
  reasoning: Type.Object({ effort: nullable(Type.String(), 'as it was sent'), summary: Type.Null() }),
  store: Type.Literal(false),
  temperature: nullable(Type.Number(), 'as it was sent'),
  text: Type.Object({
    format: Repeated('as it was sent; `text` otherwise'),
    verbosity: Type.Optional(text('as it was sent')),
  }),
  tool_choice: Repeated('as it was sent; `auto` otherwise'),
  tools: Type.Array(Repeated('as it was sent'), { description: 'functions that the model might call' }),
  top_p: nullable(Type.Number(), 'as it was sent'),
  truncation: Type.Literal('disabled'),
  service_tier: Type.Optional(text('where the provider tells it')),
  usage: Type.Optional(Usage),
  warnings: Type.Optional(Type.Array(Type.String(), { description: 'the lines of `X-LK-Warnings`' })),
})

const NUMBERED = { sequence_number: count('of the event, from 0') }
const OF_ITEM = { ...NUMBERED, item_id: Type.String(), output_index: count('of the item in `output`') }
const IN_PART = { ...OF_ITEM, content_index: Type.Literal(0) }

export const OpenAiResponseEvent = Type.Union(
  [
    shape('OpenAiResponseState', {
      ...NUMBERED,
      type: Type.Enum([
        ...['response.created', 'response.in_progress'],
        ...['response.completed', 'response.incomplete', 'response.failed'],
      ]),
      response: OpenAiResponse,
    }),
    shape('OpenAiResponseItem', {
      ...NUMBERED,
      type: Type.Enum(['response.output_item.added', 'response.output_item.done']),
      output_index: count('of the item in `output`'),
      item: OutputItem,
    }),
    shape('OpenAiResponsePart', {
      ...IN_PART,
      type: Type.Enum(['response.content_part.added', 'response.content_part.done']),
      part: OutputText,
    }),
    shape('OpenAiResponseTextDelta', {
      ...IN_PART,
      type: Type.Literal('response.output_text.delta'),
      delta: text('continues the one before'),
      logprobs: tokenLogprobs,
    }),
    shape('OpenAiResponseTextDone', {
      ...IN_PART,
      type: Type.Literal('response.output_text.done'),
      text: text('the whole text'),
      logprobs: tokenLogprobs,
    }),
    shape('OpenAiResponseArgumentsDelta', {
      ...OF_ITEM,
      type: Type.Literal('response.function_call_arguments.delta'),
      delta: text('continues the one before'),
    }),
    shape('OpenAiResponseArgumentsDone', {
      ...OF_ITEM,
      type: Type.Literal('response.function_call_arguments.done'),
      name: Type.String(),
      arguments: text('the whole JSON'),
    }),
    shape('OpenAiResponseError', {
      ...NUMBERED,
      type: Type.Literal('error'),
      code: text('Larkway’s'),
      message: Type.String(),
      param: nullable(Type.String(), 'field at fault'),
      error: Type.Object({}, { description: 'the same as every error has it', additionalProperties: true }),
    }),
  ],
  { title: 'OpenAiResponseEvent', description: 'data of one event; nothing follows the last' },
)
