import { readFile } from 'node:fs/promises'
import { ERRORS, type ErrorCode } from '../../../contracts/errors.ts'
import { nextTurn } from '../../../contracts/time.ts'
import { readVersion } from '../../../contracts/version.ts'
import { JobEnded } from './answers.ts'
import { byStatus, ErrorEnvelope, errorTable, exampleOf, pascal, waits } from './errors.ts'
import type { HeaderName, ParameterName } from './headers.ts'
import { commonHeaders, HEADERS, inHeader, PARAMETERS } from './headers.ts'
import { type Answer, type Content, type ErrorShape, type Operation, TAGS } from './operation.ts'
import { type Json, PlainSchemas } from './schema.ts'
import { shareSchemas } from './shared-schemas.ts'

const EXAMPLES = new URL('examples.json', import.meta.url)

const ABOUT = [
  'A gateway for speech and audio. Each API key belongs to an app, whose published route decides which provider',
  'and model handle a request.\n\nA field of the wrong type is refused with a 400 that names it, `null` counts as not',
  'sent, and unknown fields are ignored with a line in `warnings`. Fields that name a provider, a model or a route are',
  'refused in audio requests and ignored in others; see the OpenAI paths for `model`. Answers may gain fields.',
].join(' ')

const ERRORS_INTRO =
  'Every error uses the envelope `Error`, including unknown paths and truncated bodies. ' +
  '`x-should-retry` equals `retryable`.'

const ALL_CODES = '<details>\n<summary>All error codes</summary>'

/** Requests to the demo and its answers, with long texts cut, by the id of the operation. */
export type Examples = Readonly<Record<string, readonly Example[]>>

export interface Example {
  readonly summary: string
  /** Null where the body is no JSON, or there is none. */
  readonly request: Json | null
  readonly status: number
  readonly type: string
  readonly answer: unknown
}

/** Makes the OpenAPI document of the endpoints of a node, of the schemas that requests are held to; in turns. */
export async function openApiDocument(operations: Iterable<Operation>): Promise<Json> {
  const document = new Document(JSON.parse(await readFile(EXAMPLES, 'utf8')) as Examples)
  for (const operation of operations) {
    document.add(operation)
    await nextTurn()
  }
  return shareSchemas(document.whole(await readVersion()))
}

/** Scopes of work for a caller, now or later. */
const OF_CALLS: ReadonlySet<string> = new Set(['inference', 'jobs', 'queue'])

/** `/v1/jobs/:id` as `/v1/jobs/{id}`. */
function templateOf(path: string): string {
  return path.replaceAll(/:(\w+)/g, '{$1}')
}

class Document {
  readonly #schemas = new PlainSchemas()
  readonly #examples: Examples
  readonly #paths: Record<string, Record<string, Json>> = {}
  readonly #responses: Record<string, Json> = {}
  readonly #responseTexts = new Map<string, string>()
  readonly #errorExamples: Record<string, Json> = {}

  constructor(examples: Examples) {
    this.#examples = examples
  }

