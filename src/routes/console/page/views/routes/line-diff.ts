/** A row of two texts side by side. */
export interface DiffRow {
  readonly kind: 'same' | 'removed' | 'added' | 'changed'
  /** Null: the text of this side has no such line. */
  readonly before: string | null
  readonly after: string | null
}

/** Beyond this many lines on a side the comparison would take long: what differs is then one block. */
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

/** Only the rows around differences; how many were left out between stands in `skipped`. */
export interface DiffBlock {
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

/** Length of the longest common subsequence of what follows from `i` and from `j`. */
function commonLengths(a: readonly string[], b: readonly string[]): (i: number, j: number) => number {
  const width = b.length + 1
  const table = new Uint16Array((a.length + 1) * width)
  const at = (i: number, j: number) => table[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  return at
}
