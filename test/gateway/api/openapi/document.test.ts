import { readFile } from 'node:fs/promises'
import { Ajv2020 as Ajv } from 'ajv/dist/2020.js'
import t from 'tap'
import { Type } from 'typebox'
import { managementOperations } from '../../../../src/console/server/table.ts'
import { ERRORS } from '../../../../src/contracts/errors.ts'
import { SELECTOR_FIELDS } from '../../../../src/gateway/api/fields.ts'
import type { ResultLinks } from '../../../../src/gateway/api/native/results.ts'
import { TRANSCRIPTION_FIELDS } from '../../../../src/gateway/api/native/transcription-request.ts'
import { type Examples, openApiDocument } from '../../../../src/gateway/api/openapi/document.ts'
import { type Json, PlainSchemas } from '../../../../src/gateway/api/openapi/schema.ts'
import { shareSchemas } from '../../../../src/gateway/api/openapi/shared-schemas.ts'
import { type ApiContext, createRoutes, ENDPOINTS } from '../../../../src/gateway/api/table.ts'
import { CatalogFile } from '../../../../src/gateway/catalog/file.ts'
import { ENVIRONMENT_SCHEMA } from '../../../../src/gateway/node/config.ts'
import { emptyConsoleContext } from '../../../support/console-endpoints.ts'
import { DocumentUnderTest, type OpenApi } from '../../../support/openapi-document.ts'

const document = (await openApiDocument(ENDPOINTS)) as unknown as OpenApi
const text = JSON.stringify(document)
const managed = managementOperations(emptyConsoleContext())
const whole = (await openApiDocument([...ENDPOINTS, ...managed])) as unknown as OpenApi

// No request goes through them. The paths of the console are for its page, not for applications.
const context = { services: { state: {} }, jobs: {} } as unknown as ApiContext
const routes = (links: ResultLinks | null) =>
  createRoutes({ ...context, links }).map(({ method, path }) => `${method} ${path}`)

/** A part of a document, or the one that it refers to. */
function resolved(part: unknown, whole: object = document): Readonly<Record<string, unknown>> {
  const { $ref: ref } = Object(part)
  if (typeof ref !== 'string') return Object(part)
  const names = ref.split('/').slice(1)
  return Object(names.reduce<unknown>((at, name) => Object(at)[name], whole))
}

/** The same with each schema where it is used, as if none had a name. */
function inlined(part: unknown, whole: object): unknown {
  if (typeof part !== 'object' || part === null) return part
  if (Array.isArray(part)) return part.map((one) => inlined(one, whole))
  const isSchema = String(Object(part).$ref).startsWith('#/components/schemas/')
  const found = isSchema ? resolved(part, whole) : part
  return Object.fromEntries(Object.entries(found).map(([name, one]) => [name, inlined(one, whole)]))
}

/** Objects and longer unions of a document that are in two places at least. */
function repeated(part: unknown, seen = new Set<string>()): string[] {
  if (typeof part !== 'object' || part === null) return []
  const { type, properties, example } = Object(part)
  const text = JSON.stringify(part)
  const isShape = type === 'object' && properties !== undefined && example === undefined && text.length > 150
  if (isShape && seen.has(text)) return [text]
  if (isShape) seen.add(text)
  return Object.entries(part).flatMap(([name, one]) => (name === 'examples' ? [] : repeated(one, seen)))
}

