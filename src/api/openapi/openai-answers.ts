import { type TSchema, Type } from 'typebox'
import { IMAGE_WORDS } from '../../contracts/generation.ts'
import { StreamError } from './answers.ts'
import { amount, count, nullable, shape, text } from './schema.ts'

const DurationUsage = shape(
  'OpenAiDurationUsage',
  { type: Type.Literal('duration'), seconds: count('of the audio, rounded up') },
  'left out where nobody knows how long the audio is',
)

const Transcription = shape('OpenAiTranscription', {
  text: Type.String(),
  usage: Type.Optional(DurationUsage),
})

const VerboseSegment = shape(
  'OpenAiVerboseSegment',
  {
    id: count('from 0'),
    seek: count('always 0'),
    start: amount('seconds'),
    end: amount('seconds'),
    text: Type.String(),
    tokens: Type.Array(Type.Integer(), { maxItems: 0 }),
    temperature: Type.Number(),
    avg_logprob: Type.Number(),
    compression_ratio: Type.Number(),
    no_speech_prob: Type.Number(),
  },
  'what only Whisper tells has values that no filter takes offence at',
)

const Word = shape('OpenAiWord', { word: Type.String(), start: amount('seconds'), end: amount('seconds') })

const Task = Type.Enum(['transcribe', 'translate'])

const VERBOSE = {
  task: Task,
  language: text('in English words; `unknown`'),
  duration: amount('seconds'),
  text: Type.String(),
  segments: Type.Optional(Type.Array(VerboseSegment, { description: 'unless only words were asked for' })),
  words: Type.Optional(Type.Array(Word, { description: 'where they were asked for' })),
  usage: Type.Optional(DurationUsage),
}

const DiarizedSegment = shape('OpenAiDiarizedSegment', {
  type: Type.Literal('transcript.text.segment'),
  id: text('`seg_0` and so on'),
  start: amount('seconds'),
  end: amount('seconds'),
  text: Type.String(),
  speaker: text('`A`, `B` and so on; `unknown`'),
})

const Diarized = shape('OpenAiDiarized', {
  task: Task,
  duration: amount('seconds'),
  text: Type.String(),
  segments: Type.Array(DiarizedSegment),
  usage: Type.Optional(DurationUsage),
})

export const OpenAiTranscript = Type.Union([Transcription, shape('OpenAiVerbose', VERBOSE), Diarized], {
  title: 'OpenAiTranscript',
  description: 'as `response_format` says: `json`, `verbose_json`, `diarized_json`',
})

export const OpenAiTranscriptEvent = Type.Union(
  [
    shape('OpenAiTextDelta', { type: Type.Literal('transcript.text.delta'), delta: Type.String() }),
    DiarizedSegment,
    shape('OpenAiTextDone', {
      type: Type.Literal('transcript.text.done'),
      text: Type.String(),
      usage: Type.Optional(
        Type.Object(
          {
            type: Type.Literal('tokens'),
            input_tokens: count('tokens'),
            output_tokens: count('tokens'),
            total_tokens: count('tokens'),
          },
          { description: 'where the provider counts tokens' },
        ),
      ),
    }),
    StreamError,
  ],
  { title: 'OpenAiTranscriptEvent' },
)

const CompletionUsage = shape('OpenAiCompletionUsage', {
  prompt_tokens: count('tokens'),
  completion_tokens: count('tokens'),
  total_tokens: count('tokens'),
})

const FinishReason = Type.Enum(['stop', 'length', 'tool_calls', 'content_filter'])
const created = count('Unix seconds')

const ToolCall = shape('OpenAiToolCall', {
  id: Type.String(),
  type: Type.Literal('function'),
  function: Type.Object({ name: Type.String(), arguments: text('JSON as the model wrote it') }),
})

const Message = shape('OpenAiMessage', {
  role: Type.Literal('assistant'),
  content: nullable(Type.String(), 'null beside tool calls or a spoken answer'),
  refusal: Type.Null(),
  tool_calls: Type.Optional(Type.Array(ToolCall)),
  audio: Type.Optional(
    Type.Object({
      id: Type.String(),
      data: Type.String({ contentEncoding: 'base64' }),
      expires_at: created,
      transcript: Type.String(),
    }),
  ),
})

export const OpenAiChat = shape('OpenAiChat', {
  id: Type.String(),
  object: Type.Literal('chat.completion'),
  created,
  model: text('that answered'),
  choices: Type.Array(
    Type.Object({
      index: Type.Literal(0),
      message: Message,
      finish_reason: FinishReason,
      logprobs: Type.Null(),
    }),
  ),
  usage: Type.Optional(CompletionUsage),
})

