/** The one form that RFC 9110, section 5.6.7, lets be sent; Date.parse alone takes "-5" for a year. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** `Fri, 20 Nov 2026 10:00:00 GMT` as epoch milliseconds; null for anything else. */
export function httpDateMs(date: string | undefined): number | null {
  const epoch = date !== undefined && HTTP_DATE.test(date) ? Date.parse(date) : Number.NaN
  return Number.isNaN(epoch) ? null : epoch
}
