import { Type } from 'typebox'
import { type DoorOption, type DoorOptions, feature, hint, refused, warned } from '../door-options.ts'
import { optional } from '../json-request.ts'

/**
 * Fates of the options of OpenAI's format at each path, but for those that are kept, which are fields of the bodies. A
 * feature or a hint is passed on as it was sent, to entries of OpenAI's format and to others that have the same.
 */

const Few = Type.Integer({ minimum: 1, maximum: 128 })
const Penalty = Type.Number({ minimum: -2, maximum: 2 })
const Word = Type.String({ minLength: 1, maxLength: 64 })
const Flag = Type.Boolean()

const NOT_PASSED_ON = 'not passed on'
const NOT_STORED = 'nothing is stored'
const WHOLE_INPUT = 'nothing is stored; send the whole conversation as input'
const UNMODERATED = 'nothing is moderated'
const STILL = 'nothing moves'

const LOGIT_BIAS: DoorOption = feature(
  'by token, as the tokenizer of the model has it that the route chooses',
  { shape: Type.Record(Type.String({ maxLength: 16 }), Type.Number({ minimum: -100, maximum: 100 })) },
)
const PENALTY: DoorOption = hint('of tokens that came before', { shape: Penalty, neutral: [0] })
const ONE_CALL: DoorOption = feature(
  '`false`: one call at a time; entries of the kind `anthropic` keep it, too',
  { shape: Flag, neutral: [true] },
)

/** Options of a chat and of a response. */
const SHARED = {
  parallel_tool_calls: ONE_CALL,
  service_tier: hint('how the provider schedules the call', { shape: Word }),
  prompt_cache_key: hint('of the cache of the provider', { shape: Type.String({ maxLength: 1_024 }) }),
  prompt_cache_retention: hint('of the same', { shape: Word }),
  prompt_cache_options: hint('of the same; `prewarm` is refused, since there is an answer to every request', {
    shape: Type.Object({ prewarm: optional(Type.Literal(false), 'there is an answer to every request') }),
  }),
  moderation: refused(UNMODERATED),
} satisfies DoorOptions

export const CHAT_OPTIONS = {
  n: feature('choices, 1 to 128', { shape: Few, neutral: [1] }),
  logprobs: feature('of the tokens of the answer', { shape: Flag, neutral: [false] }),
  top_logprobs: feature('likeliest tokens in each place; beside `logprobs`', {
    shape: Type.Integer({ minimum: 0, maximum: 20 }),
    neutral: [0],
  }),
  logit_bias: LOGIT_BIAS,
  ...SHARED,
  reasoning_effort: hint('to models that reason', { shape: Word }),
  verbosity: hint('to models that reason', { shape: Word }),
  frequency_penalty: PENALTY,
  presence_penalty: PENALTY,
  prediction: hint('text that the answer is likely to have', { shape: Type.Object({}) }),
  'messages[].name': hint('of a participant'),
  metadata: warned(NOT_PASSED_ON),
  store: warned(NOT_STORED),
  functions: refused('send tools'),
  function_call: refused('send tool_choice'),
  web_search_options: refused('nothing is searched for'),
} satisfies DoorOptions

export const COMPLETION_OPTIONS = {
  n: feature('choices, 1 to 128', { shape: Few, neutral: [1] }),
  best_of: feature('by servers with `/completions`', { shape: Few, neutral: [1] }),
  echo: feature('by servers with `/completions`', { shape: Flag, neutral: [false] }),
  suffix: feature('by servers with `/completions`', { shape: Type.String() }),
  logprobs: feature('by servers with `/completions`', { shape: Type.Integer({ minimum: 0, maximum: 5 }) }),
  logit_bias: LOGIT_BIAS,
  frequency_penalty: PENALTY,
  presence_penalty: PENALTY,
} satisfies DoorOptions

/** Value of `include` that adds to the text; the others would add to items that are not there. */
export const LOGPROBS_INCLUDED = 'message.output_text.logprobs'

