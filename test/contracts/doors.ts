import { ERRORS, GatewayError } from '../../src/contracts/errors.ts'
import type { UpstreamRequest } from '../../src/contracts/upstream.ts'
import type { DoorOptions } from '../../src/gateway/api/door-options.ts'
import { isOn } from '../../src/gateway/api/door-options.ts'
import type { Door } from '../../src/gateway/api/endpoint.ts'
import { encodeForm } from '../../src/gateway/providers/form.ts'
import { audio } from '../support/call.ts'
import { sampleOf } from './answers.ts'
import { asSchema, type Contract, type ContractOperation, listOf, type Schema } from './contract.ts'
import { propertiesOf } from './requests.ts'

/** A request to a door of the gateway's own, in a vendor's format, and what is answered to it. */
export interface DoorCase {
  readonly name: string
  /** As it would be sent to the vendor. */
  readonly request: UpstreamRequest
  /** Bodies of answers of 2xx that are JSON; none: it is refused, or answered with bytes. */
  readonly answers: readonly object[]
  /** Body of an answer of 4xx; null: it is not refused. */
  readonly refusal: object | null
  readonly events: readonly object[]
  /** Breaches of the door's own table. */
  readonly wrong: readonly string[]
}

/** Values of options, by name: of the query, and of the body. */
export interface DoorRequest {
  readonly query: URLSearchParams
  readonly body: Readonly<Record<string, unknown>>
}

/** An endpoint of a door: what it takes, and its translation as a function. */
export interface DoorEndpoint {
  readonly door: Door
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Below the root of the vendor's service. */
  readonly path: string
  /** How a body is sent; null: there is none, or it is the audio. */
  readonly bodyAs: 'json' | 'form' | 'audio' | null
  /** Members of the body that every request has. */
  readonly always: Readonly<Record<string, unknown>>
  /** Fates of the options. */
  readonly table: DoorOptions
  /** Documented names that are no options: where the audio is, for one. */
  readonly besides: readonly string[]
  /** @throws GatewayError */
  ask(request: DoorRequest): { readonly warnings: readonly string[]; readonly answers: readonly object[] }
}

/** One value of one documented option. */
interface Choice {
  readonly option: string
  readonly place: 'query' | 'body'
  readonly value: unknown
}

/** Most values of one option. */
const VALUES_MAX = 12
const KEY = 'secret'
const FILE = { ...audio(), source: { kind: 'memory' as const, blocks: [] } }

/** A request as it would be sent to the vendor. */
export function requestTo(
  method: DoorEndpoint['method'],
  url: string,
  body: {
    readonly json?: object
    readonly form?: readonly (readonly [string, string])[]
    readonly bytes?: true
  },
): UpstreamRequest {
  const credentials = { authorization: `Bearer ${KEY}`, 'xi-api-key': KEY }
  if (body.json !== undefined) {
    const headers = { ...credentials, 'content-type': 'application/json' }
    return { method, url, headers, body: [Buffer.from(JSON.stringify(body.json))] }
  }
  if (body.form !== undefined) {
    const form = encodeForm(url, [...body.form], { name: 'file', audio: FILE })
    return { method, url, headers: { ...credentials, 'content-type': form.contentType }, body: form.body }
  }
  if (body.bytes === undefined) return { method, url, headers: credentials, body: [] }
  return {
    method,
    url,
    headers: { ...credentials, 'content-type': 'audio/wav' },
    body: [Buffer.from('RIFF')],
  }
}

/**
 * Asks an endpoint for everything that its vendor documents: the plain request, every value of every option alone, and
 * every pair of options.
 *
 * @param root base URL of the vendor's service
 */
export function doorCases(contract: Contract, root: string, endpoint: DoorEndpoint): DoorCase[] {
  const { method, path } = endpoint
  const operation = contract.operation(method, path)
  const choices = operation === null ? [] : choicesOf(contract, operation, endpoint)
  const firsts = [...new Map(choices.toReversed().map((one) => [one.option, one])).values()].toReversed()
  const pairs = firsts.flatMap((one, index) => firsts.slice(index + 1).map((other) => [one, other]))
  return [[], ...choices.map((one) => [one]), ...pairs].map((chosen) => caseOf(root, endpoint, chosen))
}

function choicesOf(
  contract: Contract,
  { parameters, bodies }: ContractOperation,
  { besides, always, bodyAs }: DoorEndpoint,
): Choice[] {
  const inQuery = parameters
    .filter((one) => one.in === 'query')
    .map((one) => [`${one.name}`, 'query', asSchema(one.schema)] as const)
  const [body] = bodyAs === 'audio' ? [] : Object.values(bodies ?? {})
  const inBody = body === undefined ? [] : [...propertiesOf(contract, body)]
  const documented = [...inQuery, ...inBody.map(([name, schema]) => [name, 'body', schema] as const)]
  return documented
    .filter(([name]) => !besides.includes(name) && !Object.hasOwn(always, name))
    .flatMap(([option, place, schema]) =>
      valuesOf(contract, schema).map((value) => ({ option, place, value })),
    )
}

