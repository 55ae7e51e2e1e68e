import { type Static, type TSchema, Type } from 'typebox'
import type { FieldReader, ListRule, NumberRule, TextRule } from '../inbound/form.ts'

type FieldShapes = Readonly<Record<string, TSchema>>
type Read = (reader: FieldReader) => unknown

/** Annotations, and what `FieldReader` holds a value to. A schema with anything else would promise a check in vain. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['type', 'anyOf', 'enum', 'items', 'description'],
  ...['maxLength', 'maxItems', 'minimum', 'maximum', 'exclusiveMinimum'],
])

/**
 * Makes the reading of fields out of their schemas, so that what is documented of a field is what it is held to, in
 * JSON, forms and queries alike.
 *
 * @param shapes each as `optional` makes it, or null alone for what is refused
 * @returns reads one field: null when it was not sent; throws GatewayError INVALID_REQUEST naming it
 * @throws Error for a schema that says more than `FieldReader` can check
 */
export function typedFields<Shapes extends FieldShapes>(shapes: Shapes) {
  const reads = new Map(Object.entries(shapes).map(([name, schema]) => [name, readOf(name, schema)]))
  return <Name extends keyof Shapes & string>(reader: FieldReader, name: Name): Static<Shapes[Name]> =>
    reads.get(name)?.(reader) as Static<Shapes[Name]>
}

function readOf(name: string, schema: TSchema): Read {
  const branches = branchesOf(schema).filter((branch) => !Type.IsNull(branch))
  for (const part of [schema, ...branches]) checkKnown(name, part)
  const [value, list] = branches
  if (value === undefined) {
    const why = descriptionOf(name, schema)
    return (reader) => reader.refused(name, why)
  }
  if (branches.length === 2 && Type.IsBoolean(value) && list !== undefined && Type.IsArray(list)) {
    const rule = listRule(name, list)
    return (reader) => reader.booleanOrList(name, rule)
  }
  if (branches.length > 1) throw new Error(`the field ${name} may be too many things for a form`)
  if (Type.IsBoolean(value)) return (reader) => reader.boolean(name)
  if (Type.IsInteger(value) || Type.IsNumber(value)) {
    const rule = numberRule(value)
    return Type.IsInteger(value)
      ? (reader) => reader.integer(name, rule)
      : (reader) => reader.number(name, rule)
  }
  if (Type.IsArray(value)) {
    const rule = listRule(name, value)
    return (reader) => reader.stringList(name, rule)
  }
  if (Type.IsString(value) || Type.IsEnum(value)) {
    const rule = textRule(value)
    return (reader) => reader.string(name, rule)
  }
  throw new Error(`the field ${name} is of no type that a form has`)
}

function branchesOf(schema: TSchema): readonly TSchema[] {
  return Type.IsUnion(schema) ? schema.anyOf.flatMap(branchesOf) : [schema]
}

function checkKnown(name: string, schema: TSchema): void {
  const unknown = Object.keys(schema).filter((keyword) => !KNOWN.has(keyword))
  if (unknown.length > 0) throw new Error(`of the field ${name} nobody would check ${unknown.join(', ')}`)
}

/** What is refused says why. */
function descriptionOf(name: string, schema: TSchema): string {
  if ('description' in schema && typeof schema.description === 'string') return schema.description
  throw new Error(`the field ${name} can hold nothing, and does not say why`)
}

function textRule(schema: TSchema): TextRule {
  if (Type.IsEnum(schema)) return { oneOf: schema.enum.map(String) }
  const { maxLength } = boundsOf(schema)
  return maxLength === undefined ? {} : { maxLength }
}

function listRule(name: string, schema: Type.TArray): ListRule {
  const { items } = schema
  if (!Type.IsString(items) && !Type.IsEnum(items)) throw new Error(`the field ${name} lists no texts`)
  checkKnown(name, items)
  const { maxItems } = boundsOf(schema)
  return { ...textRule(items), ...(maxItems === undefined ? {} : { maxItems }) }
}

function numberRule(schema: TSchema): NumberRule {
  const { minimum, maximum, exclusiveMinimum } = boundsOf(schema)
  return {
    ...(minimum === undefined ? {} : { min: minimum }),
    ...(maximum === undefined ? {} : { max: maximum }),
    ...(exclusiveMinimum === undefined ? {} : { above: exclusiveMinimum }),
  }
}

type Bound = 'maxLength' | 'maxItems' | 'minimum' | 'maximum' | 'exclusiveMinimum'

/** TypeBox's types know nothing of the bounds that a schema was made with. */
function boundsOf(schema: TSchema): { readonly [Name in Bound]?: number } {
  return schema
}
