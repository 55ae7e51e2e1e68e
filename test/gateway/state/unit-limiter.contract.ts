import type { Test } from 'tap'
import type { UnitBucket, UnitLimiter } from '../../../src/contracts/rate-limit.ts'
import { unitsUs } from '../../../src/gateway/state/bucket.ts'

/** A bucket from which nothing comes back while a test runs. */
export function slowBucket(id: string, perMinute = 10): UnitBucket {
  return { partition: 'acme', id, perMinute }
}

/** What every limiter of units keeps, wherever its buckets are. */
export function unitLimiterContract(t: Test, start: (t: Test) => Promise<UnitLimiter>): void {
  t.test('a full bucket has what a minute gives, and says when there is more', async (t) => {
    const limiter = await start(t)
    const bucket = slowBucket('full')
    t.match(await limiter.take([bucket], 6), { retryAfterMs: 0, buckets: [{ remaining: 4 }] })
    const refused = await limiter.take([bucket], 5)
    t.equal(refused.buckets[0]?.remaining, 4, 'nothing is taken')
    t.ok(refused.retryAfterMs > 5_000 && refused.retryAfterMs <= 6_000, `${refused.retryAfterMs} ms`)
    t.match(await limiter.take([bucket], 4), { retryAfterMs: 0, buckets: [{ remaining: 0 }] })
    const none = await limiter.take([bucket], 0)
    t.equal(none.retryAfterMs, 0, 'what holds nothing is taken as long as nothing is owed')
  })

  t.test('more than a minute gives is taken from a full bucket, which owes the rest', async (t) => {
    const limiter = await start(t)
    const bucket = slowBucket('owing')
    t.match(await limiter.take([bucket], 25), { retryAfterMs: 0, buckets: [{ remaining: 0 }] })
    const { retryAfterMs, buckets } = await limiter.take([bucket], 0)
    t.ok(retryAfterMs > 88_000 && retryAfterMs <= 90_000, `${retryAfterMs} ms until nothing is owed`)
    t.ok(buckets[0]!.resetMs > 148_000, `${buckets[0]?.resetMs} ms until it is full`)
  })

  t.test('what is given back is there again, and no more than was taken', async (t) => {
    const limiter = await start(t)
    const bucket = slowBucket('returns')
    await limiter.take([bucket], 8)
    t.match(await limiter.take([bucket], -3, true), { buckets: [{ remaining: 5 }] })
    t.match(await limiter.take([bucket], -100, true), { buckets: [{ remaining: 10, resetMs: 0 }] })
    t.match(await limiter.take([bucket], 30, true), { retryAfterMs: 0, buckets: [{ remaining: 0 }] })
    t.match(await limiter.take([bucket], 1, true), { retryAfterMs: 0 }, 'what is due is always taken')
  })

  t.test('what takes ages is owed, and given back to both buckets', async (t) => {
    const limiter = await start(t)
    const [own, shared] = [slowBucket('ages', 1), slowBucket('ages-shared', 1_000_000)]
    t.match(await limiter.take([own, shared], 128e9), { retryAfterMs: 0 })
    const { buckets } = await limiter.take([own, shared], -128e9, true)
    t.match(buckets, [{ resetMs: 0 }, { resetMs: 0 }])
    t.ok(Number.isSafeInteger(2 * unitsUs(own, 128e9)), 'Redis counts it exactly')
  })

  t.test('two buckets give both, or neither', async (t) => {
    const limiter = await start(t)
    const [own, shared] = [slowBucket('own'), slowBucket('shared', 4)]
    const { retryAfterMs, buckets } = await limiter.take([own, shared], 3)
    t.same([retryAfterMs, buckets.map(({ remaining }) => remaining)], [0, [7, 1]])
    const refused = await limiter.take([own, shared], 3)
    t.same(
      refused.buckets.map(({ remaining }) => remaining),
      [7, 1],
    )
    t.same(
      refused.buckets.map((one) => one.retryAfterMs > 0),
      [false, true],
      'it says which one refuses',
    )
    t.match(await limiter.take([own], 7), { retryAfterMs: 0 })
  })

  t.test('one of many at a time gets what is there', async (t) => {
    const limiter = await start(t)
    const bucket = slowBucket('crowd')
    const takes = await Promise.all(Array.from({ length: 50 }, () => limiter.take([bucket], 2)))
    t.equal(takes.filter(({ retryAfterMs }) => retryAfterMs === 0).length, 5)
  })
}
