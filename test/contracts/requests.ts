import type { ErrorObject } from 'ajv/dist/2020.js'
import type { UpstreamRequest } from '../../src/contracts/upstream.ts'
import { bytesOf } from '../support/form-of.ts'
import { asSchema, type Contract, type ContractOperation, listOf, type Schema } from './contract.ts'

/** Habits of a vendor that its contract cannot say. */
export interface RequestHabits {
  /** Base URL of the paths in the contract. */
  readonly root: string
  /** Operations that also take the audio as it is, which their contract does not write down: `post /v1/listen`. */
  readonly rawAudio?: readonly string[]
  /** Lists of forms are fields of the name and `[]`. */
  readonly bracketLists?: boolean
  /** Faults by the file that newer documents of the vendor's allow, each with its source. */
  readonly beyond?: readonly { readonly fault: RegExp; readonly source: string }[]
}

export interface RequestFault {
  /** Place and complaint, e.g. `body/language must match pattern`. */
  readonly message: string
  /** The value is the caller's own, and is passed on as it was given. */
  readonly byCaller: boolean
  /** The document of the vendor's that says otherwise; absent: none is known. */
  readonly source?: string
}

/** Judgement of a request; `operation` is null when the contract has no such. */
export interface Judged {
  readonly operation: ContractOperation | null
  readonly faults: readonly RequestFault[]
}

/** @param own strings that the caller chose */
export async function judgeRequest(
  contract: Contract,
  habits: RequestHabits,
  request: UpstreamRequest,
  own: ReadonlySet<string>,
): Promise<Judged> {
  const url = new URL(request.url)
  const path = `${url.origin}${url.pathname}`.startsWith(habits.root)
    ? `${url.origin}${url.pathname}`.slice(habits.root.length)
    : null
  const operation = path === null ? null : contract.operation(request.method, decodeURIComponent(path))
  if (operation === null) {
    const where = `${request.method} ${path ?? request.url}`
    return {
      operation: null,
      faults: [{ message: `${where} is no operation of the contract`, byCaller: false }],
    }
  }
  const judge = (place: string, schema: Schema, value: unknown) =>
    readable(contract.faults(schema, value), place, own)
  const named = new Map(operation.parameters.map((one) => [`${one.in} ${one.name}`, one]))
  const found: RequestFault[] = [
    ...judgeCredential(operation, request),
    ...judgeFields('query', pairsOf(url.searchParams), named, contract, judge),
    ...required(operation, url.searchParams, request),
    ...(await judgeBody(operation, habits, request, contract, judge)),
  ]
  const newer = ({ message }: RequestFault) => habits.beyond?.find(({ fault }) => fault.test(message))?.source
  const faults = found.map((fault) => {
    const source = newer(fault)
    return source === undefined ? fault : { ...fault, source }
  })
  return { operation, faults }
}

type Judge = (place: string, schema: Schema, value: unknown) => RequestFault[]

function judgeCredential({ credentials }: ContractOperation, { headers }: UpstreamRequest): RequestFault[] {
  if (credentials.length === 0) return []
  const carries = credentials.some(({ header, prefix }) => headers[header]?.startsWith(prefix) === true)
  if (carries) return []
  const places = credentials.map(({ header, prefix }) => `${header}: ${prefix}…`).join(' or ')
  return [{ message: `header: no credential in ${places}`, byCaller: false }]
}

function required({ parameters }: ContractOperation, query: URLSearchParams, { headers }: UpstreamRequest) {
  return parameters.flatMap(({ name, in: place, required: needed }): RequestFault[] => {
    const given = place === 'query' ? query.has(`${name}`) : `${name}`.toLowerCase() in headers
    if (needed !== true || place === 'path' || given) return []
    return [{ message: `${place}: ${name} is missing`, byCaller: false }]
  })
}

function judgeFields(
  place: string,
  fields: ReadonlyMap<string, readonly string[]>,
  named: ReadonlyMap<string, Schema>,
  contract: Contract,
  judge: Judge,
): RequestFault[] {
  return [...fields].flatMap(([name, values]) => {
    const parameter = named.get(`${place} ${name}`)
    if (parameter === undefined) return [{ message: `${place}: ${name} is unknown`, byCaller: false }]
    const schema = asSchema(parameter.schema)
    const value = readFields(values, contract.resolve(schema), contract)
    return judge(`${place}/${name}`, schema, value)
  })
}

