import t, { type Test } from 'tap'
import type { HolderPace, MemoryHolder, ReserveOptions } from '../../../src/contracts/budget.ts'
import { createBudget, type WaitingBudget } from '../../../src/gateway/storage/budget.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))
const forever = new AbortController().signal
const wait = (workspace: string, waitMs = 5_000) => ({ workspace, waitMs, signal: forever })

/** Turns of a workspace, each of which gives ten bytes back when it is refused. */
function greedyTurns<Name>(budget: WaitingBudget) {
  const refused: Name[] = []
  const ask = async (name: Name, bytes: number, options: Partial<ReserveOptions>) => {
    if (await budget.reserve(bytes, { ...wait('greedy'), ...options })) return
    refused.push(name)
    budget.refund(10, 'greedy')
  }
  return { refused, ask }
}

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
  const clock = new VirtualClock()
  const budget = createBudget(100, 0, clock)
  budget.charge(80)
  t.equal(await budget.reserve(101, wait('a')), false, 'what can never fit does not wait')
  const late = budget.reserve(30, wait('a', 20))
  await clock.advance(20)
  t.equal(await late, false, 'time is up')
  t.equal(budget.used, 80)
  const granted = budget.reserve(30, wait('a'))
  t.equal(budget.waiting, 1)
  budget.refund(20)
  t.equal(await granted, true)
  t.equal(budget.used, 90)
  t.equal(budget.waiting, 0)
})

t.test('an aborted reservation takes nothing and lets the next one pass', async (t: Test) => {
  const budget = createBudget(100, 0)
  budget.charge(50)
  const controller = new AbortController()
  const large = budget.reserve(80, { workspace: 'a', waitMs: 5_000, signal: controller.signal })
  const small = budget.reserve(40, wait('a'))
  await turn()
  t.equal(budget.waiting, 2, 'the small one waits its turn')
  controller.abort()
  t.equal(await large, false)
  t.equal(await small, true)
  t.equal(budget.used, 90)
  t.equal(await budget.reserve(1, { workspace: 'a', waitMs: 5_000, signal: controller.signal }), false)
})

t.test('a workspace over its equal share waits for the others', async (t: Test) => {
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
    await turn()
  }
  t.same(order, ['modest', 'other'], 'a quarter stays free for others')
  budget.refund(30, 'modest')
  await turn()
  t.same(order, ['modest', 'other', 'greedy'])
  budget.refund(30, 'other')
  await Promise.all(asked)
  t.same(order, ['modest', 'other', 'greedy', 'greedy'])
})

t.test('a small request does not wait for a large one', async (t: Test) => {
  const budget = createBudget(100, 10)
  budget.charge(60)
  const large = budget.reserve(80, wait('a'))
  t.equal(await budget.reserve(10, wait('a')), true)
  t.equal(budget.waiting, 1)
  budget.refund(70)
  t.equal(await large, true)
})

t.test('one refund wakes those whose bytes fit, and no others', async (t: Test) => {
  const clock = new VirtualClock()
  const budget = createBudget(1_000, 0, clock)
  budget.charge(1_000)
  let woken = 0
  const all = Array.from({ length: 500 }, () =>
    budget.reserve(10, wait('a', 300)).then((ok) => ok && woken++),
  )
  budget.refund(100)
  await turn()
  t.equal(woken, 10)
  t.equal(budget.used, 1_000)
  await clock.advance(300)
  await Promise.all(all)
  t.equal(budget.waiting, 0, 'all others ran out of time')
  t.equal(woken, 10)
})

/** A request that holds `bytes` of a workspace, of which `spare` are for what has not come. */
function holderOf(
  budget: WaitingBudget,
  workspace: string,
  { bytes, spare = 0, pace = null }: { bytes: number; spare?: number; pace?: HolderPace | null },
) {
  let held = bytes
  let left = spare
  const give = (some: number) => {
    held -= some
    budget.refund(some, workspace)
  }
  const holder = {
    workspace,
    ended: false,
    get held() {
      return held
    },
    pace: () => pace,
    shrink() {
      give(left)
      left = 0
    },
    end() {
      holder.ended = true
      give(held)
      return 0
    },
  }
  budget.charge(bytes, workspace)
  budget.enrol(holder)
  return holder
}

const CRAWLS = { bytesPerSecond: 4_096, bytesLeft: 10_000_000 }

