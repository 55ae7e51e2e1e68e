import { Type } from 'typebox'
import { MOMENT_EXAMPLES, momentMs } from '../../../contracts/instants.ts'
import { invalidField } from '../../../gateway/edge/refusals.ts'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

/** Parameters of a list that can be searched and read page by page. */
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
  /** Items on all pages. */
  readonly total: number
}

/**
 * The page that a query asks for, from the items with each word of the search in one of their texts, in upper or lower
 * case.
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

/**
 * A time that a query gives, as `momentMs` takes it or in epoch milliseconds; null: it gives none.
 *
 * @throws GatewayError INVALID_REQUEST
 */
export function timeParameter<Name extends string>(
  query: { readonly [Key in Name]?: string },
  name: Name,
): number | null {
  const text = query[name]
  if (text === undefined) return null
  const ms = /^\d{1,15}$/.test(text) ? Number(text) : momentMs(text)
  if (ms !== null) return ms
  throw invalidField(name, `must be ${MOMENT_EXAMPLES}, or epoch milliseconds`)
}