t.test('a shape that stands more than once has a name, and means what it did in its places', async (t) => {
  const given = Object.keys(whole.components.schemas).filter((name) => /^[A-Z]\w*$/.test(name))
  t.equal(given.length, Object.keys(whole.components.schemas).length, 'as types are called')
  t.notMatch(given.join(' '), /\d\b|Undefined/, 'and by what they are')
  const { Redaction, NullableRedaction } = whole.components.schemas
  t.equal(JSON.stringify(NullableRedaction).match(/#\/components\/schemas\/RedactionArrayItem/g)?.length, 1)
  t.match(JSON.stringify(Redaction), 'RedactionArrayItem', 'enumerations within unions have names')
  const { schemas: _, ...components } = whole.components
  const flat = inlined({ ...whole, components }, whole) as OpenApi
  const again = await shareSchemas({ ...flat, components: { ...flat.components, schemas: {} } } as Json)
  t.same(repeated(again), [], 'the document of inline schemas is shared, too')
  const { schemas: __, ...parts } = again.components as OpenApi['components']
  t.same(inlined({ ...again, components: parts }, again), flat)
  t.ok(JSON.stringify(whole).length < JSON.stringify(flat).length / 2)
})

t.test('the event loop has its turns while the document is made', async (t) => {
  let turns = 0
  const counting = setInterval(() => {
    turns += 1
  }, 0)
  await openApiDocument([...ENDPOINTS, ...managed])
  clearInterval(counting)
  t.ok(turns > 10, `${turns} timers ran`)
})

t.test('answers with errors are types that operations share', async (t) => {
  for (const [name, { content }] of Object.entries(document.components.responses))
    t.match(Object(content)['application/json'].schema.$ref, /^#\/components\/schemas\/\w+$/, name)
})

t.test('each body of audio can be sent as bytes of no type, which every generator knows', async (t) => {
  const bodies = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .map(({ requestBody }) => requestBody?.content ?? {})
    .filter((content) => 'audio/*' in content)
  t.ok(bodies.length >= 7)
  for (const content of bodies) {
    t.same(content['application/octet-stream'], content['audio/*'])
    const types = Object.keys(content)
    t.ok(
      types.indexOf('application/octet-stream') < types.indexOf('audio/*'),
      'first, for those that take one',
    )
  }
})

t.test('every route is documented, and nothing else is', async (t) => {
  const served = routes({} as ResultLinks).sort()
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
  )
  t.same(documented.sort(), served)
  t.equal(new Set(ENDPOINTS.map(({ id }) => id)).size, ENDPOINTS.length, 'each has an id of its own')
  const without = routes(null)
  t.same(
    served.filter((name) => !without.includes(name)),
    ['GET /results/:token'],
    'where the object store opens its URLs itself, results are not served',
  )
})

t.test('every parameter of a path is documented, and none is stale', async (t) => {
  for (const [path, methods] of Object.entries(document.paths)) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    for (const { operationId, parameters = [] } of Object.values(methods)) {
      const found = parameters.map(
        (one) => document.components.parameters[String(one.$ref).split('/').at(-1) ?? ''] ?? one,
      )
      t.same(
        found.filter((one) => one.in === 'path').map(({ name }) => name),
        inPath,
        operationId,
      )
    }
  }
})

t.test('every error is documented', async (t) => {
  for (const [code, { status, retryable, message }] of Object.entries(ERRORS)) {
    const row = `| ${status} | \`${code}\` | ${retryable ? 'yes' : 'no'} | ${message} |`
    t.equal(text.includes(JSON.stringify(row).slice(1, -1)), code !== 'CLIENT_CLOSED', code)
  }
  const documented = new Set(ENDPOINTS.flatMap(({ errors }) => errors))
  const elsewhere = Object.keys(ERRORS).filter((code) => !documented.has(code as keyof typeof ERRORS))
  t.same(
    elsewhere,
    ['METHOD_NOT_ALLOWED', 'CLIENT_CLOSED'],
    'of no operation: one is of a path, one is not sent',
  )
})

t.test('schemas have no keywords but those of JSON Schema', (t) => {
  const keywords = ['example', ...Object.keys(whole)]
  const ajv = new Ajv({ strictTypes: false, strictRequired: false, validateFormats: false, keywords })
  ajv.addSchema({ $id: 'whole', ...whole })
  for (const name of Object.keys(whole.components.schemas))
    t.doesNotThrow(() => ajv.compile({ $ref: `whole#/components/schemas/${name}` }), name)
  t.throws(() => ajv.compile({ patternErrorMessage: '' }), /unknown keyword/)
  t.end()
})

t.test('every reference leads somewhere, and every component is used', async (t) => {
  const refs = new Set(
    [...JSON.stringify(whole).matchAll(/"\$ref":"#\/components\/(\w+)\/([^"]+)"/g)].map(([, ...path]) =>
      path.join('/'),
    ),
  )
  for (const [kind, parts] of Object.entries(whole.components)) {
    if (kind === 'securitySchemes') continue
    t.same(
      Object.keys(parts).filter((name) => !refs.delete(`${kind}/${name}`)),
      [],
      kind,
    )
  }
  t.same([...refs], [])
})

