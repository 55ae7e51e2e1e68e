import type { TSchema } from 'typebox'
import { Document } from 'yaml'
import { CatalogFile } from './file.ts'

const HEADING = ` The catalog that Larkway serves, as \`larkway export\` writes it. What begins with "sealed:" opens
 with the LARKWAY_SECRET_KEYS of the servers that it comes from.`

/**
 * A document as a file: of documents that say the same, the same text. Keys stand in the order of the documentation,
 * names in that of the alphabet.
 *
 * @param notes sentences for the head of the file
 */
export function renderCatalog(document: unknown, notes: readonly string[]): string {
  const file = new Document(ordered(CatalogFile, document), { schema: 'core', aliasDuplicateObjects: false })
  file.commentBefore = [HEADING, ...notes.map((note) => ` ${note}`)].join('\n')
  return file.toString({ lineWidth: 0 })
}

/** The value with its keys in the order of the schema; those that the schema does not name in that of the alphabet. */
function ordered(schema: TSchema | undefined, value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = inner(schema, 'items')
    return value.map((item) => ordered(items, item))
  }
  if (typeof value !== 'object' || value === null) return value
  const properties = Object(inner(schema, 'properties'))
  const [named] = Object.values(Object(inner(schema, 'patternProperties')))
  const places = Object.keys(properties)
  const place = (key: string) => (Object.hasOwn(properties, key) ? places.indexOf(key) : places.length)
  const sorted = Object.entries(value).sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1))
  return new Map(sorted.map(([key, part]) => [key, ordered(properties[key] ?? named, part)]))
}

function inner(schema: TSchema | undefined, key: string): TSchema | undefined {
  return schema === undefined ? undefined : Reflect.get(schema, key)
}
