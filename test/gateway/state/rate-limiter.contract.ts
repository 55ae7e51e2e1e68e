import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { RateDecision, RateLimit, RateLimiter, Take } from '../../../src/contracts/rate-limit.ts'

export interface LimiterUnderTest {
  readonly limiter: RateLimiter
  /** Lets at least `ms` milliseconds pass on the limiter's clock. */
  readonly pass: (ms: number) => Promise<void>
  /** The limiter's clock, or one that runs as fast; milliseconds. */
  readonly nowMs: () => number
}

/** So slow that nothing comes back while a test runs. */
const FROZEN: RateLimit = { requestsPerMinute: 1, burst: 5 }
/** A token every 20 ms. */
const QUICK: RateLimit = { requestsPerMinute: 3000, burst: 4 }

/** What a request of this key asks for. */
export function taking(keyId: string, limit: RateLimit, slotId: string | null = null): Take {
  return { workspace: 'acme', keyId, limit, slotId }
}

/** What every rate limiter keeps, wherever its buckets are. */
export function rateLimiterContract(t: Test, start: (t: Test) => Promise<LimiterUnderTest>): void {
  t.test('a rested key gets its whole burst at once, and then waits for one interval', async (t) => {
    const { limiter } = await start(t)
    for (const remaining of [4, 3, 2, 1, 0]) {
      const { resetMs, ...decision } = await limiter.take(taking('key_burst', FROZEN))
      t.same(decision, {
        allowed: true,
        limit: 5,
        remaining,
        retryAfterMs: 0,
        local: false,
        slotTaken: false,
      })
      within(t, resetMs, (5 - remaining) * 60_000, 'time until the bucket is full')
    }
    const { allowed, limit, remaining, resetMs, retryAfterMs } = await limiter.take(
      taking('key_burst', FROZEN),
    )
    t.same({ allowed, limit, remaining }, { allowed: false, limit: 5, remaining: 0 })
    within(t, resetMs, 300_000, 'time until the bucket is full')
    within(t, retryAfterMs, 60_000, 'time until the next request')
  })

  t.test('a large bucket counts down one by one, and gives what it has', async (t) => {
    const { limiter } = await start(t)
    const limit: RateLimit = { requestsPerMinute: 1, burst: 400 }
    for (let remaining = 399; remaining >= 0; remaining -= 1) {
      const { resetMs, ...decision } = await limiter.take(taking('key_large', limit))
      const expected = {
        allowed: true,
        limit: 400,
        remaining,
        retryAfterMs: 0,
        local: false,
        slotTaken: false,
      }
      if (!isDeepStrictEqual(decision, expected)) t.same(decision, expected)
      if (remaining % 50 === 0)
        within(t, resetMs, (400 - remaining) * 60_000, 'time until the bucket is full')
    }
    t.match(await limiter.take(taking('key_large', limit)), { allowed: false, remaining: 0 })
  })

  t.test('keys do not share tokens', async (t) => {
    const { limiter } = await start(t)
    await drain(limiter, 'key_one', FROZEN)
    t.match(await limiter.take(taking('key_two', FROZEN)), { allowed: true, remaining: 4 })
    t.match(await limiter.take(taking('key_one', FROZEN)), { allowed: false })
  })

  t.test('whoever waits as told is admitted, every time', async (t) => {
    const { limiter, pass } = await start(t)
    await drain(limiter, 'key_polite', QUICK)
    for (let i = 0; i < 25; i++) {
      const refused = await drain(limiter, 'key_polite', QUICK)
      t.ok(refused.retryAfterMs >= 1 && refused.retryAfterMs <= 20, `told to wait ${refused.retryAfterMs} ms`)
      await pass(refused.retryAfterMs)
      const { allowed } = await limiter.take(taking('key_polite', QUICK))
      if (!allowed) t.fail('refused after the wait')
    }
  })

  t.test('asking while refused costs nothing', async (t) => {
    const { limiter } = await start(t)
    const first = await drain(limiter, 'key_eager', FROZEN)
    for (let i = 0; i < 200; i++) await limiter.take(taking('key_eager', FROZEN))
    const last = await limiter.take(taking('key_eager', FROZEN))
    t.ok(last.retryAfterMs <= first.retryAfterMs, 'the wait does not grow')
  })

  t.test('a bucket fills again, up to the burst and no further', async (t) => {
    const { limiter, pass } = await start(t)
    await drain(limiter, 'key_rested', QUICK)
    await pass(41)
    t.match(await limiter.take(taking('key_rested', QUICK)), { allowed: true })
    await pass(1000)
    t.match(await limiter.take(taking('key_rested', QUICK)), { allowed: true, remaining: 3 })
  })

  t.test('never more than burst + rate × time, and nearly all of it', async (t) => {
    const { limiter, pass, nowMs } = await start(t)
    const limit: RateLimit = { requestsPerMinute: 12_000, burst: 20 }
    const begin = nowMs()
    let admitted = 0
    // What a bucket gives that is asked as often: while nobody asks it may be full, and gives no more.
    const ideal = { level: limit.burst, admitted: 0, atMs: begin }
    while (nowMs() - begin < 1000) {
      const askedMs = nowMs()
      ideal.level = Math.min(limit.burst, ideal.level + ((askedMs - ideal.atMs) * 12_000) / 60_000)
      ideal.atMs = askedMs
      const given = Math.min(8, Math.floor(ideal.level))
      ideal.level -= given
      ideal.admitted += given
      const decisions = await Promise.all(
        Array.from({ length: 8 }, () => limiter.take(taking('key_flood', limit))),
      )
      admitted += decisions.filter(({ allowed }) => allowed).length
      await pass(1)
    }
    const entitled = 20 + ((nowMs() - begin) * 12_000) / 60_000
    t.ok(admitted <= entitled + 1, `${admitted} admitted of ${entitled}`)
    t.ok(admitted >= ideal.admitted * 0.9 - 1, `${admitted} admitted of ${ideal.admitted}`)
  })

  t.test('a limit that is lowered holds at once, and locks nobody out', async (t) => {
    const { limiter } = await start(t)
    await drain(limiter, 'key_changed', { requestsPerMinute: 60, burst: 100 })
    const lowered = await limiter.take(taking('key_changed', { requestsPerMinute: 60, burst: 2 }))
    t.match(lowered, { allowed: false, limit: 2, remaining: 0 })
    t.ok(lowered.retryAfterMs <= 1000, `one interval at most, not ${lowered.retryAfterMs} ms`)
  })
}

/** Takes until refused; the refusal. */
async function drain(limiter: RateLimiter, keyId: string, limit: RateLimit): Promise<RateDecision> {
  for (let i = 0; i <= limit.burst + 50; i++) {
    const decision = await limiter.take(taking(keyId, limit))
    if (!decision.allowed) return decision
  }
  throw new Error(`${keyId} is never refused`)
}

/** Time goes on between a take and its answer: up to 2 s less than `expectedMs` will do. */
function within(t: Test, actualMs: number, expectedMs: number, what: string): void {
  t.ok(actualMs <= expectedMs && actualMs > expectedMs - 2000, `${what}: ${actualMs} of ${expectedMs} ms`)
}
