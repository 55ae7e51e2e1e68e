import { httpDateMs } from './http-date.ts'

/**
 * What a Retry-After asks for, milliseconds; null when it is none.
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
