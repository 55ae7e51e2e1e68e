import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

type Json = Readonly<Record<string, unknown>>

interface MediaType {
  readonly schema: Json
  readonly 'x-event-schema'?: Json
  readonly examples?: Readonly<Record<string, { readonly value: unknown } | { readonly $ref: string }>>
}

interface Answer {
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>
  readonly content?: Readonly<Record<string, MediaType>>
}

export interface Operation {
  readonly operationId: string
  readonly parameters?: readonly Json[]
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> }
  readonly responses: Readonly<Record<string, Answer | { readonly $ref: string }>>
}

export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: Readonly<
    Record<'schemas' | 'headers' | 'responses' | 'parameters' | 'examples', Readonly<Record<string, Json>>>
  >
}

/** An answer as it came. */
export interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
}

/** Of the connection and of its caches: no part of the interface. */
const PLAIN_HEADERS: ReadonlySet<string> = new Set([
  ...[
    'date',
    'connection',
    'keep-alive',
    'transfer-encoding',
    'content-length',
    'content-type',
    'uwebsockets',
  ],
  ...['cache-control', 'vary', 'content-encoding', 'x-content-type-options', 'x-accel-buffering'],
  ...['content-security-policy', 'referrer-policy', 'cross-origin-opener-policy'],
])

/**
 * Holds what was really sent against a document, strictly: whatever the document does not tell of is a fault, though
 * the document itself leaves room for more.
 */
export class DocumentUnderTest {
  readonly operations: ReadonlyMap<string, Operation>
  readonly #document: OpenApi
  readonly #ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    validateFormats: false,
    validateSchema: false,
  })
  readonly #compiled = new Map<string, ValidateFunction>()

  constructor(document: OpenApi) {
    this.#document = document
    this.#ajv.addSchema({ $id: 'document', components: closed(document.components) })
    const all = Object.values(document.paths).flatMap((methods) => Object.values(methods))
    this.operations = new Map(all.map((operation) => [operation.operationId, operation]))
  }

  /** What is wrong with an answer of an operation; empty when it is as documented. */
  faultsOf(id: string, { status, headers, body }: Answered): string[] {
    const answer = this.answer(id, status)
    if (answer === undefined)
      return [`${id}: the status ${status} is not documented: ${body.subarray(0, 300)}`]
    const type = (headers.get('content-type') ?? '').split(';')[0] ?? ''
    const where = `${id} ${status} ${type}`
    const faults = this.#headerFaults(answer, headers).map((fault) => `${where}: ${fault}`)
    if (body.length === 0) return faults
    const media = mediaOf(answer.content ?? {}, type)
    if (media === undefined) return [...faults, `${where}: the content type is not documented`]
    return [...faults, ...this.#bodyFaults(media, type, body).map((fault) => `${where}: ${fault}`)]
  }

  /** What is wrong with a body of JSON that is sent to an operation. */
  requestFaults(id: string, value: unknown): string[] {
    const media = this.operations.get(id)?.requestBody?.content['application/json']
    return media === undefined ? [`${id} takes no JSON`] : this.faults(media.schema, value)
  }

  /** What a value has against a schema of the document. */
  faults(schema: Json, value: unknown): string[] {
    const key = JSON.stringify(schema)
    let check = this.#compiled.get(key)
    if (check === undefined) {
      check = this.#ajv.compile(Object(rebased(closed(schema))))
      this.#compiled.set(key, check)
    }
    if (check(value)) return []
    return (check.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    )
  }

  answer(id: string, status: number): Answer | undefined {
    const answer = this.operations.get(id)?.responses[status]
    if (answer === undefined || !('$ref' in answer)) return answer as Answer | undefined
    return this.#document.components.responses[nameOf(answer.$ref)] as Answer | undefined
  }

  #headerFaults({ headers: documented = {} }: Answer, headers: Headers): string[] {
    const byName = new Map(Object.entries(documented).map(([name, { $ref }]) => [name.toLowerCase(), $ref]))
    const faults = [...headers].flatMap(([name, value]) => {
      if (PLAIN_HEADERS.has(name)) return []
      const ref = byName.get(name)
      if (ref === undefined) return [`the header ${name} is not documented`]
      const schema = this.#document.components.headers[nameOf(ref)]?.schema as Json
      const typed = /integer|number/.test(String(schema.type)) ? Number(value) : value
      return this.faults(schema, typed).map((fault) => `the header ${name}: ${fault}`)
    })
    return headers.has('x-lk-request-id') ? faults : [...faults, 'there is no X-LK-Request-ID']
  }

  #bodyFaults(media: MediaType, type: string, body: Buffer): string[] {
    if (type === 'text/event-stream') return this.#eventFaults(media, body.toString())
    if (type === 'application/json') return this.faults(media.schema, JSON.parse(body.toString()))
    return []
  }

  #eventFaults({ 'x-event-schema': schema }: MediaType, body: string): string[] {
    if (schema === undefined) return ['the events are not documented']
    const events = [...body.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data)
    if (events.length === 0) return ['there are no events']
    return events.filter((data) => data !== '[DONE]').flatMap((data) => this.faults(schema, JSON.parse(data)))
  }
}

function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

function mediaOf(content: Readonly<Record<string, MediaType>>, type: string): MediaType | undefined {
  return content[type] ?? content[`${type.split('/')[0]}/*`] ?? content['*/*']
}

/** References as they are from outside the document. */
function rebased(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/'))
}

/** The schemas with no room for members that they do not name. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const parts = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, closed(part)]))
  const types = [parts.type].flat()
  const isObject = types.includes('object') && typeof parts.properties === 'object'
  return isObject && !('additionalProperties' in parts) ? { ...parts, additionalProperties: false } : parts
}
