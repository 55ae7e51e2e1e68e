import { Type } from 'typebox'
import type { DoorOption, DoorOptions } from '../door-options.ts'
import { optional } from '../json-request.ts'

/**
 * What becomes of the options of OpenAI's format at each path, but for those that are kept, which are fields of the
 * bodies. A feature or a hint goes on as it was sent, to entries of OpenAI's format and to others that have the same.
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

const LOGIT_BIAS: DoorOption = {
  fate: 'feature',
  note: 'by token, as the tokenizer of the model has it that the route chooses',
  shape: Type.Record(Type.String({ maxLength: 16 }), Type.Number({ minimum: -100, maximum: 100 })),
}
const PENALTY: DoorOption = { fate: 'hint', note: 'of tokens that came before', shape: Penalty, neutral: [0] }
const ONE_CALL: DoorOption = {
  fate: 'feature',
  note: '`false`: one call at a time; entries of the kind `anthropic` keep it, too',
  shape: Flag,
  neutral: [true],
}

/** Options of a chat and of a response. */
const SHARED = {
  parallel_tool_calls: ONE_CALL,
  service_tier: { fate: 'hint', note: 'how the provider schedules the call', shape: Word },
  prompt_cache_key: {
    fate: 'hint',
    note: 'of the cache of the provider',
    shape: Type.String({ maxLength: 1_024 }),
  },
  prompt_cache_retention: { fate: 'hint', note: 'of the same', shape: Word },
  prompt_cache_options: {
    fate: 'hint',
    note: 'of the same; `prewarm` is refused, since there is an answer to every request',
    shape: Type.Object({ prewarm: optional(Type.Literal(false), 'there is an answer to every request') }),
  },
  moderation: { fate: 'refused', note: UNMODERATED },
} satisfies DoorOptions

export const CHAT_OPTIONS = {
  n: { fate: 'feature', note: 'choices, 1 to 128', shape: Few, neutral: [1] },
  logprobs: { fate: 'feature', note: 'of the tokens of the answer', shape: Flag, neutral: [false] },
  top_logprobs: {
    fate: 'feature',
    note: 'likeliest tokens in each place; beside `logprobs`',
    shape: Type.Integer({ minimum: 0, maximum: 20 }),
    neutral: [0],
  },
  logit_bias: LOGIT_BIAS,
  ...SHARED,
  reasoning_effort: { fate: 'hint', note: 'to models that reason', shape: Word },
  verbosity: { fate: 'hint', note: 'to models that reason', shape: Word },
  frequency_penalty: PENALTY,
  presence_penalty: PENALTY,
  prediction: { fate: 'hint', note: 'text that the answer is likely to have', shape: Type.Object({}) },
  'messages[].name': { fate: 'hint', note: 'of a participant' },
  metadata: { fate: 'warned', note: NOT_PASSED_ON },
  store: { fate: 'warned', note: NOT_STORED },
  functions: { fate: 'refused', note: 'send tools' },
  function_call: { fate: 'refused', note: 'send tool_choice' },
  web_search_options: { fate: 'refused', note: 'nothing is searched for' },
} satisfies DoorOptions

export const COMPLETION_OPTIONS = {
  n: { fate: 'feature', note: 'choices, 1 to 128', shape: Few, neutral: [1] },
  best_of: { fate: 'feature', note: 'by servers with `/completions`', shape: Few, neutral: [1] },
  echo: { fate: 'feature', note: 'by servers with `/completions`', shape: Flag, neutral: [false] },
  suffix: { fate: 'feature', note: 'by servers with `/completions`', shape: Type.String() },
  logprobs: {
    fate: 'feature',
    note: 'by servers with `/completions`',
    shape: Type.Integer({ minimum: 0, maximum: 5 }),
  },
  logit_bias: LOGIT_BIAS,
  frequency_penalty: PENALTY,
  presence_penalty: PENALTY,
} satisfies DoorOptions

/** Of `include`, what adds to the text; the rest would add to items that are not there. */
export const LOGPROBS_INCLUDED = 'message.output_text.logprobs'

