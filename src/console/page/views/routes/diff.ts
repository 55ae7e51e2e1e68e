import type { RouteFields } from '../../../../gateway/catalog/file.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { editingOf, routeFields } from './editing.ts'

/** Two states of a route side by side, as the file would have them; below one another where there is no room. */
export function FieldsDiff(props: {
  readonly before: RouteFields | null
  readonly after: RouteFields | null
  /** Names of the two sides. */
  readonly names: readonly [before: string, after: string]
}) {
  const { before, after, names } = props
  const rows = diffLines(before && routeText(before), after && routeText(after))
  const blocks = diffBlocks(rows, 3)
  if (blocks.length === 0) return h('p', { class: 'quiet' }, 'No differences.')
  return h(
    'div',
    { class: 'table-place routes-diff', role: 'region', 'aria-label': 'Differences', tabindex: 0 },
    h(
      'table',
      null,
      h('caption', { class: 'hidden' }, 'Differences between ', names[0], ' and ', names[1]),
      h(
        'thead',
        null,
        h('tr', null, h('th', { scope: 'col' }, names[0]), h('th', { scope: 'col' }, names[1])),
      ),
      blocks.map(({ skipped, rows: near }, index) =>
        h(
          'tbody',
          { key: index },
          skipped > 0
            ? h(
                'tr',
                { class: 'routes-diff-skipped' },
                h('td', { colspan: 2 }, plural(skipped, 'line'), ' alike'),
              )
            : null,
          near.map((row, at) => h(Row, { key: at, ...row })),
        ),
      ),
    ),
  )
}

function Row({ kind, before, after }: DiffRow) {
  const side = (text: string | null, sign: string, word: string) =>
    h(
      'td',
      { class: text === null ? 'routes-diff-none' : kind === 'same' ? '' : `routes-diff-${word}` },
      text === null
        ? null
        : h(
            'code',
            null,
            h('span', { 'aria-hidden': 'true' }, kind === 'same' ? ' ' : sign, ' '),
            kind === 'same' ? null : h('span', { class: 'hidden' }, word, ': '),
            text,
          ),
    )
  return h(
    'tr',
    { class: kind === 'same' ? 'routes-diff-same' : '' },
    side(before, '−', 'removed'),
    side(after, '+', 'added'),
  )
}

/** A row of two texts side by side. */
export interface DiffRow {
  readonly kind: 'same' | 'removed' | 'added' | 'changed'
  /** Null: this side has no such line. */
  readonly before: string | null
  readonly after: string | null
}

/** With more lines on a side the comparison would take too long: the difference becomes one block. */
const LINES_MAX = 2000

/**
 * Two texts line by line, by their longest common subsequence; removed and added lines beside one another. Null: there
 * is no text, not even an empty line.
 */
export function diffLines(before: string | null, after: string | null): readonly DiffRow[] {
  const [old, now] = [before?.split('\n') ?? [], after?.split('\n') ?? []]
  const ends = commonEnds(old, now)
  const [oldMiddle, nowMiddle] = [old, now].map((lines) => lines.slice(ends.head, lines.length - ends.tail))
  const same = (line: string): DiffRow => ({ kind: 'same', before: line, after: line })
  return [
    ...old.slice(0, ends.head).map(same),
    ...middleRows(oldMiddle ?? [], nowMiddle ?? []),
    ...old.slice(old.length - ends.tail).map(same),
  ]
}

/** Only the rows around differences; `skipped` counts those left out between. */
interface DiffBlock {
  readonly skipped: number
  readonly rows: readonly DiffRow[]
}

/** @param around how many equal rows to keep beside each difference */
export function diffBlocks(rows: readonly DiffRow[], around: number): readonly DiffBlock[] {
  const isNear = rows.map((_, index) =>
    rows.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'),
  )
  const blocks: { skipped: number; rows: DiffRow[] }[] = []
  let skipped = 0
  for (const [index, row] of rows.entries()) {
    if (isNear[index] !== true) {
      skipped += 1
      continue
    }
    const last = blocks.at(-1)
    if (last === undefined || skipped > 0) blocks.push({ skipped, rows: [row] })
    else last.rows.push(row)
    skipped = 0
  }
  return blocks
}

