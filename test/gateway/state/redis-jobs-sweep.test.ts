import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { PARTITIONS } from '../../../src/contracts/ids.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { createSweep } from '../../../src/gateway/state/redis/partitions.ts'

/** Partitions that hold so many items each, and what they were asked. */
function partitionsWith(counts: Readonly<Record<number, number>>) {
  const left = new Map(Object.entries(counts).map(([partition, count]) => [Number(partition), count]))
  const asked: { partition: number; limit: number; isFirst: boolean }[] = []
  let atOnce = 0
  const busy = { most: 0 }
  const ask = async (partition: number, limit: number, isFirst: boolean) => {
    asked.push({ partition, limit, isFirst })
    busy.most = Math.max(busy.most, ++atOnce)
    await sleep(0)
    atOnce -= 1
    const taken = Math.min(limit, left.get(partition) ?? 0)
    left.set(partition, (left.get(partition) ?? 0) - taken)
    return { items: Array.from({ length: taken }, () => partition), more: limit > 0 && taken === limit }
  }
  return { ask, asked, busy }
}

t.test('every partition is asked, as many at a time as there may be items', async (t) => {
  for (const limit of [1, 5, 16, 40]) {
    const { ask, asked, busy } = partitionsWith({})
    t.same(await createSweep(systemClock)(limit, ask), [])
    t.same(
      asked.map(({ partition }) => partition).sort(),
      Array.from({ length: PARTITIONS }, (_, i) => i).sort(),
    )
    t.equal(busy.most, Math.min(limit, PARTITIONS))
    t.ok(asked.every(({ isFirst }) => isFirst))
  }
})

t.test('there are never more items than asked for, and as many as there are', async (t) => {
  for (const limit of [1, 2, 7, 16, 33, 100]) {
    const sweep = createSweep(systemClock)
    const { ask, asked } = partitionsWith({ 2: 50, 3: 1, 11: 9 })
    const sums: number[] = []
    for (let left = 60; left > 0; left -= limit) sums.push((await sweep(limit, ask)).length)
    t.equal(
      sums.reduce((sum, count) => sum + count, 0),
      60,
    )
    t.ok(
      sums.slice(0, -1).every((count) => count === limit),
      `${sums} of ${limit}`,
    )
    t.ok(asked.every((each) => each.limit <= limit))
  }
})

t.test('partitions take turns, wherever they are', async (t) => {
  const sweep = createSweep(systemClock)
  const { ask } = partitionsWith({ 4: 1000, 5: 1000, 15: 1000 })
  const taken: number[] = []
  for (let i = 0; i < 30; i++) taken.push(...(await sweep(1, ask)))
  t.same(
    [4, 5, 15].map((one) => taken.filter((partition) => partition === one).length),
    [10, 10, 10],
  )
})

t.test('partitions that had more give several at a time, and the others still have their turn', async (t) => {
  const sweep = createSweep(systemClock)
  const { ask, asked } = partitionsWith(
    Object.fromEntries(Array.from({ length: PARTITIONS }, (_, i) => [i, 1000])),
  )
  await sweep(PARTITIONS, ask)
  const taken: number[] = []
  for (let i = 0; i < 8; i++) {
    asked.splice(0)
    taken.push(...(await sweep(16, ask)))
    t.ok(asked.length <= 4, `${asked.length} scripts for 16 items`)
  }
  const each = Array.from(
    { length: PARTITIONS },
    (_, i) => taken.filter((partition) => partition === i).length,
  )
  t.ok(
    each.every((count) => count === 8),
    `${each}`,
  )
})

t.test('with a limit of 0 each is asked once, for nothing', async (t) => {
  const { ask, asked } = partitionsWith({ 1: 5 })
  t.same(await createSweep(systemClock)(0, ask), [])
  t.equal(asked.length, PARTITIONS)
  t.ok(asked.every(({ limit }) => limit === 0))
})

t.test('a partition that is away keeps none of the others waiting', async (t) => {
  const { ask } = partitionsWith({ 9: 3 })
  const away = new Error('away')
  const failing = async (partition: number, limit: number, isFirst: boolean) => {
    if (partition < 8) throw away
    return ask(partition, limit, isFirst)
  }
  const sweep = createSweep(systemClock)
  t.same(await sweep(1, failing), [9])
  t.same(await sweep(16, failing), [9, 9])
  await t.rejects(sweep(16, failing), away, 'where nothing is found that is told')
})

t.test('a sweep comes to an end while partitions are slow', async (t) => {
  const { ask, asked } = partitionsWith({})
  const slow = async (...args: Parameters<typeof ask>) => {
    await sleep(400)
    return ask(...args)
  }
  t.same(await createSweep(systemClock)(1, slow), [])
  t.ok(asked.length < PARTITIONS, `${asked.length} were asked`)
})
