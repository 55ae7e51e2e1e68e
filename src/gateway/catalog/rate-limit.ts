import type { RateLimit, UnitRates } from '../../contracts/rate-limit.ts'
import type { RateLimitFields, UnitRatesFields } from './file.ts'

/** A rate limit out of its fields; what they leave out is taken from `fallback`. */
export function rateLimitOf(fields: RateLimitFields | undefined, fallback: RateLimit): RateLimit {
  return {
    requestsPerMinute: fields?.requests_per_minute ?? fallback.requestsPerMinute,
    burst: fields?.burst ?? fallback.burst,
    ...unitRatesOf(fields, fallback),
  }
}

/** Limits of units out of their fields; 0 stands for none. */
export function unitRatesOf(fields: UnitRatesFields = {}, fallback: UnitRates = {}): UnitRates {
  const tokens = fields.tokens_per_minute ?? fallback.tokensPerMinute ?? 0
  const seconds = fields.audio_seconds_per_minute ?? fallback.audioSecondsPerMinute ?? 0
  return {
    ...(tokens > 0 ? { tokensPerMinute: tokens } : {}),
    ...(seconds > 0 ? { audioSecondsPerMinute: seconds } : {}),
  }
}

/**
 * A rate limit as the configuration, the command line and the console's API write it.
 *
 * @param fallback what an absent limit of units would be taken from: one that it lacks is written as 0
 */
export function fieldsOfRateLimit(limit: RateLimit, fallback: UnitRates = {}) {
  const none = Object.fromEntries(Object.keys(fallback).map((unit) => [unit, 0]))
  const { requestsPerMinute, burst, tokensPerMinute, audioSecondsPerMinute }: RateLimit = {
    ...none,
    ...limit,
  }
  return {
    requests_per_minute: requestsPerMinute,
    burst,
    ...(tokensPerMinute === undefined ? {} : { tokens_per_minute: tokensPerMinute }),
    ...(audioSecondsPerMinute === undefined ? {} : { audio_seconds_per_minute: audioSecondsPerMinute }),
  }
}
