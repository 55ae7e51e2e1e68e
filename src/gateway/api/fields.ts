import { type Static, type TSchema, Type } from 'typebox'
import { PROFILES, type Principal, type Selectors } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import {
  allRequirements,
  type Requirements,
  RequireShape,
  readRequirements,
  requirementsOf,
} from '../../contracts/requirements.ts'
import { shapeCheck } from '../../contracts/shape.ts'
import type { Exchange } from '../edge/exchange.ts'
import type { FieldReader, ListRule, NumberRule, TextRule } from '../edge/form.ts'
import { invalidField } from '../edge/refusals.ts'
import type { Admitted } from './endpoint.ts'

/**
 * How much of a label is kept, UTF-16 units. A configuration declares none of over 64, so that a longer one is unknown
 * whatever is kept of it; what is kept is repeated in the answer.
 */
const LABEL_KEPT_MAX = 1_024

/** Fields that would choose a provider, a model or a route: the key's route does that. */
export const ROUTE_CONTROL: ReadonlySet<string> = new Set([
  ...['provider', 'model', 'models', 'route', 'route_id', 'fallbacks', 'strategy'],
])

/** The routing selectors as fields of any request body. */
const REQUIRE_LENGTH_MAX = 1_024

export const SELECTOR_FIELDS = {
  purpose: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'label that the workspace declares: picks the route; an unknown one changes nothing',
    }),
  ),
  response_profile: Type.Optional(
    Type.Union([Type.Enum([...PROFILES]), Type.Null()], {
      description: 'picks among the entries of the route',
    }),
  ),
  require: Type.Optional(
    Type.Union([Type.String({ maxLength: REQUIRE_LENGTH_MAX }), RequireShape, Type.Null()], {
      description:
        'what every provider that is tried has to promise: an object, or a text as in the header X-LK-Require',
    }),
  ),
}

/**
 * The routing selectors of any call. The body's purpose wins over the header's; an empty one counts as not sent.
 *
 * @param reader of the body; null: it has no selectors
 */
export function readSelectors(exchange: Pick<Exchange, 'headers'>, reader: FieldReader | null): Selectors {
  const inBody = labelIn(reader?.string('purpose'))
  const inHeader = labelIn(exchange.headers['x-lk-purpose'])
  const responseProfile = reader?.string('response_profile', { oneOf: PROFILES }) ?? null
  const require = readRequire(exchange, reader?.unchecked('require') ?? null)
  const demanded = require === null ? {} : { require }
  if (inBody) return { purpose: { label: inBody, source: 'body' }, responseProfile, ...demanded }
  if (inHeader) return { purpose: { label: inHeader, source: 'header' }, responseProfile, ...demanded }
  return { purpose: null, responseProfile, ...demanded }
}

/**
 * Reads what a call demands of the handling of its content: in the header, in the body, or in both; both hold.
 *
 * @throws GatewayError INVALID_REQUEST: what is not understood would not be kept
 */
export function readRequire({ headers }: Pick<Exchange, 'headers'>, inBody: unknown): Requirements | null {
  const inHeader = headers['x-lk-require']
  if (inHeader === undefined && inBody === null) return null
  return allRequirements([
    inHeader === undefined ? null : checkedRequire('X-LK-Require', inHeader),
    inBody === null ? null : checkedRequire('require', inBody),
  ])
}

/**
 * True where nothing may be kept of a body that is about to come. The demands of its own fields are not known yet; a
 * call that demands it too late is refused.
 *
 * @param inQuery what its address demands
 * @throws GatewayError INVALID_REQUEST as `readRequire`
 */
export function isKeptFromStore(
  exchange: Pick<Exchange, 'headers'>,
  { workspace, purposes }: Pick<Principal, 'workspace' | 'purposes'>,
  inQuery: Requirements | null = null,
): boolean {
  const inHeader = readRequire(exchange, null)
  const demands = [workspace.require, inHeader, inQuery, ...purposes.map(({ require }) => require)]
  return demands.some((one) => one?.retentionDays === 0)
}

/**
 * Refuses an upload where nothing may be kept. Which purpose it is for is not known yet, so that each one that the key
 * may name counts.
 *
 * @throws GatewayError REQUIRED_FEATURE_UNAVAILABLE, and as `isKeptFromStore`
 */
export function checkMayUpload({ exchange, context }: Admitted): void {
  if (!isKeptFromStore(exchange, context.principal)) return
  const reason = 'retention: zero cannot be kept here: an upload outlives its call'
  throw new GatewayError('REQUIRED_FEATURE_UNAVAILABLE', reason)
}

const isRequire = shapeCheck(RequireShape)

function checkedRequire(name: string, given: unknown): Requirements {
  const fields = typeof given === 'string' ? readRequirements(given) : given
  if (!isRequire(fields))
    throw invalidField(name, 'must be like region=eu|us, retention=zero, training=never')
  return requirementsOf(fields)
}

function labelIn(given: string | null | undefined): string | undefined {
  return given?.trim().slice(0, LABEL_KEPT_MAX).toWellFormed()
}

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
  if (unknown.length > 0) throw new Error(`unknown members of ${name}: ${unknown.join(', ')}`)
}

/** Says why a field is refused. */
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

/** Unknown fields that are named to the caller, and how much of a name. */
const NAMED = 20
const NAME_LENGTH_SHOWN = 64

/**
 * Lines for `warnings`, few and short however many fields there are.
 *
 * @param known names that the endpoint takes: one that is close to an unknown one is offered
 */
export function unknownFields(names: readonly string[], known: readonly string[]): string[] {
  if (names.length === 0) return []
  const lines = names.slice(0, NAMED).map((name) => {
    const meant = meantBy(name, known)
    const shown = name.slice(0, NAME_LENGTH_SHOWN).toWellFormed()
    return `${shown}: unknown field, ignored${meant === null ? '' : `; did you mean ${meant}?`}`
  })
  if (names.length > NAMED) lines.push(`${names.length - NAMED} further unknown fields, ignored`)
  return lines
}

/** The known name that a misspelled one is closest to; null when it is close to none. */
export function meantBy(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_LENGTH_SHOWN) return null
  const given = plain(name)
  // Nearly any short name is a letter or two from another.
  const most = given.length < 4 ? 0 : given.length < 8 ? 1 : 2
  const close = known
    .map((candidate) => ({ candidate, distance: distanceOf(given, plain(candidate), most) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
  return close[0]?.candidate ?? null
}

/** Without what differs between ways to write the same name: `responseFormat`, `response-format`. */
function plain(name: string): string {
  return name.toLowerCase().replace(/[_\s-]|\[\]$/g, '')
}

/** Letters to put in, take out, change or swap with their neighbour; over `most` when there are more. */
function distanceOf(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const row = new Array<number>(b.length + 1).fill(most + 1)
    row[0] = i
    // Further from the diagonal there are more in any case.
    for (let j = Math.max(1, i - most); j <= Math.min(b.length, i + most); j += 1) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const step = Math.min(row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
      row[j] = swapped ? Math.min(step, before[j - 2]! + 1) : step
    }
    if (Math.min(...row) > most) return most + 1
    before = last
    last = row
  }
  return last[b.length]!
}
