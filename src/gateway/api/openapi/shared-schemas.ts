import { nextTurn } from '../../../contracts/time.ts'
import { isObject } from '../../edge/json-body.ts'
import type { Json } from './schema.ts'

const REF = '#/components/schemas/'
/** Shorter schemas, as JSON, stay where they are: a reference would hardly be shorter. */
const SHORT = 80
/** As `SHORT`, of enumerations of strings: generators make a type of each, and some cannot within a union. */
const SHORTEST = 50
/** As `SHORT`, of unions: those of a few plain types say more where they are. */
const LONG = 150

/** Keywords with one schema (and what its name ends with), with a list of them, and with some by name. */
const ONE = { items: 'Item', additionalProperties: '', not: '', contains: '', propertyNames: '' } as const
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems'] as const
const NAMED = ['properties', 'patternProperties'] as const

/** @param within name of the schema around it */
type Change = (schema: Json, name: string, within?: string) => Json

/** Changes each schema that stands directly in a schema. `change` gets a name that says where it stands. */
function withParts(schema: Json, name: string, change: Change): Json {
  const part = (one: unknown, own: string) => change(one as Json, own, name)
  const changed: Record<string, unknown> = { ...schema }
  for (const [keyword, end] of Object.entries(ONE))
    if (isObject(schema[keyword])) changed[keyword] = part(schema[keyword], name + end)
  for (const keyword of LISTS) {
    const list = schema[keyword]
    if (Array.isArray(list))
      changed[keyword] = list.map((one: Json, at) => part(one, at === 0 ? name : name + choiceOf(one)))
  }
  for (const keyword of NAMED) {
    const byName = schema[keyword]
    if (!isObject(byName)) continue
    const nameOf = (key: string) => (keyword === 'properties' ? schemaNameOf(key) : `${name}Value`)
    const parts = Object.entries(byName).map(([key, one]) => [key, part(one, nameOf(key))])
    changed[keyword] = Object.fromEntries(parts)
  }
  return changed
}

/** Changes each schema outside of `components.schemas` that the document uses. */
function withSchemas(part: unknown, name: string, change: Change): unknown {
  if (Array.isArray(part)) return part.map((one) => withSchemas(one, name, change))
  if (!isObject(part)) return part
  const own = schemaNameOf(String(part.operationId ?? (part.in && part.name) ?? '')) || name
  const changed = Object.entries(part).map(([key, value]) => {
    if (key === 'schema' || key === 'x-event-schema') return [key, change(value as Json, own, name)]
    if (key === 'examples') return [key, value]
    return [key, withSchemas(value, key === 'requestBody' ? `${own}Body` : own, change)]
  })
  return Object.fromEntries(changed)
}

/**
 * Gives each schema that stands more than once a name in `components.schemas`, and those of errors, which operations
 * share: the document gets smaller, and generators of clients make one type of it instead of one for each place. The
 * document means the same.
 */
export async function shareSchemas(document: Json): Promise<Json> {
  const { schemas, responses = {}, ...rest } = document.components as Readonly<Record<string, Json>>
  const shared = new SharedSchemas(schemas as Readonly<Record<string, Json>>)
  const [paths, others] = [document.paths as Json, { webhooks: document.webhooks, ...rest }]
  await eachInTurn(paths, (part) => withSchemas(part, '', shared.count))
  await eachInTurn(others, (part) => withSchemas(part, '', shared.count))
  await eachInTurn(responses, (response, name) => withSchemas(response, name, shared.keep))
  shared.countComponents()

  const change = (part: unknown, name = '') => withSchemas(part, name, shared.change)
  const changed = await eachInTurn(responses, (response, name) => change(response, `${name}Error`))
  const changedPaths = await eachInTurn(paths, (part) => change(part))
  const { webhooks, ...components } = await eachInTurn(others, (part) => change(part))
  const changedComponents = { ...components, responses: changed, schemas: shared.components }
  return { ...document, paths: changedPaths, webhooks, components: changedComponents }
}

async function eachInTurn(parts: Json, change: (part: unknown, name: string) => unknown): Promise<Json> {
  const changed: Record<string, unknown> = {}
  for (const [name, part] of Object.entries(parts)) {
    changed[name] = change(part, name)
    await nextTurn()
  }
  return changed
}

class SharedSchemas {
  readonly #given: Readonly<Record<string, Json>>
  /** True where a schema, as JSON, is to have a name. */
  readonly #isShared = new Map<string, boolean>()
  readonly #names = new Map<string, string>()
  readonly #components = new Map<string, Json>()

  constructor(given: Readonly<Record<string, Json>>) {
    this.#given = given
    for (const [name, schema] of Object.entries(given)) this.#names.set(JSON.stringify(schema), name)
  }

  /** All that have a name, in the order of the names. */
  get components(): Json {
    for (const [name, schema] of Object.entries(this.#given))
      this.#components.set(name, withParts(schema, name, this.change))
    return Object.fromEntries([...this.#components].sort(([one], [other]) => (one < other ? -1 : 1)))
  }

  countComponents(): void {
    for (const [name, schema] of Object.entries(this.#given)) withParts(schema, name, this.count)
  }

  /** Counts a schema. Parts of one that came before count once. */
  readonly count: Change = (schema, name) => {
    const text = JSON.stringify(schema)
    const isKnown = this.#isShared.has(text)
    if (isNameable(schema, text)) this.#isShared.set(text, isKnown)
    if (!isKnown || !isNameable(schema, text)) withParts(schema, name, this.count)
    return schema
  }

  /** Counts a schema that has a name however often it stands. */
  readonly keep: Change = (schema, name) => {
    this.count(schema, name)
    return this.count(schema, name)
  }

  readonly change: Change = (schema, name, within = '') => {
    const text = JSON.stringify(schema)
    const known = this.#names.get(text)
    if (known !== undefined) return { $ref: REF + known }
    if (this.#isShared.get(text) !== true) return withParts(schema, name, this.change)
    const free = this.#freeName(schema, name, within)
    this.#names.set(text, free)
    this.#components.set(free, withParts(schema, free, this.change))
    return { $ref: REF + free }
  }

  #freeName(schema: Json, name: string, within: string): string {
    const isTaken = (one: string): boolean => one in this.#given || this.#components.has(one)
    const longer = within === name ? name + schemaNameOf(String(schema.type ?? 'choice')) : within + name
    let free = isTaken(name) && isNullable(schema) ? `Nullable${name}` : name
    for (let count = 1; isTaken(free); count += 1) free = longer + (count === 1 ? '' : count)
    // Holds the place while the schemas within get theirs.
    this.#components.set(free, {})
    return free
  }
}

/** Names a choice of a union, by the constant that its objects have in `type`, or by its type. */
function choiceOf({ type, properties }: Json): string {
  return schemaNameOf(String(Object(Object(properties).type).const ?? type))
}

function isNullable({ type, anyOf = [] }: Json): boolean {
  return [type].flat().includes('null') || (anyOf as readonly Json[]).some((one) => one.type === 'null')
}

function isNameable({ type, properties, anyOf, allOf, enum: choices }: Json, text: string): boolean {
  if (anyOf !== undefined) return text.length >= LONG
  const isShape = (type === 'object' && isObject(properties)) || allOf !== undefined || choices !== undefined
  return isShape && text.length >= (type === 'string' ? SHORTEST : SHORT)
}

/** `smart_formatting` as names of components are written: `SmartFormatting`. */
function schemaNameOf(text: string): string {
  const words = text.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
