import { checkShape, type Faults, withoutUnknownKeys } from './faults.ts'
import { CatalogFile } from './file.ts'
import { hasShape } from './has-shape.ts'
import { at, isNamedList } from './parts.ts'

type Document = Readonly<Record<string, unknown>>

/** The named lists of a document. Nothing is said of one of them as a whole, so that its parts can be checked alone. */
const { plans, providers, routes, workspaces } = CatalogFile.properties
const LISTS = Object.entries({ plans, providers, routes, workspaces })

/**
 * Adds every way in which a document has not the shape of a file. To find them all takes fifty times as long as to find
 * that there are none, on the thread that serves: it is done for the parts that have some, not for all of a catalog.
 *
 * @returns the document without the keys that are unknown, so that the rest can be looked at further
 */
export function checkDocument(document: unknown, faults: Faults): unknown {
  if (hasShape(CatalogFile, document)) return document
  const misshapen = misshapenIn(document)
  checkShape(CatalogFile, misshapen, [], faults)
  const cleaned = withoutUnknownKeys(CatalogFile, misshapen)
  if (!isNamedList(document) || !isNamedList(misshapen) || !isNamedList(cleaned)) return cleaned
  const lists = LISTS.flatMap(([key]) => {
    const list = document[key]
    return isNamedList(list) ? [[key, withCleaned(list, at(misshapen, key), at(cleaned, key))]] : []
  })
  return { ...cleaned, ...Object.fromEntries(lists) }
}

/** The document with nothing in its lists but the parts that have not the right shape. */
function misshapenIn(document: unknown): unknown {
  if (!isNamedList(document)) return document
  const lists = LISTS.flatMap(([key, shape]) => {
    const list = document[key]
    if (!isNamedList(list)) return []
    const parts = Object.entries(list).filter(([name, part]) => !hasShape(shape, { [name]: part }))
    return [[key, Object.fromEntries(parts)]]
  })
  return { ...document, ...Object.fromEntries(lists) }
}

/** A list with its misshapen parts as they were cleaned; one that has no name to go by is gone. */
function withCleaned(list: Document, misshapen: unknown, cleaned: unknown): Document {
  const parts = Object.keys(list).flatMap((name) => {
    const from = at(misshapen, name) === undefined ? list : cleaned
    const part = at(from, name)
    return part === undefined ? [] : [[name, part]]
  })
  return Object.fromEntries(parts)
}
