import { Type } from 'typebox'
import { ErrorBody } from './errors.ts'
import { amount, count, moment, shape, text } from './schema.ts'

const SPEAKER = { speaker: Type.Optional(count('where speakers were asked for')) }

const Span = { start: amount('seconds'), end: amount('seconds') }

const Word = shape('DeepgramWord', {
  word: text('without punctuation, in lower case'),
  ...Span,
  confidence: amount('1 where the provider tells none'),
  punctuated_word: text('as it is written'),
  ...SPEAKER,
})

const Paragraph = shape('DeepgramParagraph', {
  sentences: Type.Array(shape('DeepgramSentence', { text: Type.String(), ...Span })),
  num_words: count('of all sentences'),
  ...Span,
  ...SPEAKER,
})

const Alternative = shape('DeepgramAlternative', {
  transcript: Type.String(),
  confidence: amount('mean of its words; 0 where there are none'),
  words: Type.Array(Word),
  paragraphs: Type.Optional(
    shape('DeepgramParagraphs', { transcript: Type.String(), paragraphs: Type.Array(Paragraph) }),
  ),
})

const Utterance = shape('DeepgramUtterance', {
  ...Span,
  confidence: amount('mean of its words'),
  channel: count('from 0'),
  transcript: Type.String(),
  words: Type.Array(Word),
  ...SPEAKER,
  id: text('a UUID: of the request, and of the place in it'),
})

const ModelInfo = shape('DeepgramModelInfo', {
  name: text('the model'),
  version: text('always empty'),
  arch: text('the provider'),
})

const Metadata = shape('DeepgramMetadata', {
  transaction_key: Type.Literal('deprecated'),
  request_id: Type.String(),
  sha256: text('always empty'),
  created: moment('when it was answered'),
  duration: amount('seconds'),
  channels: count('that are told apart'),
  models: Type.Array(Type.String()),
  model_info: Type.Record(Type.String(), ModelInfo),
  tags: Type.Optional(Type.Array(Type.String())),
  extra: Type.Optional(Type.Record(Type.String(), Type.String())),
})

export const DeepgramTranscript = shape('DeepgramTranscript', {
  metadata: Metadata,
  results: shape('DeepgramResults', {
    channels: Type.Array(
      shape('DeepgramChannel', {
        alternatives: Type.Array(Alternative, { description: 'one' }),
        detected_language: Type.Optional(text('where it was asked for')),
        language_confidence: Type.Optional(amount('from 0 to 1')),
      }),
    ),
    utterances: Type.Optional(Type.Array(Utterance)),
  }),
})

/** With `callback`. */
export const DeepgramAccepted = shape('DeepgramAccepted', {
  request_id: text('`metadata.request_id` of the answer that the callback gets'),
})

export const DeepgramFault = shape('DeepgramError', {
  err_code: text('as `error.code`'),
  err_msg: text('as `error.message`'),
  request_id: Type.String(),
  error: ErrorBody,
})

const NAMED = {
  name: Type.String(),
  canonical_name: text('the same'),
  architecture: text('the provider; of a voice the model, of a purpose the workspace'),
  languages: Type.Array(Type.String(), { description: 'always empty' }),
  version: text('always empty'),
  uuid: text('made of the name'),
}

const HearingModel = shape('DeepgramHearingModel', {
  ...NAMED,
  batch: Type.Boolean(),
  streaming: Type.Boolean({ description: 'whether it hears live audio' }),
  formatted_output: Type.Boolean({ description: 'whether it takes `smart_format`' }),
})

const SpeakingModel = shape('DeepgramSpeakingModel', NAMED)

export const DeepgramModels = shape('DeepgramModels', {
  stt: Type.Array(HearingModel),
  tts: Type.Array(SpeakingModel),
})

export const DeepgramModel = Type.Union([HearingModel, SpeakingModel], { title: 'DeepgramModel' })