t.test('a workspace alone may hold all; beside another it leaves a quarter free', (t: Test) => {
  const budget = createBudget(100, 0)
  t.equal(budget.tryReserve(60, 'greedy'), true)
  t.equal(budget.tryReserve(40, 'greedy'), true, 'all there is')
  budget.refund(40, 'greedy')
  t.equal(budget.tryReserve(10, 'modest'), true)
  t.equal(budget.tryReserve(10, 'greedy'), false, 'it would leave twenty')
  t.equal(budget.tryReserve(5, 'greedy'), true)
  t.equal(budget.tryReserve(25, 'modest'), true, 'what it left is for others')
  budget.refund(65, 'greedy')
  budget.refund(35, 'modest')
  t.equal(budget.tryReserve(100, 'greedy'), true, 'one that has nothing may take all')
  t.end()
})

t.test('a workspace that has given everything back has no share, however many there were', (t: Test) => {
  const budget = createBudget(100, 0)
  for (let at = 0; at < 3_000; at += 1) {
    budget.tryReserve(1, `other-${at}`)
    budget.refund(1, `other-${at}`)
  }
  t.equal(budget.tryReserve(45, 'one'), true)
  t.equal(budget.tryReserve(45, 'another'), true)
  t.equal(budget.tryReserve(5, 'another'), true, 'half of all is its share')
  t.equal(budget.tryReserve(5, 'another'), false)
  t.end()
})

t.test('what is set aside for bytes that have not come goes to another who asks, at once', (t: Test) => {
  const budget = createBudget(100, 0)
  const first = holderOf(budget, 'greedy', { bytes: 60, spare: 50 })
  const second = holderOf(budget, 'greedy', { bytes: 40, spare: 30 })
  t.equal(budget.tryReserve(1, 'greedy'), false)
  t.same([first.held, second.held], [60, 40], 'its own requests get nothing of it')
  t.equal(budget.tryReserve(30, 'modest'), true)
  t.same([first.held, second.held], [10, 40], 'no more than is wanted')
  t.notOk(first.ended || second.ended, 'none is ended')
  t.end()
})

t.test('those who would need longest are ended, and none that gets on', (t: Test) => {
  const budget = createBudget(100, 0)
  const of = (pace: HolderPace | null, bytes = 16) => holderOf(budget, 'greedy', { bytes, pace })
  const slow = of({ bytesPerSecond: 100_000, bytesLeft: 10_000_000 })
  const slowest = of(CRAWLS)
  const endless = of({ bytesPerSecond: 4_096, bytesLeft: Number.POSITIVE_INFINITY })
  const spared = [
    of({ bytesPerSecond: 5_000_000, bytesLeft: 10_000_000 }),
    of({ bytesPerSecond: 4_096, bytesLeft: 8_000 }),
    of(null, 20),
  ]
  t.equal(budget.tryReserve(30, 'modest'), true)
  t.same([slow.ended, slowest.ended, endless.ended], [false, true, true])
  t.equal(budget.tryReserve(15, 'modest'), true)
  t.ok(slow.ended)
  t.equal(budget.tryReserve(45, 'modest'), false, 'over its share')
  t.notOk(
    spared.some(({ ended }) => ended),
    'the fast, the nearly done and the new go on',
  )
  t.end()
})

t.test('nothing is taken from a workspace within its share, nor beyond that', async (t: Test) => {
  const clock = new VirtualClock()
  const budget = createBudget(90, 0, clock)
  const greedy = [10, 10, 10, 10, 10].map((bytes) => holderOf(budget, 'greedy', { bytes, pace: CRAWLS }))
  const modest = [10, 10].map((bytes) => holderOf(budget, 'modest', { bytes, pace: CRAWLS }))
  budget.charge(20)
  const waiting = budget.reserve(30, wait('other', 400))
  await clock.advance(250)
  t.equal(greedy.filter(({ ended }) => ended).length, 2, 'down to a third')
  t.notOk(modest.some(({ ended }) => ended))
  await clock.advance(150)
  t.equal(await waiting, false)
})

t.test(
  'one who waits gets what turns out to be slow, and memory given back later counts',
  async (t: Test) => {
    const clock = new VirtualClock()
    const budget = createBudget(100, 0, clock)
    let pace: HolderPace | null = null
    let ended = 0
    const later = (): MemoryHolder => {
      const holder = {
        workspace: 'greedy',
        pace: () => pace,
        end() {
          ended += 1
          clock.after(250, () => {
            budget.dismiss(holder)
            budget.refund(25, 'greedy')
          })
          return 25
        },
      }
      return holder
    }
    const holders = Array.from({ length: 4 }, later)
    budget.charge(100, 'greedy')
    for (const holder of holders) budget.enrol(holder)
    const waiting = budget.reserve(40, wait('modest'))
    await clock.advance(150)
    t.equal(ended, 0)
    pace = CRAWLS
    await clock.advance(350)
    t.equal(await waiting, true)
    t.equal(ended, 2, 'looks meanwhile end no more')
  },
)

