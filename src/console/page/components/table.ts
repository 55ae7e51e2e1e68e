import { Component, type ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { h } from '../h.ts'
import { Button } from './button.ts'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ComponentChildren
  /** Numbers are aligned at the end. */
  readonly align?: 'end'
  /** Names the row: it is the link, if rows have one, and the title of the card on a phone. */
  readonly primary?: boolean
  /** Left out on a phone. */
  readonly minor?: boolean
  /** As narrow as its content. */
  readonly narrow?: boolean
  /** Keeps the head for screen readers only, e.g. above buttons. */
  readonly hideHead?: boolean
}

export interface TableProps<Row> {
  /** Describes the table for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string
  /** Where a click on the row leads; null: nowhere. */
  readonly href?: (row: Row) => string | null
  /** Marks a row, e.g. one that is out of service. */
  readonly dim?: (row: Row) => boolean
}

/** A button that stops what the row is of. @param label says it with the name of the row @param word on the button */
export function endColumn<Row>(
  label: (row: Row) => string,
  onEnd: (row: Row) => void,
  word = 'End',
): Column<Row> {
  return {
    head: 'Actions',
    hideHead: true,
    narrow: true,
    cell: (row) =>
      h(Button, { small: true, icon: 'stop', label: label(row), onClick: () => onEnd(row) }, word),
  }
}

/** Rows between hairlines, or cards where they do not fit. Draw an EmptyState instead when there are none. */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, rowKey, href, dim } = props
  const place = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => fitted(place.current), [rows, columns])
  return h(
    'div',
    { class: 'table-place', ref: place },
    h(
      'table',
      { class: 'table' },
      h('caption', { class: 'hidden' }, caption),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          columns.map((column) =>
            h(
              'th',
              { scope: 'col', key: column.head, class: classes(column) },
              column.hideHead ? h('span', { class: 'hidden' }, column.head) : column.head,
            ),
          ),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map((row) => {
          const to = href?.(row) ?? null
          const marks = [to === null ? '' : 'row-link', dim?.(row) ? 'row-dim' : ''].filter(Boolean).join(' ')
          return h(TableRow<Row>, { key: rowKey(row), row, columns, to, marks })
        }),
      ),
    ),
  )
}

interface RowProps<Row> {
  readonly row: Row
  readonly columns: readonly Column<Row>[]
  readonly to: string | null
  readonly marks: string
}

/**
 * A row that is drawn again only when it is another, or the columns are: a list of hundreds gets new ones all the time.
 * A memoized vnode would not do: it holds on to the table that it was drawn in first, and so to rows that are gone.
 */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate(next: RowProps<Row>): boolean {
    const { row, columns, to, marks } = this.props
    return next.row !== row || next.columns !== columns || next.to !== to || next.marks !== marks
  }

  render({ row, columns, to, marks }: RowProps<Row>) {
    return h(
      'tr',
      { class: marks || undefined },
      columns.map((column) => cellOf(column, row, to)),
    )
  }
}

/** Turns rows into cards while they are wider than their place, and on a phone: nothing scrolls sideways. */
function fitted(place: HTMLElement | null) {
  if (!place) return
  let widthPx = 0
  const fit = () => {
    if (place.clientWidth === widthPx) return
    widthPx = place.clientWidth
    place.classList.remove('table-cards')
    const isCards = matchMedia('(max-width: 700px)').matches || place.scrollWidth > widthPx
    place.classList.toggle('table-cards', isCards)
  }
  fit()
  const observer = new ResizeObserver(fit)
  observer.observe(place)
  return () => observer.disconnect()
}

function cellOf<Row>(column: Column<Row>, row: Row, to: string | null) {
  const content = column.cell(row)
  const label = column.primary || column.hideHead ? undefined : column.head
  const common = { key: column.head, class: classes(column), 'data-label': label }
  if (!column.primary) return h('td', common, h('div', { class: 'cell' }, content))
  return h(
    'th',
    { scope: 'row', ...common },
    h('div', { class: 'cell' }, to === null ? content : h('a', { class: 'row-href', href: to }, content)),
  )
}

function classes<Row>({ align, primary, minor, narrow }: Column<Row>): string | undefined {
  const names = [
    align === 'end' ? 'cell-end' : '',
    primary ? 'cell-primary' : '',
    minor ? 'cell-minor' : '',
    narrow ? 'cell-narrow' : '',
  ]
  return names.filter(Boolean).join(' ') || undefined
}
