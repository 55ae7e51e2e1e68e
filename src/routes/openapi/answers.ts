import { type TSchema, Type } from 'typebox'
import { FINISH_REASONS } from '../../schema/chat.ts'
import { ErrorBody } from './errors.ts'
import { amount, count, lines, nullable, shape, text } from './shapes.ts'

const PURPOSE_SOURCES = [
  'none',
  'body',
  'header',
  'purpose_unknown',
  'purpose_unavailable',
  'fallback_purpose_exhausted',
]

export const POLICY_VERSION_ID = Type.String({
  pattern: '^pv_[0-9a-f]{16}$',
  description: 'version of the route used, also in `X-LK-Policy-Version-Id`',
})

/** What became of the purpose, in every envelope. */
export const PURPOSE = {
  lk_requested_purpose: nullable(Type.String(), 'the purpose that was sent'),
  lk_applied_purpose: nullable(Type.String(), 'the purpose whose entry answered; null: the default routing'),
  lk_purpose_source: Type.Enum(PURPOSE_SOURCES, {
    description: 'where the purpose came from, or why it wasn’t applied',
  }),
}

const TokensTotal = nullable(count('tokens'), 'input and output; null when the provider does not say')

const HearingUsage = shape('HearingUsage', {
  audio_seconds: nullable(amount('seconds'), 'read from the file by the gateway'),
  billable_audio_seconds: nullable(
    amount('seconds'),
    'after the minimum, channels and surcharges of the provider',
  ),
  total_tokens: Type.Literal(0),
})

const SpeechUsage = shape('SpeechUsage', {
  audio_output_characters: count('Unicode code points of the input'),
  total_tokens: Type.Literal(0),
})

const TokenUsage = shape('TokenUsage', {
  input_tokens: nullable(count('tokens'), 'as the provider counts them'),
  output_tokens: nullable(count('tokens'), 'as the provider counts them'),
  total_tokens: TokensTotal,
})

const EmbeddingsUsage = shape('EmbeddingsUsage', {
  input_tokens: nullable(count('tokens'), 'as the provider counts them'),
  total_tokens: TokensTotal,
})

const ImageUsage = shape('ImageUsage', {
  images: nullable(count('pictures'), 'that were made'),
  input_tokens: Type.Optional(nullable(count('tokens'), 'where the provider counts them')),
  output_tokens: Type.Optional(nullable(count('tokens'), 'where the provider counts them')),
  total_tokens: TokensTotal,
})

const VideoUsage = shape('VideoUsage', {
  video_seconds: nullable(amount('seconds'), 'of what was made; null when the provider does not say'),
  credits: Type.Optional(amount('what the provider charged in credits of its own')),
  total_tokens: Type.Literal(0),
})

function block(title: string, type: string, what: string) {
  return shape(
    title,
    {
      type: Type.Literal(type),
      base64: Type.Optional(Type.String({ contentEncoding: 'base64', description: what })),
      url: Type.Optional(Type.String({ format: 'uri-reference', description: `where ${what} is` })),
      media_type: text(`type of ${what}`),
    },
    'either `base64` or `url`',
  )
}

/** The common members, in the order in which they are sent. */
function envelope(usage: TSchema, blocks: TSchema | null) {
  return {
    id: text('of the request, also in `X-LK-Request-ID`'),
    provider: text('that answered, as the configuration names it'),
    model: text('that answered'),
    policy_version_id: POLICY_VERSION_ID,
    content: text('the text; empty where there is none'),
    content_blocks:
      blocks === null
        ? Type.Array(Type.Unknown(), { maxItems: 0, description: 'empty' })
        : Type.Array(blocks, { description: 'content that isn’t text' }),
    usage,
    cost_usd: nullable(
      amount('USD'),
      'what the provider charges for it, an estimate; null when it is not known',
    ),
    determinism: Type.Object({
      seed_honored: Type.Boolean({ description: 'a `seed` was sent and the provider supports it' }),
    }),
    ...PURPOSE,
    warnings: lines('what was ignored, left out or is not known, each beginning with the field'),
  }
}

