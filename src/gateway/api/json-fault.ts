import { type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { hasShape } from '../../contracts/shape.ts'
import { isObject } from '../edge/json-body.ts'
import { invalid, invalidField, MUST } from '../edge/refusals.ts'
import { meantBy } from './fields.ts'

/**
 * Finds the first thing that is wrong with a value that does not fit its schema: a 400 that names the field.
 *
 * @param isLarge it has as many parts as make it worth compiling the parts of the schema
 */
export function faultOf(schema: TSchema, value: unknown, isLarge = false): ReturnType<typeof invalid> {
  if (!isObject(value)) return invalid('the body is not a JSON object')
  const { path, message } = locate(schema, value, '', isLarge)
  return invalidField(path, message)
}

/** Shape of a list that must be left out: clients of some vendors send it with nothing in it. */
export const EMPTY_LIST = Type.Array(Type.Unknown(), { maxItems: 0 })

interface Fault {
  /** E.g. `messages[2].content`. */
  readonly path: string
  readonly message: string
}

/**
 * TypeBox tells what every branch of a union has against a value. Here only that branch is followed which the
 * value is plainly meant for, by its type and by its `type` or `role`.
 */
function locate(schema: TSchema, value: unknown, path: string, isLarge: boolean): Fault {
  const fits = (part: TSchema, of: unknown) => (isLarge ? hasShape(part, of, true) : Value.Check(part, of))
  if (Type.IsUnion(schema)) return locateBranch(schema, value, path, isLarge)
  if (Type.IsObject(schema) && isObject(value)) {
    const required: readonly string[] = schema.required ?? []
    for (const [name, member] of Object.entries(schema.properties)) {
      const at = path === '' ? name : `${path}.${name}`
      if (!Object.hasOwn(value, name)) {
        if (required.includes(name)) return { path: at, message: missing(name, value, schema.properties) }
      } else if (!fits(member, value[name])) return locate(member, value[name], at, isLarge)
    }
  }
  if (Type.IsArray(schema) && Array.isArray(value)) {
    const index = value.findIndex((item) => !fits(schema.items, item))
    if (index >= 0) return locate(schema.items, value[index], `${path}[${index}]`, isLarge)
  }
  return { path, message: leafMessage(schema, value) }
}

function locateBranch(schema: Type.TUnion, value: unknown, path: string, isLarge: boolean): Fault {
  const branches = branchesOf(schema)
  if (branches.includes(EMPTY_LIST)) return { path, message: MUST.beLeftOut(descriptionOf(schema)) }
  const meant = branches.filter((branch) => isMeant(branch, value))
  if (meant.length === 1) return locate(meant[0] as TSchema, value, path, isLarge)
  const objects = branches.filter((branch) => Type.IsObject(branch))
  const name = isObject(value) ? strangeDiscriminator(objects, value) : undefined
  if (name !== undefined) {
    const words = objects.flatMap(({ properties }) => valuesOf(properties[name] ?? Type.Unknown()))
    return { path: `${path}.${name}`, message: MUST.beOneOf([...new Set(words)]) }
  }
  const shapes = branches.filter((branch) => !Type.IsNull(branch)).map(shapeOf)
  return { path, message: `must be ${[...new Set(shapes)].join(', or ')}` }
}

function branchesOf({ anyOf }: Type.TUnion): TSchema[] {
  return anyOf.flatMap((branch) => (Type.IsUnion(branch) ? branchesOf(branch) : [branch]))
}

/** True where the value is of the branch's kind, right or wrong in its members. */
function isMeant(branch: TSchema, value: unknown): boolean {
  if (Type.IsNull(branch)) return value === null
  if (Type.IsArray(branch)) return Array.isArray(value)
  if (Type.IsString(branch)) return typeof value === 'string'
  if (Type.IsBoolean(branch)) return typeof value === 'boolean'
  if (Type.IsInteger(branch) || Type.IsNumber(branch)) return typeof value === 'number'
  if (Type.IsObject(branch)) {
    if (!isObject(value)) return false
    return Object.entries(branch.properties).every(
      ([name, member]) => !isDiscriminator(name) || isHeldBy(member, value, name),
    )
  }
  return Value.Check(branch, value)
}

/** Names the member by whose value no object of a union is meant. */
function strangeDiscriminator(objects: readonly Type.TObject[], value: Record<string, unknown>) {
  const names = [...new Set(objects.flatMap(({ properties }) => Object.keys(properties)))].filter(
    isDiscriminator,
  )
  const isStrange = (name: string) =>
    objects.every(
      ({ properties: { [name]: member } }) => member === undefined || !isHeldBy(member, value, name),
    )
  return names.find(isStrange) ?? names[0]
}

function isHeldBy(member: TSchema, value: Record<string, unknown>, name: string): boolean {
  if (Type.IsOptional(member) && !Object.hasOwn(value, name)) return true
  return Value.Check(member, value[name])
}

/** True where a member tells the objects of a union from one another. */
function isDiscriminator(name: string): boolean {
  return name === 'type' || name === 'role'
}

/** In the words that fields of forms are refused with. */
function leafMessage(schema: TSchema, value: unknown): string {
  if (Type.IsNull(schema)) return MUST.beLeftOut(descriptionOf(schema))
  if (Type.IsEnum(schema) || Type.IsLiteral(schema) || !isMeant(schema, value))
    return `must be ${shapeOf(schema)}`
  const isLong = 'maxItems' in schema && Array.isArray(value)
  // Its items fit, and one too many is enough to say so.
  const [error] = Value.Errors(schema, isLong ? value.slice(0, Number(schema.maxItems) + 1) : value)
  switch (error?.keyword) {
    case 'type':
      return `must be ${shapeOf(schema)}`
    case 'minLength':
    case 'minItems':
      return error.params.limit === 1 ? MUST.notBeEmpty : error.message
    case 'maxLength':
      return MUST.haveCharacters(error.params.limit)
    case 'maxItems':
      return MUST.haveItems(error.params.limit)
    case 'minimum':
      return MUST.beAtLeast(Number(error.params.limit))
    case 'exclusiveMinimum':
      return MUST.beGreaterThan(Number(error.params.limit))
    case 'maximum':
      return MUST.beAtMost(Number(error.params.limit))
    case 'pattern':
      return `must be ${descriptionOf(schema)}`
    default:
      return error?.message ?? 'must be as documented'
  }
}

/** A pattern is for machines; whoever sets one describes it. */
function descriptionOf(schema: TSchema): string {
  return 'description' in schema ? String(schema.description) : 'as documented'
}

/** The values that a schema lists; none when it lists none. */
function valuesOf(schema: TSchema): readonly unknown[] {
  if (Type.IsEnum(schema)) return schema.enum
  if (Type.IsLiteral(schema)) return [schema.const]
  return Type.IsBoolean(schema) ? [true, false] : []
}

/** That a field is not there, and which one may be meant for it. */
function missing(name: string, value: object, known: object): string {
  const strange = Object.keys(value).filter((given) => !Object.hasOwn(known, given))
  // There may be half a million.
  const misspelled = strange.slice(0, 100).find((given) => meantBy(given, [name]) !== null)
  if (misspelled === undefined) return MUST.beGiven
  return `${MUST.beGiven}; \`${misspelled.slice(0, 64).toWellFormed()}\` may be meant for it`
}

function shapeOf(schema: TSchema): string {
  const values = valuesOf(schema)
  if (values.length > 0) return MUST.beOneOf(values).replace(/^must be /, '')
  if (Type.IsString(schema)) return 'a string'
  if (Type.IsInteger(schema)) return 'an integer'
  if (Type.IsNumber(schema)) return 'a number'
  if (Type.IsArray(schema)) return 'a list'
  return 'an object'
}
