import t from 'tap'
import { EmbeddedUnitLimiter } from '../../../src/gateway/state/embedded/unit-limiter.ts'
import { slowBucket, unitLimiterContract } from './unit-limiter.contract.ts'

t.test('contract', async (t) => unitLimiterContract(t, async () => new EmbeddedUnitLimiter(() => 1_000_000)))

t.test('units come back with time, to the microsecond', async (t) => {
  let nowUs = 0
  const limiter = new EmbeddedUnitLimiter(() => nowUs)
  const bucket = slowBucket('time')
  limiter.take([bucket], 10)
  nowUs = 5_999_999
  t.equal(limiter.take([bucket], 1).retryAfterMs, 1)
  nowUs += 1
  t.match(limiter.take([bucket], 1), { retryAfterMs: 0 })
  nowUs += 60_000_000
  t.match(limiter.take([bucket], 0), { buckets: [{ remaining: 10, resetMs: 0 }] })
})