const HEARD = {
  speaker: Type.Optional(text('`speaker_0` and so on, with diarization')),
  channel: Type.Optional(count('from 0, with multichannel')),
  confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
}

const Segment = shape('Segment', {
  id: count('from 0'),
  start: amount('seconds from the beginning of the audio'),
  end: amount('seconds'),
  text: Type.String(),
  ...HEARD,
})

const Word = shape('Word', {
  word: Type.String(),
  start: amount('seconds from the beginning of the audio'),
  end: amount('seconds'),
  ...HEARD,
})

const TRANSCRIPT = {
  ...envelope(HearingUsage, null),
  status: Type.Literal('succeeded'),
  language: nullable(Type.String(), 'ISO 639-1, else 639-3'),
  language_confidence: nullable(Type.Number({ minimum: 0, maximum: 1 }), 'as the provider says'),
  duration_seconds: nullable(amount('seconds'), 'of the audio'),
  segments: Type.Array(Segment, { description: 'if requested' }),
  words: Type.Array(Word, { description: 'if requested' }),
}

export const Transcript = shape('Transcript', TRANSCRIPT, 'answer of a transcription or translation')

/** What breaks off behind the first piece can no longer become a status. */
export const StreamError = shape(
  'StreamError',
  { type: Type.Literal('error'), error: ErrorBody },
  'no end follows',
)

export const TranscriptEvent = Type.Union(
  [
    shape('TranscriptDelta', {
      type: Type.Literal('transcript.text.delta'),
      delta: text('goes on from the one before'),
    }),
    shape(
      'TranscriptDone',
      { type: Type.Literal('transcript.text.done'), ...TRANSCRIPT },
      'the whole transcript',
    ),
    StreamError,
  ],
  { title: 'TranscriptEvent', description: 'data of one event' },
)

export const Speech = shape(
  'Speech',
  envelope(SpeechUsage, block('OutputAudio', 'output_audio', 'the audio')),
)

const ToolCall = shape('ToolCall', {
  id: Type.String(),
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String(),
    arguments: text('JSON as the model wrote it, which need not be valid'),
  }),
})

const CHAT = {
  ...envelope(TokenUsage, block('SpokenAnswer', 'output_audio', 'the spoken answer')),
  tool_calls: Type.Array(ToolCall, { description: 'functions the model wants to call' }),
  finish_reason: nullable(
    Type.Enum([...FINISH_REASONS]),
    'why the model ended; null when the provider does not say',
  ),
}

export const Chat = shape('Chat', CHAT, 'answer of a chat, a completion or vision')

export const ChatEvent = Type.Union(
  [
    shape('ChatDelta', { type: Type.Literal('delta'), content: text('goes on from the one before') }),
    shape('ToolCallDelta', {
      type: Type.Literal('tool_call_delta'),
      index: count('which of the calls it belongs to'),
      id: nullable(Type.String(), 'with the first piece of a call'),
      name: nullable(Type.String(), 'with the first piece of a call'),
      arguments: text('goes on from the one before'),
    }),
    shape('AudioDelta', {
      type: Type.Literal('audio_delta'),
      base64: Type.String({ contentEncoding: 'base64' }),
    }),
    shape('ChatDone', { type: Type.Literal('done'), ...CHAT }, 'the whole answer; `data: [DONE]` follows'),
    StreamError,
  ],
  { title: 'ChatEvent', description: 'data of one event' },
)

export const Embeddings = shape('Embeddings', {
  ...envelope(EmbeddingsUsage, null),
  embeddings: Type.Array(Type.Array(Type.Number()), {
    description: 'one vector per text, in order',
  }),
})

export const Images = shape(
  'Images',
  envelope(ImageUsage, block('OutputImage', 'output_image', 'the picture')),
)

export const Videos = shape('Videos', envelope(VideoUsage, block('OutputVideo', 'output_video', 'the video')))