export const RESPONSE_OPTIONS = {
  include: feature(
    `\`${LOGPROBS_INCLUDED}\`; the others would add to items that there are not, with a warning`,
    {
      shape: Type.Array(Type.String({ maxLength: 128 }), { maxItems: 32 }),
      as: 'logprobs',
      value: (sent) => (Array.isArray(sent) && sent.includes(LOGPROBS_INCLUDED) ? true : undefined),
    },
  ),
  top_logprobs: feature('likeliest tokens in each place', {
    shape: Type.Integer({ minimum: 0, maximum: 20 }),
    neutral: [0],
  }),
  ...SHARED,
  'reasoning.effort': hint('as `reasoning_effort` of a chat', { as: 'reasoning_effort' }),
  'reasoning.summary': warned(NOT_PASSED_ON),
  'reasoning.generate_summary': warned(NOT_PASSED_ON),
  'text.verbosity': hint('as `verbosity` of a chat', { as: 'verbosity' }),
  truncation: warned('the whole conversation is sent', {
    shape: Type.Enum(['auto', 'disabled']),
    neutral: ['disabled'],
  }),
  max_tool_calls: warned('no tools run here', { shape: Type.Integer({ minimum: 1 }) }),
  'tools[].output_schema': warned(NOT_PASSED_ON),
  'tools[].allowed_callers': warned(NOT_PASSED_ON),
  ...{ 'tools[].defer_loading': warned(NOT_PASSED_ON), 'tools[].async': warned(NOT_PASSED_ON) },
  'stream_options.include_obfuscation': warned(NOT_PASSED_ON),
  access_programs: warned(NOT_PASSED_ON),
  image: warned(NOT_PASSED_ON),
  'input_image.file_id': refused('no files are kept; send the data itself'),
  'item_reference.id': refused('nothing is stored; send the item itself'),
  store: refused(NOT_STORED, { neutral: [false] }),
  background: refused('the answer is waited for', { neutral: [false] }),
  background_options: warned('the answer is waited for'),
  previous_response_id: refused(WHOLE_INPUT),
  conversation: refused(WHOLE_INPUT),
  prompt: refused('no prompts are kept; send instructions and input'),
  context_management: refused('nothing is left out of a conversation'),
} satisfies DoorOptions

export const IMAGE_OPTIONS = {
  background: feature('`transparent`; `opaque` is a hint', {
    shape: Type.Enum(['auto', 'opaque', 'transparent']),
    neutral: ['auto'],
    hints: ['opaque'],
  }),
  response_format: feature('`url`, by entries of the kind `openai-compatible`; `b64_json` is the default', {
    shape: Type.Enum(['b64_json', 'url']),
    neutral: ['b64_json'],
  }),
  moderation: hint('how strict it is', { shape: Word, neutral: ['auto'] }),
  output_compression: hint('percent', { shape: Type.Integer({ minimum: 0, maximum: 100 }) }),
  style: hint('by entries of the kind `openai-compatible`', { shape: Word }),
  partial_images: warned('pictures come whole', { shape: Type.Integer(), neutral: [0] }),
  complexity: warned(NOT_PASSED_ON),
  svg: refused('pictures are made of pixels'),
  frame_count: refused(STILL),
  frame_duration_ms: refused(STILL),
} satisfies DoorOptions

export const SPEECH_OPTIONS = {
  instructions: hint('how the voice speaks', { shape: Type.String({ maxLength: 4_096 }) }),
} satisfies DoorOptions

const Speakers = (maxLength: number) => Type.Array(Type.String({ maxLength }), { maxItems: 4 })

export const TRANSCRIPTION_OPTIONS = {
  include: feature('`logprobs`: beside the text, and in the last event of a stream', {
    shape: Type.Array(Type.Enum(['logprobs']), { maxItems: 1 }),
  }),
  known_speaker_names: feature('at most 4', { shape: Speakers(256) }),
  known_speaker_references: feature('at most 4 recordings as `data:` URLs, in a form of 64 KiB each', {
    shape: Speakers(2_000_000),
  }),
  temperature: hint('randomness; 0 is the default', {
    shape: Type.Number({ minimum: 0, maximum: 1 }),
    neutral: [0],
  }),
} satisfies DoorOptions
