import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'

/** A schema, or another object of a contract. */
export type Schema = Readonly<Record<string, unknown>>

/** One operation of a contract, with references of its own parts resolved. */
export interface ContractOperation {
  readonly method: string
  /** As the contract writes it, e.g. `/v1/models/{model_id}`. */
  readonly path: string
  readonly parameters: readonly Schema[]
  /** Schemas of the request's body by media type; null: it takes none. */
  readonly bodies: Readonly<Record<string, Schema>> | null
  /** Schemas of the answer of 2xx by media type. */
  readonly answers: Readonly<Record<string, Schema>>
  /** Names of headers that a credential may be in, lower case, with what has to stand before it. */
  readonly credentials: readonly { readonly header: string; readonly prefix: string }[]
}

const ID = 'contract'

/** An OpenAPI document of version 3.0 or 3.1: its operations, and what its schemas say of a value. */
export class Contract {
  readonly #document: Schema
  readonly #ajv = new Ajv2020({
    strict: false,
    validateFormats: false,
    allErrors: true,
    verbose: true,
    logger: false,
  })
  readonly #checks = new WeakMap<Schema, ValidateFunction>()
  readonly #operations = new Map<string, ContractOperation>()
  readonly #resolved = new Map<string, Schema>()

  constructor(document: Schema) {
    this.#document = document
    const parts = partsIn(document)
    const schemas = mapped(asSchema(asSchema(document.components).schemas), (schema, name) =>
      parts.has(`#/components/schemas/${name}`) ? opened(normalized(schema)) : normalized(schema),
    )
    this.#ajv.addSchema({ $id: ID, components: { schemas } }, ID, false, false)
  }

  /** The operation that a request goes to; null: the contract has none. @param path below the root of the service */
  operation(method: string, path: string): ContractOperation | null {
    const paths = asSchema(this.#document.paths)
    const fitting = Object.keys(paths)
      .filter((one) => !one.includes('#') && fits(one, path) && method.toLowerCase() in asSchema(paths[one]))
      .sort((a, b) => countOf(a, '{') - countOf(b, '{'))
    const [name] = fitting
    if (name === undefined) return null
    const key = `${method.toLowerCase()} ${name}`
    const known = this.#operations.get(key) ?? this.#read(method.toLowerCase(), name, asSchema(paths[name]))
    this.#operations.set(key, known)
    return known
  }

  #read(method: string, path: string, item: Schema): ContractOperation {
    const operation = asSchema(item[method])
    const parameters = [...listOf(item.parameters), ...listOf(operation.parameters)]
      .map((one) => this.resolve(one))
      .map((one) => ({ ...one, schema: normalized(asSchema(one.schema)) }))
    const body = operation.requestBody === undefined ? null : this.resolve(asSchema(operation.requestBody))
    const good = Object.entries(asSchema(operation.responses)).find(([status]) =>
      /^2(?:00|XX|01)$/i.test(status),
    )
    return {
      method,
      path,
      parameters,
      bodies: body === null ? null : this.#schemas(body),
      answers: good === undefined ? {} : this.#schemas(this.resolve(asSchema(good[1]))),
      credentials: this.#credentials(operation, parameters),
    }
  }

  #schemas({ content }: Schema): Record<string, Schema> {
    return mapped(asSchema(content), (media) => normalized(asSchema(media.schema)))
  }

  /** Headers of the security schemes; where there are none, every header that the operation names. */
  #credentials(operation: Schema, parameters: readonly Schema[]) {
    const schemes = asSchema(asSchema(this.#document.components).securitySchemes)
    const asked = (operation.security ?? this.#document.security) as Schema[] | undefined
    const names = asked?.flatMap((one) => Object.keys(one)) ?? Object.keys(schemes)
    const declared = names.flatMap((name) => {
      const { type, scheme, in: place, name: header } = this.resolve(asSchema(schemes[name]))
      if (type === 'http' && `${scheme}`.toLowerCase() === 'bearer')
        return [{ header: 'authorization', prefix: 'Bearer ' }]
      return place === 'header' ? [{ header: `${header}`.toLowerCase(), prefix: '' }] : []
    })
    if (declared.length > 0) return declared
    return parameters
      .filter((one) => one.in === 'header')
      .map(({ name }) => ({ header: `${name}`.toLowerCase(), prefix: '' }))
  }

  /** Follows a `$ref` to its end. */
  resolve(schema: Schema): Schema {
    let found = schema
    for (let hops = 0; typeof found.$ref === 'string' && hops < 32; hops += 1) {
      const { $ref, ...beside } = found
      const target = this.#at($ref as string)
      found = Object.keys(beside).length === 0 ? target : { ...target, ...beside }
    }
    return found
  }

  /** Reads the target of a reference: schemas in the one dialect, the rest of the document as it came. */
  #at(reference: string): Schema {
    const known = this.#resolved.get(reference)
    if (known !== undefined) return known
    const parts = (reference.split('#')[1] ?? '').split('/').slice(1)
    const names = parts.map((part) => decodeURIComponent(part).replace(/~1/g, '/').replace(/~0/g, '~'))
    const target = asSchema(names.reduce<unknown>((at, name) => asSchema(at)[name], this.#document))
    const found = names[1] === 'schemas' ? normalized(target) : target
    this.#resolved.set(reference, found)
    return found
  }

  /** Faults of a value; empty: it fits. */
  faults(schema: Schema, value: unknown): readonly ErrorObject[] {
    const check = this.#checks.get(schema) ?? this.#ajv.compile(schema)
    this.#checks.set(schema, check)
    return check(value) ? [] : [...(check.errors ?? [])]
  }
}

/**
 * A schema in the dialect of OpenAPI 3.1, references absolute: `nullable` and boolean bounds of 3.0 are put as types
 * and numbers. `oneOf` is read as `anyOf`: contracts write it for lists of names beside any string, where a name on the
 * list is both.
 */
export function normalized(schema: Schema): Schema {
  const plain: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (/^x-|^(?:examples?|discriminator|nullable|oneOf|default|description|title)$/.test(key)) continue
    plain[key] = normalizedPart(key, value)
  }
  // Beside parts it is meant of all of them together.
  if (plain.allOf !== undefined && plain.additionalProperties === false) {
    delete plain.additionalProperties
    plain.unevaluatedProperties = false
  }
  if (Array.isArray(schema.oneOf)) {
    const branches = schema.oneOf.map((one) => normalized(asSchema(one)))
    plain.anyOf = [...((plain.anyOf as Schema[] | undefined) ?? []), ...branches]
  }
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (typeof plain[exclusive] !== 'boolean') continue
    if (plain[exclusive]) [plain[exclusive], plain[bound]] = [plain[bound], undefined]
    else delete plain[exclusive]
    if (plain[bound] === undefined) delete plain[bound]
  }
  return schema.nullable === true ? { anyOf: [plain, { type: 'null' }] } : plain
}

