import type { UpstreamReply } from '../../contracts/upstream.ts'
import { httpDateMs } from '../outbound/retry-after.ts'

/** Longest time that a provider can take an entry out of use. */
const RETRY_AFTER_MAX_MS = 24 * 3_600_000

/**
 * Reads the wait that a provider asks for, in milliseconds: `retry-after-ms`, or `retry-after` in seconds or as an
 * HTTP date, or the wait in its body, or the moment of `x-ratelimit-reset` in epoch seconds (ElevenLabs). Moments are
 * counted from the answer's own `date`, so no clock is needed and none can be wrong; without it, they are ignored.
 *
 * @param bodyMs what the body asks for; null when it asks for nothing
 */
export function retryAfterMs(headers: UpstreamReply['headers'], bodyMs: number | null = null): number | null {
  const milliseconds = decimal(headers['retry-after-ms'])
  if (milliseconds !== null) return bounded(milliseconds)
  const { 'retry-after': given, date, 'x-ratelimit-reset': reset } = headers
  const seconds = decimal(given)
  if (seconds !== null) return bounded(seconds * 1000)
  const [until, now] = [httpDateMs(given), httpDateMs(date)]
  if (until !== null && now !== null) return bounded(until - now)
  if (bodyMs !== null) return bounded(bodyMs)
  // Others send a count of seconds under this name, or a moment that is long past: those say nothing.
  const resetMs = (decimal(reset) ?? 0) * 1000
  return now === null || resetMs < now || resetMs - now > RETRY_AFTER_MAX_MS ? null : bounded(resetMs - now)
}

/**
 * A duration as Google's protocol buffers are written in JSON, e.g. `30s` or `0.35s`, in milliseconds; null
 * for anything else.
 */
export function durationMs(value: unknown): number | null {
  const seconds = typeof value === 'string' && value.endsWith('s') ? decimal(value.slice(0, -1)) : null
  return seconds === null ? null : seconds * 1000
}

function decimal(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}(\.\d+)?$/.test(text.trim()) ? Number(text) : null
}

function bounded(milliseconds: number): number {
  return Math.min(RETRY_AFTER_MAX_MS, Math.max(0, Math.round(milliseconds)))
}
