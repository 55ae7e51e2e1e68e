/** One value of a table; null: none. */
export type Cell = string | number | null

/**
 * A table as CSV (RFC 4180). A text that a spreadsheet would run as a formula is written with an apostrophe before it.
 */
export function csvOf(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [heads, ...rows].map((row) => `${row.map(cellOf).join(',')}\r\n`).join('')
}

function cellOf(value: Cell): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const inert = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert
}

/** Hands a file to the reader's browser, to be saved. */
export function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // Some browsers read it only after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
