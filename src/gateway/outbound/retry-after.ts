/**
 * Reads a `Retry-After` header as milliseconds; null when it is invalid.
 *
 * @param given seconds, or a moment
 * @param date  of the same answer: a moment is counted from it, so that no two clocks are compared
 * @param nowMs what it is counted from without one
 */
export function retryAfterMs(
  given: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | null {
  if (given === undefined) return null
  if (/^\d{1,10}$/.test(given)) return Number(given) * 1000
  const untilMs = httpDateMs(given)
  return untilMs === null ? null : Math.max(0, untilMs - (httpDateMs(date) ?? nowMs))
}

/** The one form that RFC 9110, section 5.6.7, lets be sent; Date.parse alone takes "-5" for a year. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** `Fri, 20 Nov 2026 10:00:00 GMT` as epoch milliseconds; null for anything else. */
export function httpDateMs(date: string | undefined): number | null {
  const epoch = date !== undefined && HTTP_DATE.test(date) ? Date.parse(date) : Number.NaN
  return Number.isNaN(epoch) ? null : epoch
}
