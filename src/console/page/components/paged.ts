import { useEffect, useRef, useState } from 'preact/hooks'
import { number } from '../format.ts'
import { h } from '../h.ts'
import { queryOf } from '../paths.ts'
import { useQuery } from '../router.ts'
import { Button } from './button.ts'
import { TextInput } from './field.ts'

/** Rows of a page of a list. */
export const PAGE_ROWS = 50
const ASK_AFTER_MS = 250
/** Fewer are seen at a glance. */
const SEARCHED_FROM = 10

/** The page of a list and its search text, both kept in the address. */
export interface Paging {
  readonly search: string
  readonly page: number
  /** For the console's API. */
  readonly query: string
  readonly set: (fields: Readonly<Record<string, string | null>>) => void
}

export function usePaging(): Paging {
  const [query, set] = useQuery()
  const search = query.get('q') ?? ''
  const page = Math.max(1, Math.floor(Number(query.get('page') ?? 1)) || 1)
  return { search, page, query: queryOf({ search, offset: (page - 1) * PAGE_ROWS, limit: PAGE_ROWS }), set }
}

/**
 * The text of a field that searches: asked for shortly after it was typed. It follows the address, as when a link leads
 * to the whole list.
 *
 * @param asked as the address has it
 */
export function useSearchText(asked: string, ask: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(asked)
  const latest = useRef({ asked, ask })
  latest.current = { asked, ask }
  // An earlier search that returns late must not undo newer typing.
  const known = useRef(asked)
  useEffect(() => {
    if (known.current === asked) return
    known.current = asked
    setText(asked)
  }, [asked])
  useEffect(() => {
    if (text === latest.current.asked) return
    const send = () => {
      known.current = text
      latest.current.ask(text)
    }
    const timer = setTimeout(send, ASK_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return [text, setText]
}

/**
 * A field to search the list with, once there is something to search. It is outside of the loaded part, and stays
 * once it is there: what is searched is loaded anew, and whoever types must not lose it.
 */
export function SearchField(props: {
  readonly paging: Paging
  readonly label: string
  /** All items without a search; null: it is not known, as while they are loaded. */
  readonly all: number | null
}) {
  const { paging, label, all } = props
  const [text, setText] = useSearchText(paging.search, (q) => paging.set({ q, page: null }))
  const isShown = useRef(false)
  isShown.current ||= paging.search !== '' || (all ?? 0) > SEARCHED_FROM
  if (!isShown.current) return null
  return h(
    'div',
    { class: 'filters', role: 'search' },
    h(TextInput, { label, type: 'search', width: 'medium', value: text, onInput: setText }),
  )
}

/** "51–100 of 4,950", with a way to the pages before and after; nothing when there is one page. */
export function Pager(props: { readonly paging: Paging; readonly total: number; readonly shown: number }) {
  const { paging, total, shown } = props
  const { page, set } = paging
  if (total <= PAGE_ROWS && page === 1) return null
  const from = (page - 1) * PAGE_ROWS
  const go = (to: number) => {
    set({ page: to === 1 ? null : String(to) })
    scrollTo(0, 0)
  }
  return h(
    'nav',
    { class: 'actions', 'aria-label': 'Pages' },
    h(Button, { small: true, icon: 'back', disabled: page === 1, onClick: () => go(page - 1) }, 'Previous'),
    h(
      'span',
      { class: 'quiet small', role: 'status' },
      shown === 0 ? 'No rows' : `${number(from + 1)}–${number(from + shown)}`,
      ' of ',
      number(total),
    ),
    h(Button, { small: true, disabled: from + shown >= total, onClick: () => go(page + 1) }, 'Next'),
  )
}
