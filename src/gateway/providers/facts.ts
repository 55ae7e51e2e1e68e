import { readFileSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Route } from '../../contracts/catalog.ts'
import { Day, FACT_SHAPES } from '../../contracts/facts.ts'
import type { DatedModel, ModelTable } from '../../contracts/models.ts'
import type { ModelFacts } from '../../contracts/provider.ts'

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

/** A document of facts, as JSON has it. */
const DocumentShape = Type.Object(
  {
    format: Type.Literal(1),
    issued_at: Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' }),
    models: Type.Record(Type.String(), Type.Record(Type.String({ minLength: 1 }), Type.Unknown())),
  },
  { additionalProperties: false },
)
export type ModelsDocument = Static<typeof DocumentShape>

/** The facts of a kind of provider, checked. */
interface KnownModels {
  readonly dated: readonly DatedModel[]
  /** By the name of the model. */
  readonly facts: ReadonlyMap<string, ModelFacts>
}

/** Facts out of a document. Those of a kind are checked when asked for first: all of them take a tenth of a start. */
class DocumentTable implements ModelTable {
  readonly issuedAt: string
  readonly origin: ModelTable['origin']
  readonly #models: ModelsDocument['models']
  readonly #known = new Map<string, KnownModels>()

  constructor({ issued_at, models }: ModelsDocument, origin: ModelTable['origin']) {
    this.issuedAt = issued_at
    this.origin = origin
    this.#models = models
  }

  factsOf(kind: string, model: string): ModelFacts | undefined {
    const facts = this.#knownOf(kind)?.facts
    return facts?.get(model) ?? facts?.get(withoutDate(model))
  }

  dated(kind: string, model: string): DatedModel | undefined {
    const named = (name: string) => this.#knownOf(kind)?.dated.find((one) => one.model === name)
    return named(model) ?? named(withoutDate(model))
  }

