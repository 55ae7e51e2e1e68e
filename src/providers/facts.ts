import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { FACT_SHAPES } from '../schema/facts.ts'
import type { ModelFacts } from '../schema/provider.ts'
import anthropic from './models/anthropic.json' with { type: 'json' }
import assemblyai from './models/assemblyai.json' with { type: 'json' }
import deepgram from './models/deepgram.json' with { type: 'json' }
import elevenlabs from './models/elevenlabs.json' with { type: 'json' }
import gemini from './models/gemini.json' with { type: 'json' }
import groq from './models/groq.json' with { type: 'json' }
import openai from './models/openai.json' with { type: 'json' }
import openaiCompatible from './models/openai-compatible.json' with { type: 'json' }
import runway from './models/runway.json' with { type: 'json' }
import sandbox from './models/sandbox.json' with { type: 'json' }

/** The built-in tables, by kind and model. */
export const TABLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  anthropic,
  assemblyai,
  deepgram,
  elevenlabs,
  gemini,
  groq,
  openai,
  'openai-compatible': openaiCompatible,
  runway,
  sandbox,
}

const Day = '^\\d{4}-\\d{2}-\\d{2}$'
const { operations, translation_features, conflicts, languages, price, ...always } = FACT_SHAPES

const DatedFacts = Type.Object(
  {
    as_of: Type.String({ pattern: Day, description: 'day on which the facts were looked up' }),
    ends_on: Type.Optional(Type.String({ pattern: Day, description: 'announced last day of the model' })),
    source: Type.String({ minLength: 1 }),
    ...always,
    price: Type.Union([Type.Null(), price]),
    operations: Type.Optional(operations),
    translation_features: Type.Optional(translation_features),
    conflicts: Type.Optional(conflicts),
    languages: Type.Optional(languages),
  },
  { additionalProperties: false },
)

/** Where an entry of the tables stands in time. */
export interface DatedModel {
  readonly kind: string
  readonly model: string
  /** Day on which the facts were looked up. */
  readonly asOf: string
  /** Announced last day; null: none. */
  readonly endsOn: string | null
}

const dated: DatedModel[] = []
const FACTS = readFacts()
/** Every model of the built-in tables, in their order. */
export const DATED: readonly DatedModel[] = dated

/**
 * The dated facts of a model; a dated snapshot (`gpt-4o-mini-tts-2025-12-15`) has those of its model.
 * Undefined for a model that the table lacks: what it can do is then the configuration's to say, as for most
 * of `openai-compatible`.
 */
export function factsOf(kind: string, model: string): ModelFacts | undefined {
  return FACTS.get(`${kind} ${model}`) ?? FACTS.get(`${kind} ${model.replace(/-\d{4}-\d{2}-\d{2}$/, '')}`)
}

/** @throws AssertError when a table holds what selection would not understand, a misspelled feature for one */
function readFacts(): ReadonlyMap<string, ModelFacts> {
  const facts = new Map<string, ModelFacts>()
  for (const [kind, byModel] of Object.entries(TABLES)) {
    for (const [model, entry] of Object.entries(byModel)) {
      Value.Assert(DatedFacts, entry)
      const { as_of: asOf, ends_on: endsOn = null, source: _source, ...rest } = entry
      dated.push({ kind, model, asOf, endsOn })
      facts.set(`${kind} ${model}`, Object.freeze(rest as ModelFacts))
    }
  }
  return facts
}
