import { type TSchema, Type } from 'typebox'
import type { Operation } from '../../src/api/openapi/operation.ts'
import { ENDPOINTS } from '../../src/api/table.ts'

/** Names of the options of an endpoint, by what becomes of them; `text.verbosity` is a member of one. */
export interface Options {
  readonly kept: readonly string[]
  /** Only with this value: `n: 1`. */
  readonly only: readonly string[]
  readonly warned: readonly string[]
  readonly refused: readonly string[]
}

type Fate = keyof Options

/** Endpoints of OpenAI's door that take options, by their paths behind `/openai/v1/`. */
export function doorOptions(): ReadonlyMap<string, Options> {
  const found = new Map<string, Options>()
  for (const { method, path, body = [] } of ENDPOINTS) {
    const [, name] = /^\/openai\/v1\/(?!realtime)(.+)$/.exec(path) ?? []
    const schema = name === undefined ? undefined : schemaOf(body)
    if (method === 'POST' && name !== undefined && schema !== undefined) found.set(name, optionsOf(schema))
  }
  return found
}

/** The table of options in Markdown. */
export function optionTable(): string {
  const cell = (names: readonly string[]) =>
    [...new Set(names)].map((name) => `\`${name}\``).join(', ') || '–'
  const rows = [...doorOptions()].map(
    ([name, { kept, only, warned, refused }]) =>
      `| \`${name}\` | ${[kept, only, warned, refused].map(cell).join(' | ')} |`,
  )
  const head = ['Endpoint', 'Kept', 'Kept only as', 'Not passed on, with a warning', 'Refused by name']
  return [`| ${head.join(' | ')} |`, '|---|---|---|---|---|', ...rows].join('\n')
}

function schemaOf(body: NonNullable<Operation['body']>): Type.TObject | undefined {
  const schemas = body.flatMap(({ schema }) => (Type.IsObject(schema) ? [schema] : []))
  return schemas[0]
}

function optionsOf(schema: Type.TObject): Options {
  const options: Record<Fate, string[]> = { kept: [], only: [], warned: [], refused: [] }
  for (const [name, member] of Object.entries(schema.properties)) sort(name, member, options, true)
  return options
}

const NOT_PASSED_ON = /\bnot passed on$/

function sort(name: string, schema: TSchema, options: Record<Fate, string[]>, isTop: boolean): void {
  const fate = fateOf(schema)
  if (fate === 'only') options.only.push(`${name}: ${JSON.stringify(onlyValueOf(schema))}`)
  else if (fate !== 'kept') options[fate].push(name)
  else {
    if (isTop) options.kept.push(name)
    for (const [path, member] of membersOf(name, schema)) sort(path, member, options, false)
  }
}

function fateOf(schema: TSchema): Fate {
  if (valuesOf(schema).length === 0) return 'refused'
  if (NOT_PASSED_ON.test(descriptionOf(schema))) return 'warned'
  return onlyValueOf(schema) === undefined ? 'kept' : 'only'
}

/** The one value that an option may have. */
function onlyValueOf(schema: TSchema): unknown {
  const [value, ...others] = valuesOf(schema)
  if (!Type.IsOptional(schema) || others.length > 0) return undefined
  if (Type.IsLiteral(value)) return value.const
  return Type.IsArray(value) && Type.IsEnum(value.items) && value.items.enum.length === 1
    ? value.items.enum
    : undefined
}

/** Members of the objects that a value may be or hold. Of several kinds of objects each has the name of its kind. */
function membersOf(name: string, schema: TSchema): (readonly [path: string, member: TSchema])[] {
  const found = valuesOf(schema).flatMap((value) =>
    Type.IsArray(value)
      ? branchesOf(value.items).map((item) => [`${name}[]`, item] as const)
      : [[name, value] as const],
  )
  const kinds = found.map(
    ([, { properties: { type = null } = {} }]: readonly [string, { properties?: Record<string, unknown> }]) =>
      type,
  )
  const isMixed = kinds.filter((kind) => kind !== null).length > 1
  return found.flatMap(([at, item]) => {
    if (!Type.IsObject(item)) return []
    const { type: kind = null } = item.properties
    const own = isMixed && kind !== null && Type.IsLiteral(kind) ? String(kind.const) : at
    const members = Object.entries(item.properties).filter(
      ([member]) => member !== 'type' && member !== 'role',
    )
    return members.map(([member, inner]) => [`${own}.${member}`, inner] as const)
  })
}

function valuesOf(schema: TSchema): TSchema[] {
  return branchesOf(schema).filter((branch) => !Type.IsNull(branch))
}

function branchesOf(schema: TSchema): TSchema[] {
  return Type.IsUnion(schema) ? schema.anyOf.flatMap(branchesOf) : [schema]
}

function descriptionOf(schema: TSchema): string {
  return 'description' in schema ? String(schema.description) : ''
}
