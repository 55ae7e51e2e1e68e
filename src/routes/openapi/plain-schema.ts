import { isObject } from '../../inbound/json-source.ts'

/** Plain JSON of the document. */
export type Json = Readonly<Record<string, unknown>>

const REF = '#/components/schemas/'

/**
 * Turns schemas as the code has them into those of the document: what has a title becomes a component of that name, and
 * a value that may be null has two types instead of two branches, which readers and generators of clients like better.
 */
export class PlainSchemas {
  readonly #components = new Map<string, Json>()

  /** All that had a title, by name. */
  get components(): Json {
    const byName = [...this.#components].sort(([one], [other]) => (one < other ? -1 : 1))
    return Object.fromEntries(byName)
  }

  /** @throws Error when two schemas have the same title */
  of(schema: object): Json {
    const plain = this.#plain(schema)
    if (!isObject(plain)) throw new Error('a schema is an object')
    return plain
  }

  #plain(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((part) => this.#plain(part))
    if (!isObject(value)) return value
    const parts = Object.entries(value).map(([name, part]) => [name, this.#plain(part)])
    const schema = simplified(Object.fromEntries(parts))
    const { title, ...rest } = schema
    if (typeof title !== 'string') return schema
    const known = this.#components.get(title)
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(rest))
      throw new Error(`two schemas are called ${title}`)
    this.#components.set(title, rest)
    return { $ref: REF + title }
  }
}

/** The same without null, as forms and queries have a field. */
export function withoutNull(schema: Json): Json {
  const { type, enum: choices, anyOf } = schema
  return {
    ...schema,
    ...(Array.isArray(type) ? { type: type.find((name) => name !== 'null') } : {}),
    ...(Array.isArray(choices) ? { enum: choices.filter((choice) => choice !== null) } : {}),
    ...(Array.isArray(anyOf) ? { anyOf: anyOf.filter((branch) => !isNull(branch)) } : {}),
  }
}

function simplified(schema: Record<string, unknown>): Record<string, unknown> {
  const { anyOf, enum: choices, type } = schema
  if (Array.isArray(choices) && type === undefined && choices.every((choice) => typeof choice === 'string'))
    return { type: 'string', ...schema }
  if (!Array.isArray(anyOf)) return schema
  const unions = anyOf.filter(isBare)
  const branches = anyOf.flatMap((branch) => (isBare(branch) ? branch.anyOf : [branch]))
  const [value, other] = branches
  const mergeable =
    branches.length === 2 && isObject(value) && typeof value.type === 'string' && isNull(other)
  if (!mergeable) return { ...schema, anyOf: branches, ...described([schema, ...unions]) }
  const { anyOf: _, ...outer } = schema
  return {
    ...value,
    ...outer,
    type: [value.type, 'null'],
    ...(Array.isArray(value.enum) ? { enum: [...value.enum, null] } : {}),
    ...described([outer, ...unions, value]),
  }
}

/** What is said of each, as one description. */
function described(schemas: readonly Json[]): Json {
  const lines = new Set(schemas.flatMap(({ description }) => description ?? []))
  return lines.size > 0 ? { description: [...lines].join('; ') } : {}
}

/** A union within a union, with no more than a description of its own. */
function isBare(branch: unknown): branch is { anyOf: unknown[]; description?: unknown } {
  if (!isObject(branch) || !Array.isArray(branch.anyOf)) return false
  return Object.keys(branch).every((keyword) => keyword === 'anyOf' || keyword === 'description')
}

function isNull(branch: unknown): boolean {
  return isObject(branch) && branch.type === 'null'
}
