/** Text that a spreadsheet would take for a formula, https://owasp.org/www-community/attacks/CSV_Injection. */
const FORMULA = /^[=+\-@\t\r]/
const QUOTED = /[",\r\n]/

/** A cell. Text may be chosen by a caller, and is escaped; a number is written as it is. */
export type CsvCell = string | number | null

/**
 * A line of CSV as in RFC 4180, with its line break. Text that a spreadsheet would take for a formula gets an
 * apostrophe before it, by which spreadsheets mark text.
 */
export function csvLine(cells: readonly CsvCell[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`
}

function cellOf(cell: CsvCell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = FORMULA.test(cell) ? `'${cell}` : cell
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
