import { type TSchema, Type } from 'typebox'
import { SERVICE_TIERS } from '../../../contracts/chat.ts'
import { IMAGE_WORDS } from '../../../contracts/generation.ts'
import { StreamError } from './answers.ts'
import { amount, count, nullable, shape, text } from './schema.ts'

const DurationUsage = shape(
  'OpenAiDurationUsage',
  { type: Type.Literal('duration'), seconds: count('of the audio, rounded up') },
  'left out where the length of the audio is unknown',
)

/** Member of bodies and last events that have room for it. */
const WARNED = {
  warnings: Type.Optional(Type.Array(Type.String(), { description: 'the lines of `X-LK-Warnings`' })),
}

const TOKEN_LOGPROB = {
  token: Type.String(),
  logprob: Type.Number(),
  bytes: nullable(Type.Array(Type.Integer()), 'of its UTF-8'),
}
const TokenLogprob = shape('OpenAiTokenLogprob', TOKEN_LOGPROB)
const TranscriptLogprobs = Type.Optional(
  Type.Array(TokenLogprob, { description: 'with `include: ["logprobs"]`' }),
)

const Transcription = shape('OpenAiTranscription', {
  text: Type.String(),
  logprobs: TranscriptLogprobs,
  ...WARNED,
  usage: Type.Optional(DurationUsage),
})

const VerboseSegment = shape(
  'OpenAiVerboseSegment',
  {
    id: count('from 0'),
    start: amount('seconds'),
    end: amount('seconds'),
    text: Type.String(),
    seek: Type.Optional(Type.Number()),
    tokens: Type.Optional(Type.Array(Type.Integer())),
    temperature: Type.Optional(Type.Number()),
    avg_logprob: Type.Optional(Type.Number()),
    compression_ratio: Type.Optional(Type.Number()),
    no_speech_prob: Type.Optional(Type.Number()),
  },
  "Whisper's figures as the provider tells them; what it does not tell is left out, with a warning",
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
  ...WARNED,
}

const DiarizedSegment = shape('OpenAiDiarizedSegment', {
  type: Type.Literal('transcript.text.segment'),
  id: text('`seg_0` and so on'),
  start: amount('seconds'),
  end: amount('seconds'),
  text: Type.String(),
  speaker: text('`A`, `B` and so on, or the name of one who is known; `unknown`'),
})

const Diarized = shape('OpenAiDiarized', {
  task: Task,
  duration: amount('seconds'),
  text: Type.String(),
  segments: Type.Array(DiarizedSegment),
  usage: Type.Optional(DurationUsage),
  ...WARNED,
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
      logprobs: TranscriptLogprobs,
      ...WARNED,
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

const TokenDetails = Type.Record(Type.String(), Type.Integer(), {
  description: 'tokens by kind, where the provider tells them',
})

const CompletionUsage = shape('OpenAiCompletionUsage', {
  prompt_tokens: count('tokens'),
  completion_tokens: count('tokens'),
  total_tokens: count('tokens'),
  prompt_tokens_details: Type.Optional(TokenDetails),
  completion_tokens_details: Type.Optional(TokenDetails),
})

/** Members beside the choices. */
const FACTS = {
  system_fingerprint: Type.Optional(text('where the provider tells it')),
  service_tier: Type.Optional(Type.Enum([...SERVICE_TIERS], { description: 'where the provider tells it' })),
  ...WARNED,
}

export const ChatTokenLogprob = shape('OpenAiChatTokenLogprob', {
  ...TOKEN_LOGPROB,
  top_logprobs: Type.Array(TokenLogprob),
})
const ChatTokens = nullable(Type.Array(ChatTokenLogprob), 'null where there are none')
const ChatLogprobs = nullable(
  shape('OpenAiChatLogprobs', { content: ChatTokens, refusal: ChatTokens }),
  'with `logprobs: true`',
)
const choiceIndex = count('of the choice; 0 unless `n` is over 1')

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
      index: choiceIndex,
      message: Message,
      finish_reason: FinishReason,
      logprobs: ChatLogprobs,
    }),
  ),
  usage: Type.Optional(CompletionUsage),
  ...FACTS,
})

const ChatChunkDelta = shape('OpenAiChatDelta', {
  role: Type.Optional(Type.Literal('assistant')),
  content: Type.Optional(nullable(Type.String(), 'continues the one before')),
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
      expires_at: Type.Optional(count('Unix seconds, after the last piece')),
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
          index: choiceIndex,
          delta: ChatChunkDelta,
          finish_reason: nullable(FinishReason, 'in the last chunk'),
          logprobs: ChatLogprobs,
        }),
      ),
      usage: ChunkUsage,
      ...FACTS,
    }),
    StreamError,
  ],
  { title: 'OpenAiChatEvent', description: 'data of one event; `data: [DONE]` follows the last' },
)

const TextEnd = Type.Enum(['stop', 'length', 'content_filter'])

const TextLogprobs = nullable(
  shape('OpenAiTextLogprobs', {
    tokens: Type.Array(Type.String()),
    token_logprobs: Type.Array(nullable(Type.Number(), 'of the first token of an echo')),
    top_logprobs: nullable(
      Type.Array(nullable(Type.Record(Type.String(), Type.Number()), 'of the first token of an echo')),
      'where there are none',
    ),
    text_offset: Type.Array(Type.Integer()),
  }),
  'with `logprobs`',
)

function textCompletion(reason: TSchema) {
  const choice = { index: choiceIndex, text: Type.String(), finish_reason: reason, logprobs: TextLogprobs }
  return { ...CHUNK, object: Type.Literal('text_completion'), choices: Type.Array(Type.Object(choice)) }
}

export const OpenAiCompletion = shape('OpenAiCompletion', {
  ...textCompletion(TextEnd),
  usage: Type.Optional(CompletionUsage),
  ...FACTS,
})

export const OpenAiCompletionEvent = Type.Union(
  [
    shape('OpenAiCompletionChunk', {
      ...textCompletion(nullable(TextEnd, 'in the last chunk')),
      usage: ChunkUsage,
      ...FACTS,
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

const MADE = {
  size: Type.Optional(text('as the provider says, as what follows')),
  quality: Type.Optional(Type.Enum([...IMAGE_WORDS.quality])),
  output_format: Type.Optional(Type.Enum([...IMAGE_WORDS.output_format])),
  background: Type.Optional(Type.Enum([...IMAGE_WORDS.background])),
  usage: Type.Optional(
    Type.Object({
      input_tokens: count('tokens'),
      output_tokens: count('tokens'),
      total_tokens: count('tokens'),
      input_tokens_details: Type.Object({ text_tokens: count('tokens'), image_tokens: count('tokens') }),
    }),
  ),
  ...WARNED,
}

const PICTURE = {
  b64_json: Type.Optional(Type.String({ contentEncoding: 'base64' })),
  url: Type.Optional(Type.String({ format: 'uri' })),
}

export const OpenAiImages = shape('OpenAiImages', {
  created,
  ...MADE,
  data: Type.Array(Type.Object(PICTURE)),
})

export const OpenAiImageEvent = Type.Union(
  [
    shape('OpenAiImageCompleted', {
      type: Type.Literal('image_generation.completed'),
      created_at: created,
      ...MADE,
      ...PICTURE,
    }),
    StreamError,
  ],
  { title: 'OpenAiImageEvent', description: 'data of one event; `usage` is in the last' },
)

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
