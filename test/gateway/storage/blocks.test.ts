import t, { type Test } from 'tap'
import { BLOCK_BYTES, type Block } from '../../../src/contracts/audio.ts'
import { createBlocks, heldBytes, sliceBytes } from '../../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { MIB } from './rig.ts'

const KIB = 1024

t.test('a body takes whole blocks and the smallest slice for its end', async (t: Test) => {
  t.equal(sliceBytes(1), 16 * KIB)
  t.equal(sliceBytes(16 * KIB), 16 * KIB)
  t.equal(sliceBytes(16 * KIB + 1), 64 * KIB)
  t.equal(sliceBytes(256 * KIB + 1), BLOCK_BYTES)
  t.equal(heldBytes(0), 0)
  t.equal(heldBytes(BLOCK_BYTES), BLOCK_BYTES)
  t.equal(heldBytes(3 * BLOCK_BYTES + 1), 3 * BLOCK_BYTES + 16 * KIB)
})

t.test('blocks are used again, and dropped when they were not needed for a while', async (t: Test) => {
  const clock = new VirtualClock()
  const pool = createBlocks(createBudget(4 * MIB), { clock })
  t.teardown(() => pool.close())
  const first = pool.take(BLOCK_BYTES)
  pool.give(first)
  t.equal(pool.take(BLOCK_BYTES), first)
  const more = Array.from({ length: 6 }, () => pool.take(BLOCK_BYTES))
  for (const block of more) pool.give(block)
  t.equal(pool.allocatedBytes, 7 * MIB)
  await clock.advance(60_000)
  t.equal(pool.allocatedBytes, MIB, 'what is in use stays')
})

t.test('a block that may still be read rests before others get it', async (t: Test) => {
  const clock = new VirtualClock()
  const pool = createBlocks(createBudget(4 * MIB), { clock })
  t.teardown(() => pool.close())
  const block = pool.take(BLOCK_BYTES)
  let rested = false
  pool.giveLater(block, () => {
    rested = true
  })
  t.not(pool.take(BLOCK_BYTES), block)
  t.equal(pool.usedBytes, 2 * MIB, 'it counts as in use')
  await clock.advance(999)
  t.notOk(rested)
  await clock.advance(1)
  t.ok(rested)
  t.equal(pool.take(BLOCK_BYTES), block)
})

t.test('slices never overlap, and the budget counts the whole of their block', async (t: Test) => {
  const budget = createBudget(8 * MIB)
  const pool = createBlocks(budget)
  t.teardown(() => pool.close())
  const take = (bytes: number): Block => {
    const block = pool.take(bytes)
    budget.charge(block.length)
    return block
  }
  const slices = Array.from({ length: 100 }, (_, i) => {
    const slice = take(10 * KIB)
    slice.fill(i)
    return slice
  })
  t.equal(budget.used, 2 * MIB, '100 slices of 16 KiB are in two blocks')
  t.ok(slices.every((slice, i) => slice.every((byte) => byte === i)))
  for (const slice of slices) {
    pool.give(slice)
    budget.refund(slice.length)
  }
  t.equal(budget.used, 0)
  t.equal(pool.usedBytes, 0)
  t.equal(pool.allocatedBytes, 2 * MIB)
  take(BLOCK_BYTES)
  t.equal(pool.allocatedBytes, 2 * MIB, 'a block that was cut is whole again')
})
