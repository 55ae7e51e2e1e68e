import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createBudget } from '../../src/storage/budget.ts'

const forever = new AbortController().signal
const wait = (workspace: string, waitMs = 5_000) => ({ workspace, waitMs, signal: forever })

t.test('counts what is taken, by whatever way', async (t: Test) => {
  const budget = createBudget(100)
  t.equal(budget.tryReserve(60), true)
  t.equal(budget.tryReserve(41), false)
  t.equal(budget.used, 60, 'a refusal takes nothing')
  budget.charge(50)
  t.equal(budget.used, 110, 'a charge by force may pass the limit')
  budget.refund(110)
  t.equal(budget.used, 0)
})

t.test('a reservation waits for its bytes, and no longer than it may', async (t: Test) => {
  const budget = createBudget(100, 0)
  budget.charge(80)
  t.equal(await budget.reserve(101, wait('a')), false, 'what can never fit does not wait')
  t.equal(await budget.reserve(30, wait('a', 20)), false, 'time is up')
  t.equal(budget.used, 80)
  const granted = budget.reserve(30, wait('a'))
  t.equal(budget.waiting, 1)
  budget.refund(20)
  t.equal(await granted, true)
  t.equal(budget.used, 90)
  t.equal(budget.waiting, 0)
})

t.test('an aborted reservation takes nothing and lets the one behind it go', async (t: Test) => {
  const budget = createBudget(100, 0)
  budget.charge(50)
  const controller = new AbortController()
  const large = budget.reserve(80, { workspace: 'a', waitMs: 5_000, signal: controller.signal })
  const small = budget.reserve(40, wait('a'))
  await sleep(5)
  t.equal(budget.waiting, 2, 'the small one waits its turn')
  controller.abort()
  t.equal(await large, false)
  t.equal(await small, true)
  t.equal(budget.used, 90)
  t.equal(await budget.reserve(1, { workspace: 'a', waitMs: 5_000, signal: controller.signal }), false)
})

t.test('a workspace over its equal share waits behind the others', async (t: Test) => {
  const budget = createBudget(100, 0)
  t.equal(await budget.reserve(100, wait('greedy')), true)
  const order: string[] = []
  const asked = [
    ['greedy', 30],
    ['greedy', 30],
    ['modest', 30],
    ['other', 30],
  ].map(async ([workspace, bytes]) => {
    await budget.reserve(bytes as number, wait(workspace as string))
    order.push(workspace as string)
  })
  for (let i = 0; i < 3; i += 1) {
    budget.refund(30, 'greedy')
    await sleep(5)
  }
  t.same(order, ['modest', 'other'], 'a quarter stays free for others')
  budget.refund(30, 'modest')
  await sleep(5)
  t.same(order, ['modest', 'other', 'greedy'])
  budget.refund(30, 'other')
  await Promise.all(asked)
  t.same(order, ['modest', 'other', 'greedy', 'greedy'])
})

t.test('a small request does not wait behind a large one', async (t: Test) => {
  const budget = createBudget(100, 10)
  budget.charge(60)
  const large = budget.reserve(80, wait('a'))
  t.equal(await budget.reserve(10, wait('a')), true)
  t.equal(budget.waiting, 1)
  budget.refund(70)
  t.equal(await large, true)
})

t.test('one refund wakes those whose bytes fit, and nobody else', async (t: Test) => {
  const budget = createBudget(1_000, 0)
  budget.charge(1_000)
  let woken = 0
  const all = Array.from({ length: 500 }, () =>
    budget.reserve(10, wait('a', 300)).then((ok) => ok && woken++),
  )
  budget.refund(100)
  await sleep(5)
  t.equal(woken, 10)
  t.equal(budget.used, 1_000)
  await Promise.all(all)
  t.equal(budget.waiting, 0, 'all others ran out of time')
  t.equal(woken, 10)
})