  all(): readonly DatedModel[] {
    return Object.keys(this.#models).flatMap((kind) => this.#knownOf(kind)?.dated ?? [])
  }

  #knownOf(kind: string): KnownModels | undefined {
    const known = this.#known.get(kind)
    if (known !== undefined || !Object.hasOwn(this.#models, kind)) return known
    const read = readFacts(kind, this.#models[kind] ?? {})
    this.#known.set(kind, read)
    return read
  }
}

/** The document that is part of the program, and trusted as the program is: it has no signature. */
const shipped = JSON.parse(readFileSync(new URL('models.json', import.meta.url), 'utf8')) as ModelsDocument

export const SHIPPED: ModelTable = new DocumentTable(shipped, 'shipped')

/**
 * Reads a document from outside, all of it.
 *
 * @throws Error whose message says where it is not as it has to be
 */
export function readModels(document: unknown): ModelTable {
  const [fault] = Value.Errors(DocumentShape, document)
  if (fault !== undefined) throw new Error(`${fault.instancePath || '/'}: ${fault.message}`)
  const table = new DocumentTable(document as ModelsDocument, 'stored')
  if (Number.isNaN(Date.parse(table.issuedAt))) throw new Error('/issued_at: there is no such moment')
  table.all()
  return table
}

/** The facts that are part of the program. */
export const factsOf = (kind: string, model: string): ModelFacts | undefined => SHIPPED.factsOf(kind, model)

const DAY_MS = 24 * 3_600_000
/** Days before its end in which a model counts as ending, and for which facts count as fresh. */
const NEAR_DAYS = 90

/** Days until a model ends, below 0 when it has ended; null: no end is announced. */
export function daysLeft({ endsOn }: Pick<DatedModel, 'endsOn'>, nowMs: number): number | null {
  return endsOn === null ? null : Math.ceil((Date.parse(endsOn) - nowMs) / DAY_MS)
}

/** Reasons to look at a model again: it has ended, ends within 90 days or is deprecated, or its facts are old. */
export function staleness(model: DatedModel, nowMs: number): string[] {
  const age = Math.floor((nowMs - Date.parse(model.asOf)) / DAY_MS)
  return [...fading(model, nowMs), ...(age > NEAR_DAYS ? [`looked up ${age} days ago`] : [])]
}

/** The end of a model that has come or comes soon, or its deprecation. */
function fading(model: DatedModel, nowMs: number): string[] {
  const left = daysLeft(model, nowMs)
  const { endsOn, deprecatedOn, successor } = model
  const instead = successor === null ? '' : `; its successor is ${successor}`
  if (left !== null && left < 0) return [`ended on ${endsOn}${instead}`]
  if (left !== null && left <= NEAR_DAYS) return [`ends on ${endsOn}, in ${left} days${instead}`]
  return deprecatedOn === null ? [] : [`deprecated since ${deprecatedOn}${instead}`]
}

/** A document that is older than 90 days, as a sentence; null: it is not. */
export function documentAge({ issuedAt, origin }: ModelTable, nowMs: number): string | null {
  const days = Math.floor((nowMs - Date.parse(issuedAt)) / DAY_MS)
  if (days <= NEAR_DAYS) return null
  const from = origin === 'shipped' ? 'the program has them' : '`larkway models update` put them there'
  return `the facts of models are ${days} days old (${issuedAt}, ${from})`
}

type Routes = readonly Pick<Route, 'entries'>[]

/** A remark on a model of an entry, by which it is named: `openai/whisper-1`. */
export interface ModelRemark {
  readonly name: string
  readonly remark: string
}

/** Models of entries that have ended, each once. */
export function endedModels(routes: Routes, table: ModelTable, nowMs: number): ModelRemark[] {
  return modelsIn(routes, table).flatMap(({ name, model, endsOn }) => {
    const left = daysLeft({ endsOn }, nowMs)
    if (left === null || left >= 0) return []
    const ended = model === undefined ? [`ended on ${endsOn}`] : fading({ ...model, endsOn }, nowMs)
    return ended.map((remark) => ({ name, remark }))
  })
}

/** Models of entries that end soon or are deprecated. */
export function fadingModels(routes: Routes, table: ModelTable, nowMs: number): ModelRemark[] {
  const ended = new Set(endedModels(routes, table, nowMs).map(({ name }) => name))
  return modelsIn(routes, table).flatMap(({ name, model, endsOn }) =>
    model === undefined || ended.has(name)
      ? []
      : fading({ ...model, endsOn }, nowMs).map((remark) => ({ name, remark })),
  )
}

/** Notes on models of entries. */
export function notesOn(routes: Routes, table: ModelTable): ModelRemark[] {
  return modelsIn(routes, table).flatMap(({ name, model }) =>
    model === undefined || model.note === null ? [] : [{ name, remark: model.note }],
  )
}

/** Models of entries, each once, with the end that the entry or the table announces. */
function modelsIn(routes: Routes, table: ModelTable) {
  const entries = routes.flatMap((route) => route.entries)
  const named = new Map(entries.map((entry) => [`${entry.provider.name}/${entry.model}`, entry]))
  return [...named].map(([name, { provider, model, endsOn }]) => {
    const dated = table.dated(provider.kind, model)
    return { name, model: dated, endsOn: endsOn ?? dated?.endsOn ?? null }
  })
}

function withoutDate(model: string): string {
  return model.replace(/-\d{4}-\d{2}-\d{2}$/, '')
}

function isDated(entry: unknown): entry is Static<typeof DatedFacts> {
  return Value.Check(DatedFacts, entry)
}

/** @throws Error when a table holds what selection would not understand, a misspelled feature for one */
function readFacts(kind: string, table: Readonly<Record<string, unknown>>): KnownModels {
  const dated: DatedModel[] = []
  const facts = new Map<string, ModelFacts>()
  for (const [model, entry] of Object.entries(table)) {
    if (!isDated(entry)) {
      const [fault] = Value.Errors(DatedFacts, entry)
      throw new Error(
        `${kind}/${model}${fault?.instancePath ?? ''}: ${fault?.message ?? 'has another shape'}`,
      )
    }
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