t.test('each way of sending audio takes every field', async (t) => {
  const operation = document.paths['/v1/transcription']?.post
  const fields = Object.keys({ ...TRANSCRIPTION_FIELDS, ...SELECTOR_FIELDS }).sort()
  const form = operation?.requestBody?.content['multipart/form-data']?.schema
  t.same(Object.keys(Object(resolved(form).properties)).sort(), ['file', ...fields].sort())
  const json = operation?.requestBody?.content['application/json']?.schema
  t.same(Object.keys(Object(resolved(json).properties)).sort(), ['audio', 'audio_base64', ...fields].sort())
  const query = operation?.parameters?.find(({ in: where }) => where === 'query')
  t.same(Object.keys(Object(resolved(query?.schema).properties)).sort(), fields)
})

t.test('every example fits its schema', async (t) => {
  const held = new DocumentUnderTest(document)
  const all = [...Object.values(document.paths).flatMap((methods) => Object.values(methods))]
  let seen = 0
  for (const { operationId, requestBody, responses } of all) {
    const contents = [
      ...Object.entries(requestBody?.content ?? {}),
      ...Object.keys(responses).flatMap((status) =>
        Object.entries(held.answer(operationId, Number(status))?.content ?? {}),
      ),
    ]
    for (const [type, { schema, examples = {} }] of contents) {
      for (const [name, example] of Object.entries(examples)) {
        seen += 1
        t.same(held.faults(schema, Object(resolved(example)).value), [], `${operationId} ${type} ${name}`)
      }
    }
  }
  t.ok(seen > 100, `${seen} examples`)
  const examples = JSON.parse(
    await readFile(new URL('../../../../src/gateway/api/openapi/examples.json', import.meta.url), 'utf8'),
  ) as Examples
  const ids = new Set([...ENDPOINTS, ...managed].map(({ id }) => id))
  t.same(
    Object.keys(examples).filter((id) => !ids.has(id)),
    [],
    'none is of an operation that is gone',
  )
})

t.test('what the file and the environment may hold says what it is', async (t) => {
  for (const properties of [ENVIRONMENT_SCHEMA.properties, CatalogFile.properties])
    for (const [name, schema] of Object.entries(properties)) t.ok(Object(schema).description, name)
})

t.test('schemas become plain', async (t) => {
  const plain = (schema: object) => new PlainSchemas().of(schema)
  const nullable = (schema: Type.TSchema) => Type.Union([schema, Type.Null()], { description: 'a' })
  t.same(plain(nullable(Type.String({ maxLength: 3 }))), {
    type: ['string', 'null'],
    maxLength: 3,
    description: 'a',
  })
  t.same(plain(nullable(Type.Enum(['x', 'y']))), {
    type: ['string', 'null'],
    enum: ['x', 'y', null],
    description: 'a',
  })
  const told = Type.Union([Type.String(), Type.Number()], { description: 'b' })
  const either = [{ type: 'string' }, { type: 'number' }, { type: 'null' }]
  t.same(plain(Type.Union([told, Type.Null()])), { anyOf: either, description: 'b' }, 'of a union within')
  t.same(plain(nullable(told)), { anyOf: either, description: 'a; b' })
  t.same(plain(nullable(Type.Union([Type.String(), Type.Number()]))), {
    anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'null' }],
    description: 'a',
  })
  const schemas = new PlainSchemas()
  t.same(schemas.of(Type.Array(Type.Boolean({ title: 'Yes' }))), {
    type: 'array',
    items: { $ref: '#/components/schemas/Yes' },
  })
  t.same(schemas.components, { Yes: { type: 'boolean' } })
  t.throws(() => schemas.of(Type.String({ title: 'Yes' })), { message: 'two schemas are called Yes' })
})

t.test('bodies of the management API take no other fields, as it refuses them', async (t) => {
  const bodies = managed.flatMap(({ id, body = [] }) => body.map(({ schema }) => ({ id, schema })))
  t.ok(bodies.length > 15)
  for (const { id, schema } of bodies) t.equal(Object(schema).additionalProperties, false, id)
})