function commonEnds(a: readonly string[], b: readonly string[]): { head: number; tail: number } {
  const shorter = Math.min(a.length, b.length)
  let head = 0
  while (head < shorter && a[head] === b[head]) head += 1
  let tail = 0
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1
  return { head, tail }
}

function middleRows(old: readonly string[], now: readonly string[]): readonly DiffRow[] {
  if (old.length > LINES_MAX || now.length > LINES_MAX) return paired(old, now)
  const lengths = commonLengths(old, now)
  const rows: DiffRow[] = []
  let removed: string[] = []
  let added: string[] = []
  const flush = () => {
    rows.push(...paired(removed, added))
    removed = []
    added = []
  }
  let [i, j] = [0, 0]
  while (i < old.length || j < now.length) {
    const [before, after] = [old[i], now[j]]
    if (before !== undefined && before === after) {
      flush()
      rows.push({ kind: 'same', before, after: before })
      i += 1
      j += 1
    } else if (after === undefined || (before !== undefined && lengths(i + 1, j) >= lengths(i, j + 1))) {
      removed.push(before ?? '')
      i += 1
    } else {
      added.push(after)
      j += 1
    }
  }
  flush()
  return rows
}

function paired(removed: readonly string[], added: readonly string[]): readonly DiffRow[] {
  return Array.from({ length: Math.max(removed.length, added.length) }, (_, index): DiffRow => {
    const [before, after] = [removed[index] ?? null, added[index] ?? null]
    return { kind: before === null ? 'added' : after === null ? 'removed' : 'changed', before, after }
  })
}

/** Length of the longest common subsequence of the lines from `i` and from `j`. */
function commonLengths(a: readonly string[], b: readonly string[]): (i: number, j: number) => number {
  const width = b.length + 1
  const table = new Uint16Array((a.length + 1) * width)
  const at = (i: number, j: number) => table[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  return at
}

/** Keys that come first, in this order; the others follow by name. */
const FIRST = [
  ...['workspace', 'strategy', 'published', 'live_fallback', 'entries'],
  ...['provider', 'model', 'weight', 'profile'],
]

/**
 * A route as the configuration file would have it, in YAML: one thing a line and no commas, so that a line differs only
 * where something does. Defaults are left out, and keys are in one order.
 */
export function routeText(fields: RouteFields): string {
  return valueLines(routeFields(editingOf(fields)), '').join('\n')
}

function valueLines(value: unknown, indent: string): readonly string[] {
  if (Array.isArray(value))
    return value.flatMap((item: unknown) => {
      if (isSimple(item)) return [`${indent}- ${scalar(item)}`]
      const [first = '', ...rest] = valueLines(item, `${indent}  `)
      return [`${indent}- ${first.trimStart()}`, ...rest]
    })
  return Object.entries(value as object)
    .toSorted(([a], [b]) => rankOfKey(a) - rankOfKey(b) || (a < b ? -1 : 1))
    .flatMap(([key, part]: [string, unknown]) =>
      isSimple(part)
        ? [`${indent}${word(key)}: ${scalar(part)}`]
        : [`${indent}${word(key)}:`, ...valueLines(part, `${indent}  `)],
    )
}

function rankOfKey(key: string): number {
  const place = FIRST.indexOf(key)
  return place < 0 ? FIRST.length : place
}

/** True if a value fits on one line: scalars, and lists of words. */
function isSimple(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  const parts: readonly unknown[] = Object.values(value)
  return parts.length === 0 || (Array.isArray(value) && parts.every((part) => typeof part !== 'object'))
}

function scalar(value: unknown): string {
  if (typeof value === 'string') return word(value)
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`
  return JSON.stringify(value)
}

/** As it is where YAML takes it for a text and for nothing else, else in quotes. */
function word(text: string): string {
  const isPlain = /^[A-Za-z_][\w./-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text)
  return isPlain ? text : JSON.stringify(text)
}