function normalizedPart(key: string, value: unknown): unknown {
  switch (key) {
    case '$ref':
      return `${value}`.startsWith('#/components/') ? `${ID}${value}` : value
    case 'properties':
    case 'patternProperties':
    case '$defs':
      return mapped(asSchema(value), normalized)
    case 'items':
    case 'not':
    case 'additionalProperties':
      return typeof value === 'object' ? normalized(asSchema(value)) : value
    case 'allOf':
      return listOf(value).map((part) => opened(normalized(part)))
    case 'anyOf':
    case 'prefixItems':
      return listOf(value).map(normalized)
    default:
      return value
  }
}

export function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null ? (value as Schema) : {}
}

export function listOf(value: unknown): readonly Schema[] {
  return Array.isArray(value) ? value.map(asSchema) : []
}

function mapped<Value>(
  schemas: Schema,
  change: (schema: Schema, name: string) => Value,
): Record<string, Value> {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, change(asSchema(schema), name)]),
  )
}

/**
 * A schema that takes more than it names: as a part of another one, `additionalProperties: false` would refuse all that
 * the other parts name, which no contract means.
 */
function opened(schema: Schema): Schema {
  const { additionalProperties: closed, unevaluatedProperties: _closed, ...open } = schema
  return closed === false || closed === undefined ? open : schema
}

/** References within an `allOf` anywhere. */
function partsIn(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value !== 'object' || value === null) return found
  for (const part of listOf((value as Schema).allOf)) if (typeof part.$ref === 'string') found.add(part.$ref)
  for (const inner of Object.values(value)) partsIn(inner, found)
  return found
}

function fits(template: string, path: string): boolean {
  const [given, wanted] = [path.split('/'), template.split('/')]
  return (
    given.length === wanted.length &&
    wanted.every((part, index) => /^\{.*\}$/.test(part) || part === given[index])
  )
}

function countOf(text: string, part: string): number {
  return text.split(part).length - 1
}
