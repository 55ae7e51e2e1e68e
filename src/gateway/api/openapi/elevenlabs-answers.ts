import { Type } from 'typebox'
import { ErrorBody } from './errors.ts'
import { amount, count, nullable, shape, text } from './schema.ts'

export const ElevenLabsFault = shape('ElevenLabsError', {
  detail: shape('ElevenLabsErrorDetail', {
    code: text('as `error.code`'),
    status: text('the same'),
    message: text('as `error.message`'),
    param: nullable(Type.String(), 'the field at fault'),
    request_id: Type.String(),
  }),
  error: ErrorBody,
})

const Word = shape('ElevenLabsWord', {
  text: Type.String(),
  start: amount('seconds'),
  end: amount('seconds'),
  type: Type.Enum(['word', 'spacing', 'audio_event'], {
    description: '`audio_event`: a sound, with `tag_audio_events`',
  }),
  logprob: Type.Number({ description: '0 where the provider tells none' }),
  speaker_id: Type.Optional(text('`speaker_0` and so on, where speakers were asked for')),
  channel_index: Type.Optional(count('with `multichannel_output_style: combined`')),
  characters: Type.Optional(
    Type.Array(
      shape('ElevenLabsCharacter', { text: Type.String(), start: amount('seconds'), end: amount('seconds') }),
      { description: 'of words, with `timestamps_granularity: character`' },
    ),
  ),
})

const CHUNK = {
  language_code: text('ISO 639-1, else 639-3; empty where the provider does not say'),
  language_probability: amount('1 where the provider tells none'),
  text: Type.String(),
  words: Type.Array(Word, { description: 'none with `timestamps_granularity: none`' }),
}

const FACTS = { transcription_id: text('ID of the request'), audio_duration_secs: amount('seconds') }

export const ElevenLabsTranscript = Type.Union(
  [
    shape('ElevenLabsSingle', { ...CHUNK, ...FACTS }),
    shape('ElevenLabsMultichannel', {
      transcripts: Type.Array(shape('ElevenLabsChannel', { ...CHUNK, channel_index: count('from 0') })),
      ...FACTS,
    }),
  ],
  { title: 'ElevenLabsTranscript', description: 'a transcript, or one for each channel' },
)

/** With `webhook: true`. */
export const ElevenLabsAccepted = shape('ElevenLabsAccepted', {
  message: Type.String(),
  request_id: text('`data.request_id` of the event'),
  transcription_id: text('the same'),
})

export const ElevenLabsVoice = shape('ElevenLabsVoice', {
  voice_id: text('what goes into the path of a request for speech'),
  name: text('the same'),
  category: Type.Literal('premade'),
  labels: Type.Object({}),
  available_for_tiers: Type.Array(Type.String(), { maxItems: 0 }),
  high_quality_base_model_ids: Type.Array(Type.String(), { description: 'models that have it' }),
})

export const ElevenLabsVoices = shape('ElevenLabsVoices', { voices: Type.Array(ElevenLabsVoice) })

export const ElevenLabsVoicesPage = shape('ElevenLabsVoicesPage', {
  voices: Type.Array(ElevenLabsVoice),
  has_more: Type.Literal(false),
  total_count: count('of all voices'),
  next_page_token: Type.Null(),
})

export const ElevenLabsModels = Type.Array(
  shape('ElevenLabsModel', {
    model_id: text('a purpose, or a model of the routes'),
    name: text('the same'),
    description: text('the provider; of a purpose the workspace'),
    can_do_text_to_speech: Type.Boolean(),
    can_do_voice_conversion: Type.Literal(false),
    can_be_finetuned: Type.Literal(false),
    languages: Type.Array(Type.Object({}), { maxItems: 0 }),
    can_use_style: Type.Literal(false),
    can_use_speaker_boost: Type.Literal(false),
    serves_pro_voices: Type.Literal(false),
    requires_alpha_access: Type.Literal(false),
    concurrency_group: Type.Literal('standard'),
    token_cost_factor: Type.Literal(1),
    model_rates: shape('ElevenLabsModelRates', { character_cost_multiplier: Type.Literal(1) }),
    maximum_text_length_per_request: count('characters that some entry takes'),
    max_characters_request_free_user: count('the same'),
    max_characters_request_subscribed_user: count('the same'),
  }),
  { title: 'ElevenLabsModels' },
)

const Alignment = nullable(
  shape('ElevenLabsAlignment', {
    characters: Type.Array(Type.String()),
    character_start_times_seconds: Type.Array(Type.Number(), { description: 'as many as characters' }),
    character_end_times_seconds: Type.Array(Type.Number(), { description: 'as many as characters' }),
  }),
  'when each character is spoken; null: the provider tells none of them',
)

export const ElevenLabsTimedSpeech = shape('ElevenLabsTimedSpeech', {
  audio_base64: Type.String({ contentEncoding: 'base64' }),
  alignment: Type.With(Alignment, { description: 'of the text as it was sent' }),
  normalized_alignment: Type.With(Alignment, { description: 'of the text as it is read' }),
})
