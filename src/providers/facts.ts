import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { Day, FACT_SHAPES } from '../schema/facts.ts'
import type { ModelFacts } from '../schema/provider.ts'

const FOLDER = new URL('models/', import.meta.url)

/** The built-in tables, by kind and model: each file of the folder is the table of the kind that it is named after. */
export const TABLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = Object.fromEntries(
  readdirSync(FOLDER)
    .toSorted()
    .map((file) => [basename(file, '.json'), readTable(file)]),
)

const { operations, translation_features, conflicts, languages, price, ...always } = FACT_SHAPES

const DatedFacts = Type.Object(
  {
    as_of: Type.With(Day, { description: 'day on which the facts were looked up' }),
    ends_on: Type.Optional(Type.With(Day, { description: 'announced last day of the model' })),
    source: Type.String({ minLength: 1 }),
    note: Type.Optional(
      Type.String({ minLength: 1, description: 'what whoever routes to it has to know, in one sentence' }),
    ),
    aliases: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: 'other names of it, and models equal in all of this',
      }),
    ),
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
  /** What whoever routes to it has to know; null: nothing in particular. */
  readonly note: string | null
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
  return FACTS.get(`${kind} ${model}`) ?? FACTS.get(`${kind} ${withoutDate(model)}`)
}

/** Where a model of the tables stands in time; undefined for one that they lack. */
export function datedModel(kind: string, model: string): DatedModel | undefined {
  const named = (name: string) => DATED.find((one) => one.kind === kind && one.model === name)
  return named(model) ?? named(withoutDate(model))
}

function withoutDate(model: string): string {
  return model.replace(/-\d{4}-\d{2}-\d{2}$/, '')
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
      const {
        as_of: asOf,
        ends_on: endsOn = null,
        note = null,
        source: _source,
        aliases = [],
        ...rest
      } = entry
      Object.freeze(rest)
      for (const name of [model, ...aliases]) {
        if (facts.has(`${kind} ${name}`)) throw new Error(`${name} stands twice in the table of ${kind}`)
        dated.push({ kind, model: name, asOf, endsOn, note })
        facts.set(`${kind} ${name}`, rest as ModelFacts)
      }
    }
  }
  return facts
}
