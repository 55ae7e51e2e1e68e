import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { AUDIO_FORMATS } from '../schema/audio.ts'
import { CAPABILITIES, FEATURES, HINTS } from '../schema/calls.ts'
import type { ModelFacts, Provider } from '../schema/provider.ts'
import models from './models.json' with { type: 'json' }
import { openai } from './openai.ts'
import { openaiCompatible } from './openai-compatible.ts'
import { sandbox } from './sandbox.ts'

/** Every protocol that Larkway speaks, by the `kind` that the configuration names it with. */
export const PROVIDERS: ReadonlyMap<string, Provider> = new Map(
  [openai, openaiCompatible, sandbox].map((provider) => [provider.kind, provider]),
)

const amount = Type.Number({ minimum: 0 })
const strict = { additionalProperties: false }
const words = <const T extends readonly string[]>(list: T) => Type.Array(Type.Enum([...list]))

const DatedFacts = Type.Object(
  {
    as_of: Type.String({
      pattern: '^\\d{4}-\\d{2}-\\d{2}$',
      description: 'day on which the facts were looked up',
    }),
    ends_on: Type.Optional(
      Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'announced last day of the model' }),
    ),
    source: Type.String({ minLength: 1 }),
    capabilities: words(CAPABILITIES),
    features: words(FEATURES),
    translation_features: Type.Optional(words(FEATURES)),
    hints: words(HINTS),
    limits: Type.Object(
      {
        max_audio_bytes: Type.Optional(amount),
        max_audio_seconds: Type.Optional(amount),
        audio_formats: Type.Optional(words(AUDIO_FORMATS)),
        max_input_characters: Type.Optional(amount),
        speech_formats: Type.Optional(Type.Array(Type.String())),
        speed: Type.Optional(Type.Object({ min: amount, max: amount }, strict)),
        voices: Type.Optional(Type.Array(Type.String())),
      },
      strict,
    ),
    price: Type.Union([
      Type.Null(),
      Type.Object(
        {
          per_hour_usd: Type.Optional(amount),
          minimum_seconds: Type.Optional(amount),
          per_1k_characters_usd: Type.Optional(amount),
        },
        strict,
      ),
    ]),
    translates: Type.Boolean(),
  },
  strict,
)

const FACTS = readFacts()

/**
 * The dated facts of a model; a dated snapshot (`gpt-4o-mini-tts-2025-12-15`) has those of its model.
 * Undefined for a model that the table lacks: what it can do is then the configuration's to say, as for most
 * of `openai-compatible`.
 */
export function factsOf(kind: string, model: string): ModelFacts | undefined {
  return FACTS.get(`${kind} ${model}`) ?? FACTS.get(`${kind} ${model.replace(/-\d{4}-\d{2}-\d{2}$/, '')}`)
}

/**
 * @throws AssertError when models.json holds what selection would not understand, a misspelled feature for
 * one
 */
function readFacts(): ReadonlyMap<string, ModelFacts> {
  const facts = new Map<string, ModelFacts>()
  for (const [kind, byModel] of Object.entries<Record<string, unknown>>(models)) {
    for (const [model, dated] of Object.entries(byModel)) {
      Value.Assert(DatedFacts, dated)
      const { as_of: _asOf, ends_on: _endsOn, source: _source, ...rest } = dated
      facts.set(`${kind} ${model}`, Object.freeze(rest as ModelFacts))
    }
  }
  return facts
}