t.test('one who is dismissed before its end returns is not waited for', async (t: Test) => {
  const clock = new VirtualClock()
  const budget = createBudget(100, 0, clock)
  const ended: MemoryHolder[] = []
  const slow = (): MemoryHolder => {
    const holder = {
      workspace: 'greedy',
      pace: () => CRAWLS,
      end() {
        ended.push(holder)
        budget.refund(25, 'greedy')
        budget.dismiss(holder)
        return 25
      },
    }
    return holder
  }
  budget.charge(100, 'greedy')
  for (const holder of Array.from({ length: 4 }, slow)) budget.enrol(holder)
  const first = budget.reserve(25, wait('modest'))
  await clock.advance(100)
  t.equal(ended.length, 1)
  t.equal(await first, true)
  const second = budget.reserve(25, wait('modest'))
  await clock.advance(100)
  t.equal(ended.length, 2, 'the next is ended for the next')
  t.equal(await second, true)
})

t.test('what has come by force and slowly is taken back when it overdraws the memory', async (t: Test) => {
  const clock = new VirtualClock()
  const budget = createBudget(100, 0, clock)
  const all = Array.from({ length: 30 }, () => holderOf(budget, 'greedy', { bytes: 10, pace: CRAWLS }))
  await clock.advance(100)
  t.equal(budget.used, 100)
  t.equal(all.filter(({ ended }) => ended).length, 20)
})

t.test(
  'turns of an overdrawn workspace that hold memory end when another one finds none',
  async (t: Test) => {
    const clock = new VirtualClock()
    const budget = createBudget(100, 0, clock)
    budget.charge(90, 'greedy')
    const { refused, ask } = greedyTurns<number>(budget)
    const turns = [1, 2, 3].map((turn) => ask(turn, 50, { heldBytes: () => (turn === 1 ? 0 : 10) }))
    await clock.advance(150)
    t.same(refused, [], 'none is refused while no one else waits')
    t.equal(await budget.reserve(20, wait('modest', 1_000)), true)
    t.same(refused, [3], 'the last one, and no more than were needed')
    budget.refund(20, 'modest')
    budget.refund(80, 'greedy')
    await Promise.all(turns.slice(0, 1))
    await turn()
    t.equal(budget.waiting, 0)
    t.same(refused, [3])
  },
)

t.test('a workspace is over its share where others want what it holds', async (t: Test) => {
  const budget = createBudget(100, 0)
  budget.charge(110, 'greedy')
  t.equal(budget.isOver('greedy'), false, 'alone it may hold all, and what came by force')
  budget.refund(20, 'greedy')
  t.equal(budget.tryReserve(10, 'modest'), true)
  t.equal(budget.isOver('greedy'), true, 'nothing is left, and a quarter is for others')
  t.equal(
    budget.isOver('greedy', () => 40),
    false,
    'without what is its own it holds half',
  )
  t.equal(budget.isOver('modest'), false)
  budget.refund(10, 'modest')
  t.equal(budget.isOver('greedy'), true, 'the other may ask again')
  budget.refund(15, 'greedy')
  t.equal(budget.isOver('greedy'), false)
  t.equal(createBudget(0, 0).isOver('greedy'), false)
})

t.test(
  'answers that are read on leave room for others, and end for it where they hold more',
  async (t: Test) => {
    const clock = new VirtualClock()
    const budget = createBudget(100, 0, clock)
    budget.charge(90, 'greedy')
    const { refused, ask } = greedyTurns<string>(budget)
    const readOn = (name: string, bytes: number) =>
      ask(name, bytes, { heldBytes: () => 10, ...(bytes === 0 ? { keeps: true } : {}) })
    t.equal(budget.tryReserve(5, 'modest'), true)
    const turns = [readOn('first', 0), readOn('body', 50), readOn('second', 0)]
    await clock.advance(150)
    t.same(refused, ['second', 'first'], 'twenty were missing of a quarter; a body may wait')
    budget.refund(60, 'greedy')
    await Promise.all(turns)
    t.same(refused, ['second', 'first'])
    t.equal(budget.waiting, 0)

    budget.charge(45, 'greedy')
    const third = readOn('third', 0)
    await turn()
    budget.refund(50, 'greedy')
    await third
    t.same(refused, ['second', 'first'], 'it goes on as soon as its workspace is within its share')
  },
)
