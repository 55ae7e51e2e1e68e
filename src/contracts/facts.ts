import { type Static, type TSchema, Type } from 'typebox'
import { AUDIO_FORMATS } from './audio.ts'
import { CAPABILITIES, FEATURES, HINTS, REDACTIONS } from './calls.ts'
import { OPERATION_NAMES } from './operations.ts'
import { RESIDENCY_SHAPES } from './requirements.ts'

/** No other keys: a misspelled one is a fault, not a fact without effect. */
function strict<Properties extends Record<string, TSchema>>(properties: Properties, description?: string) {
  return Type.Object(properties, {
    additionalProperties: false,
    ...(description === undefined ? {} : { description }),
  })
}

function optional<Value extends TSchema>(value: Value, description?: string) {
  return Type.Optional(description === undefined ? value : Type.With(value, { description }))
}

const words = <const T extends readonly string[]>(list: T) =>
  Type.Array(Type.Enum<[...T]>([...list]), { uniqueItems: true })
const perFeature = <Value extends TSchema>(value: Value) =>
  strict(
    Object.fromEntries(FEATURES.map((name) => [name, optional(value, `for ${name}`)])) as PerFeature<Value>,
  )
type PerFeature<Value extends TSchema> = Record<(typeof FEATURES)[number], Type.TOptional<Value>>

const Usd = Type.Number({ minimum: 0, maximum: 1_000_000_000 })
const Count = Type.Integer({ minimum: 1, maximum: 5 * 1024 ** 3 })
const Seconds = Type.Number({ exclusiveMinimum: 0, maximum: 31_536_000 })
const Word = Type.String({ minLength: 1, maxLength: 256 })
const Speed = Type.Number({ exclusiveMinimum: 0, maximum: 100 })

/** Prices of a million tokens. */
const TOKEN_PRICES = {
  per_1m_input_tokens_usd: optional(Usd, 'USD for a million tokens that went in'),
  per_1m_output_tokens_usd: optional(Usd, 'USD for a million tokens that came out'),
  per_1m_cached_input_tokens_usd: optional(
    Usd,
    'USD for a million of the tokens that went in and that the provider had in its cache; absent: as any other',
  ),
  per_1m_cache_write_tokens_usd: optional(
    Usd,
    'USD for a million of the tokens that went in and that the provider put into its cache; absent: as any other',
  ),
  per_1m_audio_input_tokens_usd: optional(
    Usd,
    'USD for a million tokens of audio that went in; absent: as any other',
  ),
  per_1m_audio_output_tokens_usd: optional(
    Usd,
    'USD for a million tokens of audio that came out; absent: as any other',
  ),
}

const HOUR = { per_hour_usd: optional(Usd, 'USD for an hour of audio heard') }

/** Prices of tokens, by size. */
const SIZED_PRICES = {
  ...TOKEN_PRICES,
  tiers: optional(
    Type.Array(
      strict({
        over_input_tokens: Type.With(Count, {
          description: 'largest number of input tokens below this tier',
        }),
        ...TOKEN_PRICES,
      }),
    ),
    'prices of a whole call with more input tokens than `over_input_tokens`, the smallest first',
  ),
}

/** Parts of a price. Absent ones are not charged. */
const PRICE_PARTS = {
  ...HOUR,
  ...SIZED_PRICES,
  per_1k_characters_usd: optional(Usd, 'USD for 1,000 characters of text spoken'),
  minimum_seconds: optional(Type.Number({ minimum: 0, maximum: 3600 }), 'shortest audio charged'),
  billing_increment_seconds: optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 3600 }),
    'audio is charged in steps of so many seconds, rounded up',
  ),
  keyterms_minimum: optional(
    strict({
      over: Type.With(Count, { description: 'how many keyterms are not more' }),
      seconds: Type.With(Seconds, { description: 'what is charged at least' }),
    }),
    'shortest audio charged for a call with more keyterms than `over`',
  ),
  per_channel: optional(Type.Boolean(), 'with multichannel each channel is charged'),
  surcharges: optional(perFeature(Usd), 'what a feature adds to the charged seconds: 0.2 is 20 %'),
  add_ons_per_hour_usd: optional(perFeature(Usd), 'USD that a feature adds to an hour of audio heard'),
  audio_tokens_per_second: optional(
    Seconds,
    'tokens of a second of audio, by which those of speech are estimated where the provider does not tell them',
  ),
  per_image_usd: optional(Usd, 'USD for a picture'),
  per_video_second_usd: optional(Usd, 'USD for a second of video'),
  per_credit_usd: optional(
    Usd,
    'USD for a credit, of a provider that reports what it charged in credits of its own',
  ),
}

/** Parts of a price that are others for some calls; they win over those of a period. */
const PRICE_CASES = {
  by_language: optional(
    strict({
      one: optional(strict(HOUR), 'where the model is told the language'),
      several: optional(strict(HOUR), 'where it is asked for several in one recording'),
    }),
    'parts that depend on the languages that a transcription asks for',
  ),
  by_service_tier: optional(
    Type.Record(Word, strict(SIZED_PRICES)),
    'parts that depend on the tier of service that answered, by the word that the provider has for it',
  ),
}

/** A day as it is written: `2027-01-01`. */
export const Day = Type.String({ pattern: '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$' })

