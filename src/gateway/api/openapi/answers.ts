import { type TSchema, Type } from 'typebox'
import { CAPABILITIES } from '../../../contracts/calls.ts'
import { SCOPES } from '../../../contracts/catalog.ts'
import { FINISH_REASONS } from '../../../contracts/chat.ts'
import { JOB_STATUSES, QUEUE_MODES } from '../../../contracts/jobs.ts'
import { ErrorBody } from './errors.ts'
import { amount, count, lines, moment, nullable, shape, text } from './schema.ts'

const PURPOSE_SOURCES = [
  ...['none', 'body', 'header', 'purpose_unknown', 'purpose_unavailable', 'fallback_purpose_exhausted'],
]

const POLICY_VERSION_ID = Type.String({
  pattern: '^pv_[0-9a-f]{16}$',
  description: 'version of the route used, also in `X-LK-Policy-Version-Id`',
})

/** Effect of the purpose, in every envelope. */
const PURPOSE = {
  lk_requested_purpose: nullable(Type.String(), 'the purpose that was sent'),
  lk_applied_purpose: nullable(Type.String(), 'the purpose whose entry answered; null: the default routing'),
  lk_purpose_source: Type.Enum(PURPOSE_SOURCES, {
    description: 'where the purpose came from, or why it wasn’t applied',
  }),
}

const TokensTotal = nullable(count('tokens'), 'input and output; null when the provider does not say')