  add(operation: Operation): void {
    const { method, id, tag, summary, description, scope, operator } = operation
    const path = templateOf(operation.path)
    const parameters = this.#parameters(operation)
    this.#paths[path] ??= {}
    this.#paths[path][method.toLowerCase()] = {
      tags: [tag],
      operationId: id,
      summary,
      ...(description === undefined ? {} : { description }),
      security: scope === null ? [] : [{ ApiKey: [scope] }, ...(operator ? [{ ApiKey: ['operator'] }] : [])],
      ...(parameters.length === 0 ? {} : { parameters }),
      ...(operation.body === undefined ? {} : { requestBody: this.#body(operation, operation.body) }),
      responses: { ...this.#answers(operation), ...this.#errors(operation) },
    }
  }

  whole(version: string): Json {
    const hooks = webhooks(this.#schemas)
    this.#schemas.of(ErrorEnvelope)
    return {
      openapi: '3.1.1',
      info: {
        title: 'Larkway',
        version,
        description: [ABOUT, ERRORS_INTRO, ALL_CODES, errorTable(), '</details>'].join('\n\n'),
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: './', description: 'this node' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      paths: this.#paths,
      webhooks: hooks,
      components: {
        securitySchemes: {
          ApiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'a Larkway API key, `lk_live_…`; each operation names the scope it needs',
          },
        },
        parameters: PARAMETERS,
        headers: HEADERS,
        responses: this.#responses,
        examples: this.#errorExamples,
        schemas: this.#schemas.components,
      },
    }
  }

  #parameters({ path, scope, parameters }: Operation): Json[] {
    const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => pathParameter(name))
    const ofCalls = scope !== null && OF_CALLS.has(scope) ? (['Traceparent', 'EndUser'] as const) : []
    return [...inPath, ...parameters, 'RequestId', ...ofCalls].map((parameter) =>
      typeof parameter === 'string' ? { $ref: `#/components/parameters/${parameter}` } : parameter,
    )
  }

  #body({ id }: Operation, contents: readonly Content[]): Json {
    const asked = (this.#examples[id] ?? []).filter(({ request }) => request !== null)
    const examples = asked.map(({ summary, request }) => [
      pascal(summary.replaceAll(/\W+/g, '_')),
      { summary, value: request },
    ])
    const content = contents.map((one) => [
      one.type,
      {
        ...this.#content(one),
        ...(one.type === 'application/json' && examples.length > 0
          ? { examples: Object.fromEntries(examples) }
          : {}),
      },
    ])
    return { required: true, content: Object.fromEntries(content) }
  }

  #answers(operation: Operation): Json {
    const common = successHeaders(operation)
    return Object.fromEntries(
      operation.answers.map((answer) => [String(answer.status), this.#answer(operation.id, answer, common)]),
    )
  }

  #answer(
    id: string,
    { status, description, contents = [], headers = [] }: Answer,
    common: HeaderName[],
  ): Json {
    const content = contents.map((one) => {
      const given = (this.#examples[id] ?? []).filter(
        (example) => example.status === status && isOf(example, one),
      )
      const examples = given.map(({ summary, answer }) => [
        pascal(summary.replaceAll(/\W+/g, '_')),
        { summary, value: answer },
      ])
      const shown = examples.length > 0 ? { examples: Object.fromEntries(examples) } : {}
      return [one.type, { ...this.#content(one), ...shown }]
    })
    return {
      description,
      headers: headerRefs([...headers, ...common]),
      ...(content.length > 0 ? { content: Object.fromEntries(content) } : {}),
    }
  }

  #content({ schema, event }: Content): Json {
    return {
      schema: this.#schemas.of(schema),
      ...(event === undefined ? {} : { 'x-event-schema': this.#schemas.of(event) }),
    }
  }

  /** Errors of the operation by status; answers with the same codes and headers are one component. */
  #errors(operation: Operation): Json {
    const refs = [...byStatus([...new Set(operation.errors)])].map(([status, codes]) => {
      const { errorShape } = operation
      const ref = errorShape === undefined ? ERROR_REF : this.#schemas.of(errorShape.schema)
      const examples = Object.fromEntries(codes.map((code) => [code, this.#errorExample(code, errorShape)]))
      const headers = errorHeaders(operation, status, codes)
      const response = errorResponse(codes, headers, { errorShape, ref, examples })
      const name = codes.map(pascal).join('Or')
      const { tag, id } = operation
      const names = [name, `${name}${tag}`, `${name}${id[0]?.toUpperCase()}${id.slice(1)}`]
      const text = JSON.stringify(response)
      const free = names.find((one) => (this.#responseTexts.get(one) ?? text) === text) ?? name
      this.#responseTexts.set(free, text)
      this.#responses[free] = response
      return [String(status), { $ref: `#/components/responses/${free}` }]
    })
    return Object.fromEntries(refs)
  }

  /** An error as it is sent is the same in all answers that have it. */
  #errorExample(code: ErrorCode, errorShape: ErrorShape | undefined): Json {
    const name =
      errorShape === undefined ? code : `${code}.${schemaName(this.#schemas.of(errorShape.schema))}`
    this.#errorExamples[name] ??= { summary: ERRORS[code].message, value: exampleOf(code, errorShape) }
    return { $ref: `#/components/examples/${name}` }
  }
}

/** A parameter in the path is described once, by its name. */
function pathParameter(name: string): ParameterName | Json {
  const known = (Object.keys(PARAMETERS) as ParameterName[]).find((one) => PARAMETERS[one].name === name)
  return known ?? { name, in: 'path', required: true, schema: { type: 'string' } }
}

function successHeaders(operation: Operation): HeaderName[] {
  const { scope, idempotent } = operation
  const ignored = scope !== null && !idempotent ? (['X-LK-Idempotency'] as const) : []
  return [...ignored, ...commonHeaders(operation)]
}

function errorHeaders(operation: Operation, status: number, codes: readonly ErrorCode[]): HeaderName[] {
  const isKnown = status !== ERRORS.UNAUTHENTICATED.status
  return [
    ...commonHeaders(operation, isKnown),
    ...(operation.errorHeaders ?? []),
    'x-should-retry',
    ...(isKnown ? [] : (['WWW-Authenticate'] as const)),
    ...(codes.some(waits) ? (['Retry-After'] as const) : []),
    ...(codes.includes('PRECONDITION_FAILED') ? (['Tus-Version'] as const) : []),
    ...(operation.scope === null ? [] : (['X-LK-Idempotency'] as const)),
  ]
}

/** The envelope, and what a door has beside it. */
interface ErrorSchema {
  readonly errorShape: ErrorShape | undefined
  readonly ref: Json
  readonly examples: Json
}

/** The name of the component that a reference leads to. */
function schemaName({ $ref: ref }: Json): string {
  return String(ref).slice(String(ref).lastIndexOf('/') + 1)
}

const ERROR_REF = { $ref: '#/components/schemas/Error' }

function errorResponse(
  codes: readonly ErrorCode[],
  headers: readonly HeaderName[],
  { errorShape, ref, examples }: ErrorSchema,
): Json {
  const named = { code: { enum: codes } }
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join('; '),
    headers: headerRefs(headers),
    content: {
      'application/json': {
        schema: {
          allOf: [
            ref,
            { properties: errorShape?.isFlat === true ? named : { error: { properties: named } } },
          ],
        },
        examples,
      },
    },
  }
}

function headerRefs(names: readonly HeaderName[]): Json {
  return Object.fromEntries(
    [...new Set(names)].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  )
}

function isOf({ type }: Example, content: Content): boolean {
  return content.type === type || (content.type.endsWith('/*') && type.startsWith(content.type.slice(0, -1)))
}

const header = (name: string, description: string): Json => ({
  ...inHeader(name, description),
  required: true,
})

/** Documents what a node sends to the webhook of a workspace. */
function webhooks(schemas: PlainSchemas): Json {
  return {
    transcriptionJobEnded: {
      post: {
        tags: ['Jobs'],
        operationId: 'transcriptionJobEnded',
        summary: 'Transcription job ended',
        description:
          'Sent to the webhook of the workspace at least once: deduplicate by `job_id`. Verify the signature, and ' +
          'reject timestamps older than a few minutes.',
        security: [],
        parameters: [
          header('X-LK-Webhook-Id', '`evt_…`, the same for every delivery'),
          header('X-LK-Webhook-Ts', 'time of this delivery, Unix seconds'),
          header(
            'X-LK-Webhook-Signature',
            'hex HMAC-SHA256 of `<X-LK-Webhook-Ts>.<body>`, keyed with the secret as shown',
          ),
          header('webhook-id', 'Standard Webhooks'),
          header('webhook-timestamp', 'Standard Webhooks'),
          header('webhook-signature', 'Standard Webhooks; two signatures for a day after a rotation'),
        ],
        requestBody: { required: true, content: { 'application/json': { schema: schemas.of(JobEnded) } } },
        responses: {
          '2XX': { description: 'received' },
          '410': { description: 'ends the deliveries of this event' },
          default: { description: 'anything else is retried, up to 8 attempts over about nine hours' },
        },
      },
    },
  }
}
