/** The form of RFC 3339, as the source of a regular expression. */
export const INSTANT = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$'
const FORM = new RegExp(INSTANT)
/** The same, where seconds may be left out, or a date. */
const MOMENT = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/
/** The texts that `momentMs` takes, as errors say it. */
export const MOMENT_EXAMPLES = 'a date such as `2026-11-01`, or a time such as `2026-11-01T12:00:00Z`'

/**
 * Epoch milliseconds of an RFC 3339 time such as `2027-01-31T00:00:00Z`.
 *
 * @returns null for another form, and for a day that its month does not have
 */
export function instantMs(text: string): number | null {
  return FORM.test(text) ? momentOf(text) : null
}

/**
 * The same for the start or end of a question: seconds may be left out, and a date is when its day begins in UTC.
 *
 * @returns null also for what was before 1970
 */
export function momentMs(text: string): number | null {
  const ms = MOMENT.test(text) ? momentOf(text) : null
  return ms !== null && ms >= 0 ? ms : null
}

function momentOf(text: string): number | null {
  const date = text.slice(0, 10)
  // Date.parse takes 30 February for the 2nd of March.
  const isDay = new Date(Date.parse(date)).toJSON()?.startsWith(date) === true
  const ms = Date.parse(text)
  return isDay && !Number.isNaN(ms) ? ms : null
}
