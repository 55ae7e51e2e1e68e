import t from 'tap'
import type { Posted } from '../../../src/contracts/webhooks.ts'
import { eventEnding } from '../../../src/gateway/webhooks/delivery-outcome.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const KEEP_MS = 7 * 24 * HOUR_MS

const answered = (status: number, retryAfterMs: number | null = null): Posted => ({
  kind: 'answered',
  status,
  retryAfterMs,
})
const FAILED: Posted = { kind: 'failed', reason: 'no answer within 10000 ms' }
const REFUSED: Posted = { kind: 'refused', reason: 'the host has an address that is not public' }

t.test('every status, at the first attempt', async (t) => {
  for (let status = 100; status <= 599; status += 1) {
    const { state } = eventEnding(answered(status), 1, 0.5)
    const expected = status >= 200 && status <= 299 ? 'delivered' : status === 410 ? 'given_up' : 'retry'
    if (state !== expected) t.fail(`${status}: ${state}`)
  }
  t.same(eventEnding(answered(204), 8, 0.5), { state: 'delivered' })
  t.same(eventEnding(answered(410), 1, 0.5), { state: 'given_up', reason: 'status 410', keepMs: KEEP_MS })
  t.same(eventEnding(REFUSED, 1, 0.5), { state: 'given_up', reason: REFUSED.reason, keepMs: KEEP_MS })
})

t.test('the schedule: eight attempts, each pause up to a fifth shorter or longer', async (t) => {
  const pauses = [
    5 * SECOND_MS,
    30 * SECOND_MS,
    2 * MINUTE_MS,
    10 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    6 * HOUR_MS,
  ]
  for (const posted of [FAILED, answered(500), answered(301), answered(404)]) {
    const reason = posted.kind === 'answered' ? `status ${posted.status}` : posted.reason
    for (const [index, delayMs] of pauses.entries()) {
      const at = (random: number) => eventEnding(posted, index + 1, random)
      t.same(at(0.5), { state: 'retry', delayMs, reason })
      t.same(at(0), { state: 'retry', delayMs: delayMs * 0.8, reason })
      t.same(at(1), { state: 'retry', delayMs: delayMs * 1.2, reason })
    }
    // A ninth one comes only when the sender of the eighth died.
    for (const attempts of [8, 9])
      t.same(eventEnding(posted, attempts, 0.5), { state: 'given_up', reason, keepMs: KEEP_MS })
  }
})

t.test('Retry-After: of a 429 only, never earlier than the schedule, never later than an hour', async (t) => {
  const delayOf = (posted: Posted, attempts = 1) => {
    const ending = eventEnding(posted, attempts, 0.5)
    return ending.state === 'retry' ? ending.delayMs : ending.state
  }
  t.equal(delayOf(answered(429)), 5_000)
  t.equal(delayOf(answered(429, 0)), 5_000)
  t.equal(delayOf(answered(429, 4_999)), 5_000)
  t.equal(delayOf(answered(429, 5_001)), 5_001)
  t.equal(delayOf(answered(429, HOUR_MS)), HOUR_MS)
  t.equal(delayOf(answered(429, HOUR_MS + 1)), HOUR_MS)
  t.equal(delayOf(answered(429, 1e12)), HOUR_MS)
  t.equal(delayOf(answered(429, 60_000), 6), 2 * HOUR_MS, 'the schedule is later')
  t.equal(delayOf(answered(429, 60_000), 8), 'given_up')
  for (const status of [200, 301, 500, 503])
    t.not(delayOf(answered(status, 600_000)), 600_000, `${status}: is not asked`)
})