const ChatChunkDelta = shape('OpenAiChatDelta', {
  role: Type.Optional(Type.Literal('assistant')),
  content: Type.Optional(nullable(Type.String(), 'goes on from the one before')),
  refusal: Type.Optional(Type.Null()),
  tool_calls: Type.Optional(
    Type.Array(
      Type.Object({
        index: count('which of the calls it belongs to'),
        id: Type.Optional(Type.String()),
        type: Type.Optional(Type.Literal('function')),
        function: Type.Object({ name: Type.Optional(Type.String()), arguments: Type.String() }),
      }),
    ),
  ),
  audio: Type.Optional(
    Type.Object({
      id: Type.Optional(text('in the first piece')),
      data: Type.Optional(Type.String({ contentEncoding: 'base64' })),
      transcript: Type.Optional(Type.String()),
      expires_at: Type.Optional(count('Unix seconds, behind the last piece')),
    }),
  ),
})

const CHUNK = { id: Type.String(), created, model: text('that answers') }
const ChunkUsage = Type.Optional(
  nullable(CompletionUsage, 'with `stream_options.include_usage`, in the last chunk'),
)

export const OpenAiChatEvent = Type.Union(
  [
    shape('OpenAiChatChunk', {
      ...CHUNK,
      object: Type.Literal('chat.completion.chunk'),
      choices: Type.Array(
        Type.Object({
          index: Type.Literal(0),
          delta: ChatChunkDelta,
          finish_reason: nullable(FinishReason, 'in the last chunk'),
          logprobs: Type.Null(),
        }),
      ),
      usage: ChunkUsage,
    }),
    StreamError,
  ],
  { title: 'OpenAiChatEvent', description: 'data of one event; `data: [DONE]` follows the last' },
)

const TextEnd = Type.Enum(['stop', 'length', 'content_filter'])

function textCompletion(reason: TSchema) {
  const choice = { index: Type.Literal(0), text: Type.String(), finish_reason: reason, logprobs: Type.Null() }
  return { ...CHUNK, object: Type.Literal('text_completion'), choices: Type.Array(Type.Object(choice)) }
}

export const OpenAiCompletion = shape('OpenAiCompletion', {
  ...textCompletion(TextEnd),
  usage: Type.Optional(CompletionUsage),
})

export const OpenAiCompletionEvent = Type.Union(
  [
    shape('OpenAiCompletionChunk', {
      ...textCompletion(nullable(TextEnd, 'in the last chunk')),
      usage: ChunkUsage,
    }),
    StreamError,
  ],
  { title: 'OpenAiCompletionEvent', description: 'data of one event; `data: [DONE]` follows the last' },
)

export const OpenAiEmbeddings = shape('OpenAiEmbeddings', {
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: count('of the text'),
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ contentEncoding: 'base64', description: 'little-endian 32-bit floats' }),
      ]),
    }),
  ),
  model: text('that answered'),
  usage: Type.Object({ prompt_tokens: count('tokens'), total_tokens: count('tokens') }),
})

export const OpenAiImages = shape('OpenAiImages', {
  created,
  size: Type.Optional(text('as the provider says, as what follows')),
  quality: Type.Optional(Type.Enum([...IMAGE_WORDS.quality])),
  output_format: Type.Optional(Type.Enum([...IMAGE_WORDS.output_format])),
  background: Type.Optional(Type.Enum([...IMAGE_WORDS.background])),
  data: Type.Array(
    Type.Object({
      b64_json: Type.Optional(Type.String({ contentEncoding: 'base64' })),
      url: Type.Optional(Type.String({ format: 'uri' })),
    }),
  ),
  usage: Type.Optional(
    Type.Object({
      input_tokens: count('tokens'),
      output_tokens: count('tokens'),
      total_tokens: count('tokens'),
      input_tokens_details: Type.Object({ text_tokens: count('tokens'), image_tokens: count('tokens') }),
    }),
  ),
})

export const OpenAiModel = shape('OpenAiModel', {
  id: text('label of a purpose, or name of a model'),
  object: Type.Literal('model'),
  created: Type.Literal(0),
  owned_by: text('the workspace of a purpose, or the provider of a model'),
})

export const OpenAiModels = shape('OpenAiModels', {
  object: Type.Literal('list'),
  data: Type.Array(OpenAiModel, { description: 'first the purposes, which are what `model` chooses' }),
})

export const OpenAiClientSecret = shape('OpenAiClientSecret', {
  value: text('the secret, `ek_…`'),
  expires_at: count('Unix seconds'),
  session: Type.Object(
    {},
    { description: 'the settings with which its sessions begin', additionalProperties: true },
  ),
  max_sessions: count('sessions that may be open at once'),
  max_session_seconds: nullable(Type.Integer({ minimum: 1 }), 'null: as every session'),
})