/** Price of a model's calls at the provider. */
export const PriceShape = strict(
  {
    ...PRICE_PARTS,
    ...PRICE_CASES,
    periods: optional(
      Type.Array(
        strict({
          from: optional(Day, 'first day of it, in UTC; absent: since ever'),
          until: optional(Day, 'last day of it; absent: for good'),
          ...PRICE_PARTS,
        }),
      ),
      'parts that are others on some days; where periods overlap, the later one of the list counts',
    ),
  },
  'what the provider charges',
)
export type Price = Readonly<Static<typeof PriceShape>>

/** Limits of a model; a call over one of them is not tried there. What is absent is not limited, or not known. */
export const ModelLimitsShape = strict(
  {
    max_audio_bytes: optional(Count, 'largest audio, after decoding'),
    max_audio_seconds: optional(Seconds, 'longest audio'),
    max_audio_seconds_with: optional(perFeature(Seconds), 'longest audio when a feature is asked for'),
    audio_formats: optional(words(AUDIO_FORMATS), 'what the audio may be, by its bytes'),
    redactions: optional(words(REDACTIONS), 'what can be redacted; absent: all'),
    max_channels: optional(Count, 'of the audio, with multichannel'),
    keyterms: optional(
      strict({
        max_items: optional(Count, 'how many terms'),
        max_item_characters: optional(Count, 'of each term'),
        max_item_words: optional(Count, 'of each term'),
        max_words: optional(Count, 'of all terms together'),
        forbidden: optional(Word, 'characters that no term may hold'),
      }),
      'limits of keyterms',
    ),
    max_input_characters: optional(Count, 'of a speech input, Unicode code points'),
    speech_formats: optional(Type.Array(Word), 'what speech may be answered as'),
    speed: optional(
      strict({
        min: Type.With(Speed, { description: 'slowest' }),
        max: Type.With(Speed, { description: 'fastest' }),
      }),
      'of the voice; 1 is normal',
    ),
    voices: optional(Type.Array(Word), 'names of its voices'),
    voice_pattern: optional(
      Type.String({ format: 'regex', minLength: 1, maxLength: 256 }),
      'regular expression of what a voice is called, for models whose voices cannot be listed',
    ),
    json_schema: optional(
      Type.Boolean(),
      'whether a chat may ask for an answer by a JSON schema; absent: it may',
    ),
    max_inputs: optional(Count, 'texts of one embeddings call'),
    max_dimensions: optional(Type.Integer({ minimum: 0 }), 'of an embedding; 0: the parameter is not taken'),
    max_images: optional(Count, 'of one call'),
    image_sizes: optional(Type.Array(Word), 'sizes that can be asked for'),
    image_formats: optional(Type.Array(Word), 'formats that can be asked for'),
    video_sizes: optional(Type.Array(Word), 'sizes that can be asked for'),
    video_seconds: optional(Type.Array(Count), 'durations that can be asked for, seconds'),
  },
  'limits of the model',
)
export type ModelLimits = Readonly<Static<typeof ModelLimitsShape>>

/** Limits of live sessions. Beside them only those of keyterms, redactions and channels hold for live audio. */
const LiveLimitsShape = strict(
  {
    max_session_seconds: optional(Seconds, 'longest connection; it is changed for another before that'),
    max_sessions: optional(Count, 'sessions that the provider allows a credential at once'),
    max_channels: optional(Count, 'of the audio'),
    redactions: optional(words(REDACTIONS), 'what can be redacted; absent: all'),
    keyterms: ModelLimitsShape.properties.keyterms,
  },
  'limits of live sessions',
)

/**
 * Facts that a model keeps when it transcribes live audio. From its other facts it takes over only the languages in
 * which features and hints work: they can only take away. A model that is for live audio alone has an empty list of
 * operations.
 */
export const LiveFactsShape = strict(
  {
    features: Type.With(words(FEATURES), { description: 'what it keeps of what a live session may require' }),
    hints: Type.With(words(HINTS), { description: 'what it heeds' }),
    conflicts: optional(Type.Array(words([...FEATURES, ...HINTS])), 'as of the model'),
    limits: LiveLimitsShape,
    price: optional(PriceShape, 'what the provider charges for live audio; absent: unknown'),
    bills: optional(
      Type.Enum(['audio', 'session']),
      'seconds of audio, the default, or of the open connection',
    ),
    replay_speed: optional(Speed, 'how fast audio may be sent, of real time; absent: 1.25'),
  },
  'what the model keeps of live audio; absent: it does not transcribe live',
)
export type LiveFacts = Readonly<Static<typeof LiveFactsShape>>

/** Facts of a model, in the built-in tables and in the configuration file alike. */
export const FACT_SHAPES = {
  capabilities: Type.With(words(CAPABILITIES), { description: 'what the model can do' }),
  operations: Type.With(words(OPERATION_NAMES), {
    description:
      'operations that the model is for; absent: all that its capabilities allow; empty: live audio alone',
  }),
  features: Type.With(words(FEATURES), { description: 'what it keeps of what a transcription may require' }),
  translation_features: Type.With(words(FEATURES), { description: 'the same of a translation' }),
  hints: Type.With(words(HINTS), { description: 'what it heeds' }),
  conflicts: Type.Array(words([...FEATURES, ...HINTS]), {
    description: 'sets that cannot go together: features are refused, a hint gives way',
  }),
  languages: strict(
    Object.fromEntries(
      [...FEATURES, ...HINTS].map((name) => [name, optional(Type.Array(Word), `for ${name}`)]),
    ),
    'languages in which a feature or hint works, ISO 639-1',
  ),
  limits: ModelLimitsShape,
  price: PriceShape,
  translates: Type.Boolean({ description: 'the model translates audio to English' }),
  live: LiveFactsShape,
  ...RESIDENCY_SHAPES,
}
