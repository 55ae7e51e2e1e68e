import { type TSchema, Type } from 'typebox'
import { isObject } from '../../edge/json-body.ts'

/** A member that may be null. */
export function nullable<Value extends TSchema>(value: Value, description: string) {
  return Type.Union([value, Type.Null()], { description })
}

export function text(description: string) {
  return Type.String({ description })
}

export function amount(description: string) {
  return Type.Number({ minimum: 0, description })
}

export function count(description: string) {
  return Type.Integer({ minimum: 0, description })
}

/** RFC 3339, UTC, with milliseconds. */
export function moment(description: string) {
  return Type.String({ format: 'date-time', description })
}

export function lines(description: string) {
  return Type.Array(Type.String(), { description })
}

/**
 * An object of an answer, by whose title it becomes a component of the document. Its members are all there, always,
 * unless one is optional; that others may come with a later version is why no answer is closed.
 */
export function shape<Members extends Record<string, TSchema>>(
  title: string,
  members: Members,
  description?: string,
) {
  return Type.Object(members, description === undefined ? { title } : { title, description })
}

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
    // A keyword of editors, for the schema of configurations.
    const { patternErrorMessage: _, ...own } = value
    const parts = Object.entries(own).map(([name, part]) => [name, this.#plain(part)])
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

/** Joins the descriptions of several schemas. */
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
