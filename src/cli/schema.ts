import { FACT_SHAPES } from '../contracts/facts.ts'
import { CatalogFile, EntryShape, ProviderShape, RouteShape } from '../gateway/catalog/file.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { parse } from './arguments.ts'

/**
 * Draft 7 is what the language servers for YAML and JSON that editors use know in full; nothing in the shape of the
 * file needs a later one.
 */
const DRAFT = 'http://json-schema.org/draft-07/schema#'

/** `larkway schema`: what editors complete and check `larkway.yaml` with. */
export function printSchema(args: readonly string[], print: (text: string) => void): number {
  parse(args, {}, 0)
  print(`${JSON.stringify(publishedSchema(), null, 2)}\n`)
  return 0
}

/**
 * The shape of `larkway.yaml` as JSON Schema. It says what can be said of a file by itself: names that lead nowhere,
 * secrets that are not there and prices that are missing are for `larkway check`.
 */
export function publishedSchema(): object {
  const { properties, ...shape } = CatalogFile
  const { providers, routes } = properties
  const kind = { type: 'string', enum: [...PROVIDERS.keys()].sort(), description: 'protocol of the provider' }
  const provider = withSharedFacts(ProviderShape, { kind })
  const route = { ...RouteShape, properties: { ...RouteShape.properties, entries: entries() } }
  return {
    $schema: DRAFT,
    title: 'larkway.yaml',
    description: 'Who may call what through Larkway',
    ...shape,
    properties: { ...properties, providers: eachOf(providers, provider), routes: eachOf(routes, route) },
    definitions: FACT_SHAPES,
  }
}

function entries(): object {
  return { ...RouteShape.properties.entries, items: withSharedFacts(EntryShape) }
}

/** A list by name with another shape of what is in it. */
function eachOf(list: { readonly patternProperties: object }, value: object): object {
  const patterns = Object.keys(list.patternProperties).map((pattern) => [pattern, value])
  return { ...list, patternProperties: Object.fromEntries(patterns) }
}

/** Defines the facts of a model once in the schema, though providers and entries both take them. */
function withSharedFacts(shape: { readonly properties: object }, more: object = {}): object {
  const refs = Object.keys(FACT_SHAPES).map((name) => [name, { $ref: `#/definitions/${name}` }])
  return { ...shape, properties: { ...shape.properties, ...Object.fromEntries(refs), ...more } }
}