export const RESPONSE_OPTIONS = {
  include: {
    fate: 'feature',
    note: `\`${LOGPROBS_INCLUDED}\`; the others would add to items that there are not, with a warning`,
    shape: Type.Array(Type.String({ maxLength: 128 }), { maxItems: 32 }),
    as: 'logprobs',
    value: (sent) => (Array.isArray(sent) && sent.includes(LOGPROBS_INCLUDED) ? true : undefined),
  },
  top_logprobs: {
    fate: 'feature',
    note: 'likeliest tokens in each place',
    shape: Type.Integer({ minimum: 0, maximum: 20 }),
    neutral: [0],
  },
  ...SHARED,
  'reasoning.effort': { fate: 'hint', note: 'as `reasoning_effort` of a chat', as: 'reasoning_effort' },
  'reasoning.summary': { fate: 'warned', note: NOT_PASSED_ON },
  'reasoning.generate_summary': { fate: 'warned', note: NOT_PASSED_ON },
  'text.verbosity': { fate: 'hint', note: 'as `verbosity` of a chat', as: 'verbosity' },
  truncation: {
    fate: 'warned',
    note: 'the whole conversation is sent',
    shape: Type.Enum(['auto', 'disabled']),
    neutral: ['disabled'],
  },
  max_tool_calls: { fate: 'warned', note: 'no tools run here', shape: Type.Integer({ minimum: 1 }) },
  'tools[].output_schema': { fate: 'warned', note: NOT_PASSED_ON },
  'tools[].allowed_callers': { fate: 'warned', note: NOT_PASSED_ON },
  'tools[].defer_loading': { fate: 'warned', note: NOT_PASSED_ON },
  'tools[].async': { fate: 'warned', note: NOT_PASSED_ON },
  'stream_options.include_obfuscation': { fate: 'warned', note: NOT_PASSED_ON },
  access_programs: { fate: 'warned', note: NOT_PASSED_ON },
  image: { fate: 'warned', note: NOT_PASSED_ON },
  'input_image.file_id': { fate: 'refused', note: 'no files are kept; send the data itself' },
  'item_reference.id': { fate: 'refused', note: 'nothing is stored; send the item itself' },
  store: { fate: 'refused', note: NOT_STORED, neutral: [false] },
  background: { fate: 'refused', note: 'the answer is waited for', neutral: [false] },
  previous_response_id: { fate: 'refused', note: WHOLE_INPUT },
  conversation: { fate: 'refused', note: WHOLE_INPUT },
  prompt: { fate: 'refused', note: 'no prompts are kept; send instructions and input' },
  context_management: { fate: 'refused', note: 'nothing is left out of a conversation' },
} satisfies DoorOptions

export const IMAGE_OPTIONS = {
  background: {
    fate: 'feature',
    note: '`transparent`; `opaque` is a hint',
    shape: Type.Enum(['auto', 'opaque', 'transparent']),
    neutral: ['auto'],
    hints: ['opaque'],
  },
  response_format: {
    fate: 'feature',
    note: '`url`, by entries of the kind `openai-compatible`; `b64_json` is the default',
    shape: Type.Enum(['b64_json', 'url']),
    neutral: ['b64_json'],
  },
  moderation: { fate: 'hint', note: 'how strict it is', shape: Word, neutral: ['auto'] },
  output_compression: { fate: 'hint', note: 'percent', shape: Type.Integer({ minimum: 0, maximum: 100 }) },
  style: { fate: 'hint', note: 'by entries of the kind `openai-compatible`', shape: Word },
  partial_images: { fate: 'warned', note: 'pictures come whole', shape: Type.Integer(), neutral: [0] },
  complexity: { fate: 'warned', note: NOT_PASSED_ON },
  svg: { fate: 'refused', note: 'pictures are made of pixels' },
  frame_count: { fate: 'refused', note: STILL },
  frame_duration_ms: { fate: 'refused', note: STILL },
} satisfies DoorOptions

export const SPEECH_OPTIONS = {
  instructions: { fate: 'hint', note: 'how the voice speaks', shape: Type.String({ maxLength: 4_096 }) },
} satisfies DoorOptions

const Speakers = (maxLength: number) => Type.Array(Type.String({ maxLength }), { maxItems: 4 })

export const TRANSCRIPTION_OPTIONS = {
  include: {
    fate: 'feature',
    note: '`logprobs`: beside the text, and in the last event of a stream',
    shape: Type.Array(Type.Enum(['logprobs']), { maxItems: 1 }),
  },
  known_speaker_names: { fate: 'feature', note: 'at most 4', shape: Speakers(256) },
  known_speaker_references: {
    fate: 'feature',
    note: 'at most 4 recordings as `data:` URLs, in a form of 64 KiB each',
    shape: Speakers(2_000_000),
  },
  temperature: {
    fate: 'hint',
    note: 'randomness; 0 is the default',
    shape: Type.Number({ minimum: 0, maximum: 1 }),
    neutral: [0],
  },
} satisfies DoorOptions