const TranscriptionUsage = shape('TranscriptionUsage', {
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
  cached_input_tokens: Type.Optional(count('of the input, from the cache of the provider')),
  audio_input_tokens: Type.Optional(count('of the input, of audio')),
  audio_output_tokens: Type.Optional(count('of the output, of audio')),
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

const UTTERANCE = {
  speaker: Type.Optional(text('`speaker_0` and so on, with diarization')),
  channel: Type.Optional(count('from 0, with multichannel')),
  confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
}

const Segment = shape('Segment', {
  id: count('from 0'),
  start: amount('seconds from the beginning of the audio'),
  end: amount('seconds'),
  text: Type.String(),
  language: Type.Optional(text('of a part of long audio, where it is not that of the whole')),
  ...UTTERANCE,
})

const Word = shape('Word', {
  word: Type.String(),
  start: amount('seconds from the beginning of the audio'),
  end: amount('seconds'),
  ...UTTERANCE,
})

const TranscriptPart = shape('TranscriptPart', {
  start: amount('seconds of the audio, where the stretch begins that is its own'),
  end: amount('seconds: where it ends'),
  provider: Type.String(),
  model: Type.String(),
  cost_usd: nullable(amount('US dollars'), 'null when it is not known'),
  attempts: count('how many entries were asked, one after the other'),
  ends_in_silence: Type.Boolean({
    description: 'false: it was cut within sound, and the words around the cut were compared',
  }),
})

const TRANSCRIPT = {
  ...envelope(TranscriptionUsage, null),
  status: Type.Literal('succeeded'),
  language: nullable(Type.String(), 'ISO 639-1, else 639-3'),
  language_confidence: nullable(Type.Number({ minimum: 0, maximum: 1 }), 'as the provider says'),
  duration_seconds: nullable(amount('seconds'), 'of the audio'),
  segments: Type.Array(Segment, { description: 'if requested' }),
  words: Type.Array(Word, { description: 'if requested' }),
  parts: Type.Optional(
    Type.Array(TranscriptPart, { description: 'of audio that was too long or too large for every entry' }),
  ),
  skipped_silence_seconds: Type.Optional(
    amount('seconds of silence that were left out, where that was asked for'),
  ),
}

export const Transcript = shape('Transcript', TRANSCRIPT, 'answer of a transcription or translation')

/** Sent when a stream breaks off, since the status is out by then. */
export const StreamError = shape(
  'StreamError',
  { type: Type.Literal('error'), error: ErrorBody },
  'no end follows',
)

export const TranscriptEvent = Type.Union(
  [
    shape('TranscriptDelta', {
      type: Type.Literal('transcript.text.delta'),
      delta: text('continues the one before'),
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
    shape('ChatDelta', { type: Type.Literal('delta'), content: text('continues the one before') }),
    shape('ToolCallDelta', {
      type: Type.Literal('tool_call_delta'),
      index: count('which of the calls it belongs to'),
      id: nullable(Type.String(), 'with the first piece of a call'),
      name: nullable(Type.String(), 'with the first piece of a call'),
      arguments: text('continues the one before'),
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
  embeddings: Type.Array(Type.Array(Type.Number()), { description: 'one vector per text, in order' }),
})

export const Images = shape(
  'Images',
  envelope(ImageUsage, block('OutputImage', 'output_image', 'the picture')),
)

export const Videos = shape('Videos', envelope(VideoUsage, block('OutputVideo', 'output_video', 'the video')))

const Limits = shape('Limits', {
  max_request_body_bytes: count('raw bytes of a body'),
  max_audio_bytes: count('bytes of audio after decoding'),
  max_audio_url_bytes: count('bytes of audio fetched by URL'),
  max_upload_bytes_per_workspace: count('bytes of all resumable uploads of the workspace together'),
  max_audio_seconds: nullable(count('seconds'), 'longest audio; null: no limit'),
  queue_max_payload_bytes: count('raw bytes of `payload`'),
  sync_idempotency_ttl_seconds: count('how long an idempotency key is remembered'),
  stt_job_result_ttl_seconds: count('how long a job is kept after its end'),
  live_max_session_seconds: count('longest live session'),
  live_idle_seconds: count('how long a live session continues without audio'),
  live_buffer_seconds: count('audio that a live session keeps until it is settled'),
  live_max_message_bytes: count('bytes of a message of a live session'),
  live_max_waiting_characters: count('text of a live session that is not spoken yet'),
  live_max_sessions_per_key: count('live sessions of a key at once'),
  live_max_sessions_per_workspace: count('live sessions of a workspace at once'),
})

const Percentiles = shape(
  'LatencyPercentiles',
  { p50: count('milliseconds'), p95: count('milliseconds'), p99: count('milliseconds') },
  'to 6.25 %',
)

const USAGE_SUMS = {
  calls: count('records: calls, jobs and live sessions'),
  errors: count('records whose outcome is an error'),
  unpriced: count('records that succeeded, and whose price or quantity is not known'),
  estimated: count('records without a known end; quantities and cost are estimated'),
  replayed: count('answers that were given before; nothing was charged'),
  cost_usd: amount('USD, exact to the sixth decimal'),
  audio_seconds: amount('seconds of audio read, or of live audio'),
  billable_audio_seconds: amount('seconds that the price counts'),
  video_seconds: amount('seconds of video made'),
  input_tokens: count('tokens read'),
  output_tokens: count('tokens written'),
  characters: count('characters of text spoken or translated'),
  images: count('images made'),
  credits: amount('credits of providers'),
  total_ms: nullable(Percentiles, 'from the request to the end of the answer; null by end user'),
  first_ms: nullable(Percentiles, 'to the first byte of the answer; null where none is known'),
}

export const Usage = shape('Usage', {
  from: moment('beginning, at a full hour or day'),
  to: moment('end, exclusive'),
  step: Type.Enum(['none', 'hour', 'day']),
  by: lines('dimensions'),
  sort: text('measure that groups are ordered by'),
  complete_until: moment('what ended later may be missing'),
  groups: count('groups that there are'),
  offset: count('groups left out at the beginning'),
  limit: count('most groups told of'),
  truncated: Type.Boolean({ description: 'there are more groups than those told of' }),
  data: Type.Array(
    shape('UsageGroup', {
      time: Type.Optional(moment('when its hour or day begins, with `step`')),
      ...USAGE_SUMS,
    }),
    { description: 'groups, each with its value of every dimension asked by' },
  ),
  total: shape('UsageTotal', USAGE_SUMS, 'of all groups, told of or not'),
})

export const Me = shape('Me', {
  workspace: Type.Object({
    id: Type.String(),
    name: Type.String(),
    plan: nullable(Type.String(), 'null: everything is included'),
  }),
  app: Type.Object({ id: Type.String() }),
  key: Type.Object({
    id: Type.String(),
    name: Type.String(),
    prefix: text('the first characters of the key'),
    scopes: Type.Array(Type.Enum([...SCOPES])),
  }),
  route: Type.Object({
    name: Type.String(),
    policy_version_id: POLICY_VERSION_ID,
    capabilities: Type.Array(Type.Enum([...CAPABILITIES])),
  }),
  purposes: Type.Array(
    shape('Purpose', {
      purpose: text('the label'),
      description: Type.String(),
      is_enabled: Type.Boolean({
        description: 'it works for this key: enabled, and bound to a published route that the plan allows',
      }),
    }),
  ),
  routing_contexts: Type.Array(
    shape('RoutingContext', {
      context: text('`default`, or the capability that a route of its own serves'),
      route: Type.String(),
      policy_version_id: POLICY_VERSION_ID,
      purposes: lines('labels that would replace that route'),
    }),
  ),
  limits: Limits,
  billing: Type.Object({
    credits_usd: nullable(Type.Number(), 'left; null for a workspace that was never given any'),
    budget_usd: nullable(amount('USD'), "per month, the key's or else the workspace's; null: none"),
    spent_usd: nullable(amount('USD'), 'this month'),
  }),
  models: Type.Object({
    issued_at: nullable(Type.String(), 'when the facts and prices were issued by which models are known'),
  }),
})

const ENDINGS = ['succeeded', 'failed', 'cancelled'] as const

const jobId = text('`tj_…`')
const status = Type.Enum([...JOB_STATUSES])

/** Members of a job that answer its submission, and stand at its front. */
const SUBMISSION = {
  job_id: jobId,
  status,
  poll_url: Type.String({ format: 'uri-reference', description: 'path of the job' }),
  created_at: moment('when it was acknowledged'),
}

export const SubmittedJob = shape('SubmittedJob', SUBMISSION)

export const TranscriptionJob = shape('TranscriptionJob', {
  ...SUBMISSION,
  started_at: nullable(moment('when'), 'when it was first taken up'),
  completed_at: nullable(moment('when'), 'when it ended'),
  expires_at: nullable(
    moment('when'),
    'from when on it is 404, with every URL of it; null until it has ended',
  ),
  cancel_requested: Type.Boolean(),
  attempts: count('how often it was taken up'),
  progress: Type.Union(
    [Type.Object({ done: count('parts that were heard'), total: count('parts of the audio') }), Type.Null()],
    { description: 'while audio is heard in parts' },
  ),
  error: Type.Union([ErrorBody, Type.Null()], { description: 'for failed jobs' }),
  result: Type.Union([Transcript, Type.Null()], { description: 'up to 256 KiB; larger results have a URL' }),
  result_url: nullable(
    Type.String({ format: 'uri-reference' }),
    'opens the result without a key, for 15 minutes, and no longer than there is the job',
  ),
  result_url_expires_at: nullable(moment('when'), 'each look makes a new URL'),
  ...PURPOSE,
  lk_purpose_source: nullable(PURPOSE.lk_purpose_source, 'null until it has been routed'),
  policy_version_id: nullable(POLICY_VERSION_ID, 'null until it has been routed'),
})

export const QueuedJob = shape('QueuedJob', {
  queued: Type.Literal(true),
  job: Type.Object({
    id: text('`qj_…`'),
    endpoint: Type.String(),
    mode: Type.Enum([...QUEUE_MODES]),
    status: Type.Literal('queued'),
    created_at: moment('when it was acknowledged'),
  }),
  warnings: lines('what of the request and its payload was left out'),
})

export const AudioUrlDomains = shape('AudioUrlDomains', {
  domains: lines('as they are kept: lower case, IDNA-encoded, each once'),
  max_domains: Type.Literal(20),
})

export const Webhook = shape('Webhook', {
  url: Type.String({ format: 'uri', description: 'the URL that is called' }),
  created_at: moment('when it was set'),
})

export const NewWebhook = shape('NewWebhook', {
  url: Type.String({ format: 'uri', description: 'the URL that is called' }),
  signing_secret: text('shown this once'),
  created_at: moment('when it was set'),
})

export const RemovedWebhook = shape('RemovedWebhook', {
  deleted: Type.Boolean({ description: 'false if there was none' }),
})

export const JobEnded = shape(
  'JobEnded',
  {
    type: Type.Enum([...ENDINGS.map((status) => `transcription.job.${status}`), 'webhook.test'], {
      description: '`webhook.test` is sent by `larkway webhooks test`, without a job',
    }),
    job_id: nullable(jobId, 'null in a test'),
    status: nullable(Type.Enum([...ENDINGS]), 'null in a test'),
    occurred_at: moment('when the job ended'),
  },
  'never holds the transcript: fetch the job',
)
