/** What a spreadsheet would take for a formula, https://owasp.org/www-community/attacks/CSV_Injection. */
const FORMULA = /^[=+\-@\t\r]/
const QUOTED = /[",\r\n]/

/** What a cell may have. A text is what somebody may have chosen; a number is written as it is. */
export type CsvCell = string | number | null

/**
 * A line of CSV as RFC 4180 has it, with its end. A text that a spreadsheet would take for a formula gets an apostrophe
 * before it, which spreadsheets take for the sign of a text.
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
