import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Route } from '../contracts/catalog.ts'
import { Day, FACT_SHAPES } from '../contracts/facts.ts'
import type { ModelFacts } from '../contracts/provider.ts'

const FOLDER = new URL('models/', import.meta.url)

type Table = Readonly<Record<string, unknown>>

/**
 * The built-in tables, by kind and model: each file of the folder is the table of the kind that it is named after. One
 * is read when it is asked for first: reading and checking all of them was a tenth of a start.
 */
export const TABLES: Readonly<Record<string, Table>> = lazyTables()

function lazyTables(): Record<string, Table> {
  const tables: Record<string, Table> = {}
  for (const file of readdirSync(FOLDER).toSorted()) {
    let table: Table | null = null
    const get = () => {
      table ??= JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as Table
      return table
    }
    Object.defineProperty(tables, basename(file, '.json'), { enumerable: true, get })
  }
  return tables
}

const { price, operations, translation_features, conflicts, languages, live, ...others } = FACT_SHAPES
const { region, retention, training, ...always } = others

const DatedFacts = Type.Object(
  {
    as_of: Type.With(Day, { description: 'day on which the facts were looked up' }),
    ends_on: Type.Optional(Type.With(Day, { description: 'announced last day of the model' })),
    deprecated_on: Type.Optional(
      Type.With(Day, { description: 'day from which on the provider advises against it' }),
    ),
    successor: Type.Optional(
      Type.String({ minLength: 1, description: 'model that the provider names in its place' }),
    ),
    source: Type.String({ minLength: 1 }),
    note: Type.Optional(Type.String({ minLength: 1, description: 'one sentence for whoever routes to it' })),
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
    live: Type.Optional(live),
    region: Type.Optional(region),
    retention: Type.Optional(retention),
    training: Type.Optional(training),
  },
  { additionalProperties: false },
)

/** Stage of a model in its life. */
export interface DatedModel {
  readonly kind: string
  readonly model: string
  /** Day on which the facts were looked up. */
  readonly asOf: string
  /** Announced last day; null: none. */
  readonly endsOn: string | null
  /** Day from which on its provider advises against it; null: it does not. */
  readonly deprecatedOn: string | null
  /** Model that the provider names in its place; null: none. */
  readonly successor: string | null
  /** One sentence for whoever routes to it; null: none is needed. */
  readonly note: string | null
}

/** What a table says, checked. */
interface KnownModels {
  readonly dated: readonly DatedModel[]
  /** By the name of the model. */
  readonly facts: ReadonlyMap<string, ModelFacts>
}

const known = new Map<string, KnownModels>()

function knownOf(kind: string): KnownModels | undefined {
  let models = known.get(kind)
  if (models !== undefined || !Object.hasOwn(TABLES, kind)) return models
  models = readFacts(kind, TABLES[kind] ?? {})
  known.set(kind, models)
  return models
}

/** Every model of the built-in tables, in their order. */
export function datedModels(): readonly DatedModel[] {
  return Object.keys(TABLES).flatMap((kind) => knownOf(kind)?.dated ?? [])
}

/**
 * The dated facts of a model; a dated snapshot (`gpt-4o-mini-tts-2025-12-15`) has those of its model.
 * Undefined for a model that the table lacks: what it can do is then the configuration's to say, as for most
 * of `openai-compatible`.
 */
export function factsOf(kind: string, model: string): ModelFacts | undefined {
  const facts = knownOf(kind)?.facts
  return facts?.get(model) ?? facts?.get(withoutDate(model))
}

/** The dates of a model of the tables; undefined for one that they lack. */
export function datedModel(kind: string, model: string): DatedModel | undefined {
  const named = (name: string) => knownOf(kind)?.dated.find((one) => one.model === name)
  return named(model) ?? named(withoutDate(model))
}

const DAY_MS = 24 * 3_600_000
/** Days before its end in which a model counts as ending, and for which facts count as fresh. */
const NEAR_DAYS = 90

/** Days until a model ends, below 0 when it has ended; null: no end is announced. */
export function daysLeft({ endsOn }: Pick<DatedModel, 'endsOn'>, nowMs: number): number | null {
  return endsOn === null ? null : Math.ceil((Date.parse(endsOn) - nowMs) / DAY_MS)
}

/** Reasons to look at a model again: it has ended or ends within 90 days, or its facts are older than 90 days. */
export function staleness(model: DatedModel, nowMs: number): string[] {
  const left = daysLeft(model, nowMs)
  const age = Math.floor((nowMs - Date.parse(model.asOf)) / DAY_MS)
  return [
    ...(left !== null && left < 0 ? [`ended on ${model.endsOn}`] : []),
    ...(left !== null && left >= 0 && left <= NEAR_DAYS ? [`ends on ${model.endsOn}, in ${left} days`] : []),
    ...(age > NEAR_DAYS ? [`looked up ${age} days ago`] : []),
  ]
}

/** Models of entries that have ended, each once, as `openai/whisper-1 ended on 2027-02-26`. */
export function endedModels(routes: readonly Pick<Route, 'entries'>[], nowMs: number): string[] {
  return modelsIn(routes).flatMap(({ name, model }) => {
    const left = model === undefined ? null : daysLeft(model, nowMs)
    return left !== null && left < 0 ? [`${name} ended on ${model?.endsOn}`] : []
  })
}

/** The models of routes' entries with what is to be said of them: ends that have come or come soon, and notes. */
export function remarksOn(
  routes: readonly Pick<Route, 'entries'>[],
  nowMs: number,
): { readonly name: string; readonly remark: string }[] {
  return modelsIn(routes).flatMap(({ name, model }) => {
    if (model === undefined) return []
    const ends = staleness({ ...model, asOf: new Date(nowMs).toISOString() }, nowMs)
    return [...ends, ...(model.note === null ? [] : [model.note])].map((remark) => ({ name, remark }))
  })
}

function modelsIn(routes: readonly Pick<Route, 'entries'>[]) {
  const entries = routes.flatMap((route) => route.entries)
  const named = new Map(entries.map((entry) => [`${entry.provider.name}/${entry.model}`, entry]))
  return [...named].map(([name, { provider, model }]) => ({ name, model: datedModel(provider.kind, model) }))
}

function withoutDate(model: string): string {
  return model.replace(/-\d{4}-\d{2}-\d{2}$/, '')
}

/** @throws AssertError when a table holds what selection would not understand, a misspelled feature for one */
function readFacts(kind: string, table: Table): KnownModels {
  const dated: DatedModel[] = []
  const facts = new Map<string, ModelFacts>()
  for (const [model, entry] of Object.entries(table)) {
    Value.Assert(DatedFacts, entry)
    const { as_of: asOf, ends_on: endsOn = null, note = null, source: _source, aliases = [], ...more } = entry
    const { deprecated_on: deprecatedOn = null, successor = null, ...rest } = more
    Object.freeze(rest)
    for (const name of [model, ...aliases]) {
      if (facts.has(name)) throw new Error(`${name} stands twice in the table of ${kind}`)
      dated.push({ kind, model: name, asOf, endsOn, deprecatedOn, successor, note })
      facts.set(name, rest as ModelFacts)
    }
  }
  return { dated, facts }
}
