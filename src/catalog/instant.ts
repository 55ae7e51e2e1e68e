/** The form of RFC 3339, as the source of a regular expression; the first group is the day. */
export const INSTANT = '^\\d{4}-\\d\\d-(\\d\\d)T\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$'
const FORM = new RegExp(INSTANT)

/**
 * Epoch milliseconds of an RFC 3339 time such as `2027-01-31T00:00:00Z`.
 *
 * @returns null for another form, and for a day that its month does not have
 */
export function instantMs(text: string): number | null {
  const day = FORM.exec(text)?.[1]
  const ms = Date.parse(text)
  if (day === undefined || Number.isNaN(ms)) return null
  // Date.parse takes 30 February for the 2nd of March.
  const local = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  return local.getUTCDate() === Number(day) ? ms : null
}
