import fc from 'fast-check'
import t from 'tap'
import { EmbeddedRateLimiter } from '../../../src/gateway/state/embedded/rate-limiter.ts'
import { rateLimiterContract, taking } from './rate-limiter.contract.ts'

function withClock() {
  let nowUs = 1_000_000
  return {
    limiter: new EmbeddedRateLimiter(() => nowUs),
    pass: async (ms: number) => {
      nowUs += ms * 1000
    },
    passUs: (us: number) => {
      nowUs += us
    },
    nowMs: () => nowUs / 1000,
  }
}

t.test('contract', async (t) => rateLimiterContract(t, async () => withClock()))

t.test('it decides at once, and knows of no slots', async (t) => {
  const { limiter } = withClock()
  const decision = limiter.take(taking('key', { requestsPerMinute: 60, burst: 2 }, 'a'.repeat(64)))
  t.match(decision, { allowed: true, remaining: 1, slotTaken: false })
})

t.test('the wait is exact', async (t) => {
  const { limiter, pass } = withClock()
  const limit = { requestsPerMinute: 600, burst: 1 }
  limiter.take(taking('key', limit))
  t.match(limiter.take(taking('key', limit)), { allowed: false, retryAfterMs: 100, resetMs: 100 })
  await pass(99)
  t.match(limiter.take(taking('key', limit)), { allowed: false, retryAfterMs: 1 })
  await pass(1)
  t.match(limiter.take(taking('key', limit)), { allowed: true, remaining: 0, resetMs: 100 })
})

t.test('no window of time ever holds more than burst + rate × window, at any rate', async () => {
  const limits = fc.record({
    requestsPerMinute: fc.integer({ min: 1, max: 600_000 }),
    burst: fc.integer({ min: 1, max: 50 }),
  })
  // In hundredths of the time that one token takes: mostly fewer tokens come back than are asked for.
  const gaps = fc.array(fc.integer({ min: 0, max: 110 }), { minLength: 1, maxLength: 120 })
  fc.assert(
    fc.property(limits, gaps, (limit, gaps) => {
      const { limiter, passUs, nowMs } = withClock()
      const admittedMs: number[] = []
      for (const gap of gaps) {
        passUs(Math.floor((gap * 600_000) / limit.requestsPerMinute))
        if (limiter.decide('key', limit, false).allowed) admittedMs.push(nowMs())
      }
      return admittedMs.every((fromMs, first) =>
        admittedMs.slice(first).every((toMs, further) => {
          const entitled = limit.burst + ((toMs - fromMs) * limit.requestsPerMinute) / 60_000
          return further + 1 <= entitled + 1e-6
        }),
      )
    }),
    { numRuns: 150 },
  )
})

t.test(
  'rates that are no whole number of microseconds are not exceeded, and kept to one per cent',
  async (t) => {
    for (const requestsPerMinute of [70_001, 350_000, 590_000, 600_000]) {
      const { limiter, passUs } = withClock()
      let admitted = 0
      for (let us = 0; us < 1_000_000; us += 50) {
        if (limiter.decide('key', { requestsPerMinute, burst: 50 }, false).allowed) admitted++
        passUs(50)
      }
      const entitled = 50 + requestsPerMinute / 60
      t.ok(admitted <= entitled && admitted >= entitled * 0.99, `${admitted} admitted of ${entitled}`)
    }
  },
)

t.test('keys that rest take no memory', async (t) => {
  const { limiter, pass } = withClock()
  const limit = { requestsPerMinute: 600, burst: 10 }
  for (let i = 0; i < 50_000; i++) {
    limiter.take(taking(`key_${i}`, limit))
    if (i % 100 === 99) await pass(100)
  }
  t.ok(limiter.size <= 2048, `${limiter.size} buckets are kept of 50,000 keys`)
  t.match(limiter.take(taking('key_49999', limit)), { remaining: 9 })
})
