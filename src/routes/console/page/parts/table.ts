import { Component, type ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html } from '../html.ts'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ComponentChildren
  /** Numbers stand at the end. */
  readonly align?: 'end'
  /** What names the row: a link, when rows have one, and the title of the card on a phone. */
  readonly primary?: boolean
  /** Left out on a phone. */
  readonly minor?: boolean
  /** As narrow as its content. */
  readonly narrow?: boolean
  /** Keeps the head for screen readers only, e.g. above buttons. */
  readonly hideHead?: boolean
}

export interface TableProps<Row> {
  /** What the table holds, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string
  /** Where a click on the row leads; null: nowhere. */
  readonly href?: (row: Row) => string | null
  /** Marks a row, e.g. one that is out of service. */
  readonly dim?: (row: Row) => boolean
}

/** Rows between hairlines; on a phone each becomes a card. Draw an EmptyState instead when there are none. */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, rowKey, href, dim } = props
  const scroll = useRef<HTMLDivElement>(null)
  useEffect(() => reachable(scroll.current), [])
  return html`<div class="table-scroll" ref=${scroll}>
    <table class="table">
      <caption class="hidden">${caption}</caption>
      <thead>
        <tr>
          ${columns.map(
            (column) => html`<th scope="col" key=${column.head} class=${classes(column)}>
              ${column.hideHead ? html`<span class="hidden">${column.head}</span>` : column.head}
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => {
          const to = href?.(row) ?? null
          const marks = [to === null ? '' : 'row-link', dim?.(row) ? 'row-dim' : ''].filter(Boolean).join(' ')
          return html`<${TableRow} key=${rowKey(row)} row=${row} columns=${columns} to=${to} marks=${marks} />`
        })}
      </tbody>
    </table>
  </div>`
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
    return html`<tr class=${marks || undefined}>${columns.map((column) => cellOf(column, row, to))}</tr>`
  }
}

/** A table that is wider than its place can be scrolled by keys, and only then is it a stop of Tab. */
function reachable(element: HTMLElement | null) {
  if (!element) return
  const observer = new ResizeObserver(() => {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0
    else element.removeAttribute('tabindex')
  })
  observer.observe(element)
  if (element.firstElementChild) observer.observe(element.firstElementChild)
  return () => observer.disconnect()
}

function cellOf<Row>(column: Column<Row>, row: Row, to: string | null) {
  const content = column.cell(row)
  const label = column.primary || column.hideHead ? undefined : column.head
  const common = { key: column.head, class: classes(column), 'data-label': label }
  if (!column.primary) return html`<td ...${common}><div class="cell">${content}</div></td>`
  return html`<th scope="row" ...${common}>
    <div class="cell">${to === null ? content : html`<a class="row-href" href=${to}>${content}</a>`}</div>
  </th>`
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
