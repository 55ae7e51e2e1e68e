import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { FACT_SHAPES } from '../schema/facts.ts'
import type { ModelFacts } from '../schema/provider.ts'

const FOLDER = new URL('models/', import.meta.url)

/** The built-in tables, by kind and model: each file of the folder is the table of the kind that it is named after. */
export const TABLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = Object.fromEntries(
  readdirSync(FOLDER)
    .toSorted()
    .map((file) => [basename(file, '.json'), readTable(file)]),
)

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

function readTable(file: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as Record<string, unknown>
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