async function judgeBody(
  operation: ContractOperation,
  { rawAudio = [], bracketLists = false }: RequestHabits,
  request: UpstreamRequest,
  contract: Contract,
  judge: Judge,
): Promise<RequestFault[]> {
  const type = (request.headers['content-type'] ?? '').split(';')[0] ?? ''
  const isRaw = /^audio\/|^application\/octet-stream$/.test(type)
  if (request.body.length === 0) {
    return operation.bodies === null ? [] : [{ message: 'body: is missing', byCaller: false }]
  }
  if (
    isRaw &&
    (rawAudio.includes(`${operation.method} ${operation.path}`) || operation.bodies?.[type] !== undefined)
  )
    return []
  const schema = operation.bodies?.[type]
  if (schema === undefined) return [{ message: `header/content-type: ${type} is not taken`, byCaller: false }]
  const whole = strict(schema)
  if (type === 'application/json') return judge('body', whole, JSON.parse(bytesOf(request).toString()))
  const form = await formOf(request)
  const properties = propertiesOf(contract, schema)
  const misnamed: RequestFault[] = []
  const body: Record<string, unknown> = {}
  for (const [field, values] of form) {
    const isList = field.endsWith('[]')
    const name = bracketLists && isList ? field.slice(0, -2) : field
    const property = properties.get(name)
    const takes = property === undefined ? null : contract.resolve(property)
    if (bracketLists && takes?.type === 'array' && !isList)
      misnamed.push({ message: `body/${name}: a list is sent as ${name}[]`, byCaller: false })
    body[name] = takes === null ? values[0] : readFields(values, takes, contract)
  }
  return [...misnamed, ...judge('body', whole, body)]
}

const strictSchemas = new WeakMap<Schema, Schema>()

/** The same, and nothing beside what it names. */
function strict(schema: Schema): Schema {
  const known = strictSchemas.get(schema) ?? { allOf: [schema], unevaluatedProperties: false }
  strictSchemas.set(schema, known)
  return known
}

/** Fields of a multipart body, files as `<file>`. */
async function formOf(request: UpstreamRequest): Promise<Map<string, string[]>> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  const form = await new Response(Uint8Array.from(bytesOf(request)), { headers }).formData()
  const fields = new Map<string, string[]>()
  for (const [name, value] of form)
    fields.set(name, [...(fields.get(name) ?? []), typeof value === 'string' ? value : '<file>'])
  return fields
}

function pairsOf(query: URLSearchParams): Map<string, string[]> {
  return new Map([...new Set(query.keys())].map((name) => [name, query.getAll(name)]))
}

/** Properties of an object schema, those of its parts and branches among them. */
export function propertiesOf(contract: Contract, schema: Schema, depth = 0): Map<string, Schema> {
  const { properties, allOf, anyOf } = contract.resolve(schema)
  const found = new Map(Object.entries(asSchema(properties)).map(([name, one]) => [name, asSchema(one)]))
  if (depth < 4)
    for (const part of [...listOf(allOf), ...listOf(anyOf)])
      for (const [name, one] of propertiesOf(contract, part, depth + 1))
        if (!found.has(name)) found.set(name, one)
  return found
}

/** Text fields as the values that their schema is about. */
function readFields(values: readonly string[], schema: Schema, contract: Contract): unknown {
  const kinds = typesOf(schema, contract)
  const [only = ''] = values
  if (kinds.has('array') && (values.length > 1 || !kinds.has(typeOfText(only)))) {
    const items = contract.resolve(
      listOf([schema, ...branchesOf(schema, contract)])
        .map(({ items }) => asSchema(items))
        .find((one) => Object.keys(one).length > 0) ?? {},
    )
    return values.map((value) => readFields([value], items, contract))
  }
  if (kinds.has('boolean') && /^(?:true|false)$/.test(only)) return only === 'true'
  if ((kinds.has('number') || kinds.has('integer')) && /^-?\d+(?:\.\d+)?$/.test(only)) return Number(only)
  if (kinds.has('object') && !kinds.has('string') && only.startsWith('{')) return JSON.parse(only)
  return only
}

function typeOfText(text: string): string {
  if (/^(?:true|false)$/.test(text)) return 'boolean'
  return 'string'
}

function branchesOf(schema: Schema, contract: Contract): Schema[] {
  return listOf(schema.anyOf).map((one) => contract.resolve(one))
}

function typesOf(schema: Schema, contract: Contract, depth = 0): Set<string> {
  const { type, enum: names } = schema
  const own = Array.isArray(type) ? type.map(String) : typeof type === 'string' ? [type] : []
  const named = Array.isArray(names) ? names.map((name) => typeof name) : []
  const inner =
    depth < 4 ? branchesOf(schema, contract).flatMap((one) => [...typesOf(one, contract, depth + 1)]) : []
  return new Set([...own, ...named, ...inner])
}

/** Puts faults in a few words, one for each place; the caller's are those of his own words. */
export function readable(
  errors: readonly ErrorObject[],
  place: string,
  own: ReadonlySet<string>,
): RequestFault[] {
  if (errors.length === 0) return []
  const telling = errors.filter(({ keyword }) => keyword !== 'anyOf' && keyword !== 'type')
  const byPath = new Map<string, ErrorObject>()
  for (const error of telling.length > 0 ? telling : errors)
    if (!byPath.has(error.instancePath)) byPath.set(error.instancePath, error)
  return [...byPath].map(([path, { message = '', params, data }]) => ({
    message: `${place}${path.replaceAll(/\/\d+/g, '/*')} ${message} ${detailOf(params)}`.trim(),
    byCaller: typeof data === 'string' && own.has(data),
  }))
}

function detailOf(params: Record<string, unknown>): string {
  const { unevaluatedProperty, additionalProperty, allowedValues, missingProperty } = params
  const detail = unevaluatedProperty ?? additionalProperty ?? missingProperty ?? allowedValues
  return detail === undefined ? '' : `(${`${detail}`.slice(0, 80)})`
}