/** Values that a schema allows: all of its names, both of two, the bounds of a number. */
function valuesOf(contract: Contract, given: Schema, depth = 0): unknown[] {
  const schema = contract.resolve(given)
  const { type, items, minimum, maximum } = schema
  const branches = [...listOf(schema.anyOf), ...listOf(schema.allOf)]
  if ('const' in schema) return [schema.const]
  if (Array.isArray(schema.enum)) return schema.enum.filter((one) => one !== null).slice(0, VALUES_MAX)
  if (branches.length > 0 && depth < 4) {
    const values = branches.flatMap((one) => valuesOf(contract, one, depth + 1))
    return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()].slice(0, VALUES_MAX)
  }
  switch (Array.isArray(type) ? type.find((one) => one !== 'null') : type) {
    case 'boolean':
      return [true, false]
    case 'number':
    case 'integer':
      return [...new Set([minimum, maximum].filter((bound) => bound !== undefined)), 1].slice(0, 2)
    case 'array': {
      const [first, second = first] = valuesOf(contract, asSchema(items), depth + 1)
      return first === undefined ? [] : [[first], [first, second]]
    }
    case 'null':
      return []
    default: {
      const sample = sampleOf(contract, schema)
      return sample === undefined ? [] : [sample]
    }
  }
}

function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  return [typeof value === 'object' ? JSON.stringify(value) : `${value}`]
}

function caseOf(root: string, endpoint: DoorEndpoint, chosen: readonly Choice[]): DoorCase {
  const { method, path, bodyAs, always } = endpoint
  const query = new URLSearchParams(
    chosen
      .filter(({ place }) => place === 'query')
      .flatMap(({ option, value }) => textsOf(value).map((text): [string, string] => [option, text])),
  )
  const fields = chosen.filter(({ place }) => place === 'body')
  const body = { ...always, ...Object.fromEntries(fields.map(({ option, value }) => [option, value])) }
  const url = `${root}${path}${query.size === 0 ? '' : `?${query}`}`
  const form = Object.entries(body).flatMap(([name, value]) =>
    textsOf(value).map((text) => [name, text] as const),
  )
  const request = requestTo(method, url, {
    ...(bodyAs === 'json' ? { json: body } : {}),
    ...(bodyAs === 'form' ? { form } : {}),
    ...(bodyAs === 'audio' ? { bytes: true } : {}),
  })
  const given = chosen.map(({ option, value }) => `${option}=${JSON.stringify(value)}`).join(' ')
  const name = `${method} ${path} ${given}`.trim()
  return { name, request, events: [], ...replyTo(endpoint, { query, body }, chosen) }
}

function replyTo(
  endpoint: DoorEndpoint,
  request: DoorRequest,
  chosen: readonly Choice[],
): Pick<DoorCase, 'answers' | 'refusal' | 'wrong'> {
  const { table, door } = endpoint
  const without = chosen.filter(({ option }) => !Object.hasOwn(table, option))
  const missing = without.map(({ option }) => `${option} has no row in the table`)
  try {
    const { warnings, answers } = endpoint.ask(request)
    const taken = chosen
      .filter(({ option, value }) => table[option]?.fate === 'refused' && textsOf(value).some(isOn))
      .map(({ option }) => `${option} is taken, which the table says is refused`)
    const ignored = warnings.filter((line) => /unknown field/.test(line)).map((line) => `ignores ${line}`)
    const silent = chosen
      .filter(({ option, value }) => table[option]?.fate === 'warned' && textsOf(value).some(isOn))
      .filter(({ option }) => !warnings.some((line) => line.startsWith(`${option}:`)))
      .map(({ option }) => `${option} has no effect, and no warning says so`)
    return { answers, refusal: null, wrong: [...missing, ...taken, ...ignored, ...silent] }
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) return { answers: [], refusal: null, wrong: [`throws ${thrown}`] }
    const error = door.translateError(thrown, { headers: {} })
    const wrong = [...missing, ...wrongRefusal(error, table, chosen)]
    return { answers: [], refusal: door.errorShape?.members(error, 'req_1') ?? null, wrong }
  }
}

/** A refusal names one of the options that were sent, and not one that is never refused. */
function wrongRefusal(
  { code, message, extra }: GatewayError,
  table: DoorOptions,
  chosen: readonly Choice[],
): string[] {
  const [param = ''] = `${extra.param}`.split(/[.[]/)
  if (ERRORS[code].status !== 400) return [`is answered ${code}: ${message}`]
  if (!chosen.some(({ option }) => option === param))
    return [`refuses ${param}, which was not sent: ${message}`]
  const fate = table[param]?.fate
  return fate === 'warned' || fate === 'hint' ? [`refuses ${param}, which the table says is ${fate}`] : []
}
