import { Type } from 'typebox'
import { Details } from './errors.ts'
import { amount, count, nullable, shape, text } from './schema.ts'

export const AssemblyAiFault = shape('AssemblyAiError', {
  error: text("Larkway's code, and what is wrong"),
  code: text('the code alone'),
  param: nullable(Type.String(), 'the field at fault'),
  request_id: Type.String(),
  details: Details,
})

export const AssemblyAiUpload = shape('AssemblyAiUpload', {
  upload_url: text('for `audio_url`, with keys of the same workspace, for 24 hours'),
})

const Span = { start: count('ms'), end: count('ms'), confidence: amount('1 where the provider tells none') }
const Speaker = nullable(Type.String(), '`A` and so on; after the channel where there are several')
const CHANNEL = { channel: Type.Optional(text('from `1`')) }

const Word = shape('AssemblyAiWord', { text: Type.String(), ...Span, speaker: Speaker, ...CHANNEL })

const Part = { text: Type.String(), ...Span, words: Type.Array(Word) }

const Utterance = shape('AssemblyAiUtterance', {
  ...Part,
  speaker: text('the same; `A` where speakers are not separated'),
  ...CHANNEL,
})

const flag = (description: string) => Type.Boolean({ description })
const never = (value: boolean) => Type.Literal(value)

export const AssemblyAiTranscript = shape('AssemblyAiTranscript', {
  id: text('of the job'),
  status: Type.Enum(['queued', 'processing', 'completed', 'error']),
  audio_url: text('as it was sent'),
  text: nullable(Type.String(), 'when it is completed'),
  words: nullable(Type.Array(Word), 'when it is completed'),
  utterances: nullable(Type.Array(Utterance), 'with `speaker_labels` or `multichannel`'),
  confidence: nullable(Type.Number(), 'mean of its words'),
  audio_duration: nullable(Type.Number(), 'seconds'),
  error: Type.Optional(text("Larkway's code, and why there is no transcript")),
  language_code: nullable(Type.String(), 'heard, or asked for'),
  language_confidence: nullable(Type.Number(), 'where the provider tells it'),
  language_codes: Type.Null(),
  language_confidence_threshold: Type.Null(),
  language_detection: flag('as asked'),
  language_model: Type.Literal('assemblyai_default'),
  acoustic_model: Type.Literal('assemblyai_default'),
  speech_model: nullable(Type.String(), 'as asked'),
  speech_models: nullable(Type.Array(Type.String()), 'as asked'),
  speech_model_used: Type.Optional(text('the model that heard, when it is completed')),
  punctuate: never(true),
  format_text: flag('as asked'),
  filter_profanity: flag('as asked'),
  multichannel: flag('as asked'),
  dual_channel: flag('the same'),
  speaker_labels: flag('as asked'),
  speakers_expected: nullable(Type.Integer(), 'as asked'),
  keyterms_prompt: Type.Array(Type.String()),
  redact_pii: flag('as asked'),
  webhook_url: nullable(Type.String(), 'as asked, without credentials'),
  webhook_status_code: Type.Null(),
  webhook_auth: flag('whether the webhook gets a header of its own'),
  auto_highlights: never(false),
  summarization: never(false),
  throttled: never(false),
})

export const AssemblyAiWordSearch = shape('AssemblyAiWordSearch', {
  id: text('of the transcript'),
  total_count: count('times that any of them is said'),
  matches: Type.Array(
    shape('AssemblyAiWordMatch', {
      text: text('what was searched for'),
      count: count('times that it is said'),
      timestamps: Type.Array(Type.Array(Type.Integer()), { description: 'start and end of each, ms' }),
      indexes: Type.Array(Type.Integer(), { description: 'places of its first words in `words`' }),
    }),
  ),
})

export const AssemblyAiTranscripts = shape('AssemblyAiTranscripts', {
  page_details: shape('AssemblyAiPage', {
    limit: count('as asked'),
    result_count: count('transcripts on this page: there may be fewer, and older ones all the same'),
    current_url: text('of this page'),
    prev_url: nullable(Type.String(), 'of the page of older transcripts; null: there are none'),
    next_url: nullable(Type.String(), 'of the page of newer transcripts'),
  }),
  transcripts: Type.Array(
    shape('AssemblyAiListed', {
      id: text('of the job'),
      resource_url: text('of the transcript'),
      status: Type.Enum(['queued', 'processing', 'completed', 'error']),
      created: text('in UTC'),
      completed: nullable(Type.String(), 'in UTC, when it is completed'),
      audio_url: text('as it was sent'),
      error: nullable(Type.String(), "Larkway's code, and why there is no transcript"),
    }),
  ),
})

const WHOLE = {
  id: text('of the transcript'),
  confidence: amount('mean of its words'),
  audio_duration: amount('seconds'),
  speech_model_used: text('the model that heard'),
}

export const AssemblyAiSentences = shape('AssemblyAiSentences', {
  ...WHOLE,
  sentences: Type.Array(shape('AssemblyAiSentence', { ...Part, speaker: Speaker })),
})

export const AssemblyAiParagraphs = shape('AssemblyAiParagraphs', {
  ...WHOLE,
  paragraphs: Type.Array(shape('AssemblyAiParagraph', Part)),
})
