import { Type } from 'typebox'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

/** Parameters of a list that is searched and read page by page. */
export const PAGING = {
  search: Type.Optional(Type.String({ maxLength: 128 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
}

interface Paging {
  readonly search?: string
  readonly limit?: number
  readonly offset?: number
}

/** One page of a list. */
export interface Paged<Item> {
  readonly page: readonly Item[]
  /** Of all pages. */
  readonly total: number
}

/**
 * The page that a query asks for, of the items that have each word of its search in one of their texts; upper and
 * lower case are the same.
 */
export function paged<Item>(
  items: readonly Item[],
  { search = '', limit = LIMIT_DEFAULT, offset = 0 }: Paging,
  textsOf: (item: Item) => readonly string[],
): Paged<Item> {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const isMeant = (item: Item) => {
    const text = textsOf(item).join('\n').toLowerCase()
    return words.every((word) => text.includes(word))
  }
  const found = words.length === 0 ? items : items.filter(isMeant)
  return { page: found.slice(offset, offset + limit), total: found.length }
}
