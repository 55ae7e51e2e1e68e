import t from 'tap'
import type { CallLedger, Settlement } from '../../../src/contracts/ledger.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { createSettlements } from '../../../src/gateway/call/money/accounts.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const SETTLEMENT: Settlement = { token: 'call_1', workspace: 'acme', slot: null, charge: null }

/** A ledger that is away for the first so many commands. */
function ledgerAwayFor(commands: number) {
  const seen: string[] = []
  const answer = (name: string) => {
    seen.push(name)
    if (seen.length <= commands) throw new Error('the state is away')
  }
  const ledger: Pick<CallLedger, 'settle' | 'cancel'> = {
    async settle() {
      answer('settle')
      return { slotHeld: true, charged: false }
    },
    async cancel() {
      answer('cancel')
    },
  }
  const clock = new VirtualClock()
  return { seen, clock, settlements: createSettlements(ledger as CallLedger, createLogger('silent'), clock) }
}

t.test('what the state takes at once is not sent again', async (t) => {
  const { seen, clock, settlements } = ledgerAwayFor(0)
  t.same(await settlements.settle(SETTLEMENT, 10_000), { slotHeld: true, charged: false })
  await clock.advance(1_000)
  t.equal(settlements.pending, 0)
  t.same(seen, ['settle'])
})

t.test('the caller waits for one try; the others go on behind', async (t) => {
  const { seen, clock, settlements } = ledgerAwayFor(3)
  t.equal(await settlements.settle(SETTLEMENT, 10_000), null)
  t.equal(settlements.pending, 1)
  await clock.advance(1_000)
  t.equal(settlements.pending, 0)
  t.same(seen, ['settle', 'settle', 'settle', 'settle'])
})

t.test('a begin whose answer was lost is taken back until the state takes that', async (t) => {
  const { seen, clock, settlements } = ledgerAwayFor(2)
  settlements.cancel({ token: 'call_1', workspace: 'acme', slotId: 'ab' }, 0)
  await clock.advance(1_000)
  t.equal(settlements.pending, 0)
  t.same(seen, ['cancel', 'cancel', 'cancel'])
})

t.test('a lost begin is taken back for as long as what it has begun lasts', async (t) => {
  for (const [forMs, pending] of [
    [0, 0],
    [300_000, 1],
  ] as const) {
    const { clock, settlements } = ledgerAwayFor(1_000)
    settlements.cancel({ token: 'call_1', workspace: 'acme', slotId: null }, forMs)
    await clock.advance(70_000)
    t.equal(settlements.pending, pending)
    await clock.advance(300_000)
    t.equal(settlements.pending, 0)
  }
})

t.test('however many wait, few are tried while the state is away, and all when it is back', async (t) => {
  let away = true
  let tries = 0
  const cancelled = new Set<string>()
  const cancel = async ({ token }: { token: string }) => {
    tries += 1
    if (away) throw new Error('the state is away')
    cancelled.add(token)
  }
  const clock = new VirtualClock()
  const settlements = createSettlements({ cancel } as unknown as CallLedger, createLogger('silent'), clock)
  for (let call = 0; call < 1_000; call++)
    settlements.cancel({ token: `call_${call}`, workspace: 'acme', slotId: null }, 0)
  await clock.advance(1_000)
  t.equal(tries, 3 * 4, 'after 100, 300 and 700 ms, four at a time')
  t.equal(settlements.pending, 1_000)
  away = false
  await clock.advance(1_000)
  t.equal(settlements.pending, 0)
  t.equal(cancelled.size, 1_000)
})

t.test('what the state never takes keeps nothing else back', async (t) => {
  const taken: string[] = []
  const cancel = async ({ token }: { token: string }) => {
    if (token.startsWith('bad')) throw new Error('the state does not take it')
    taken.push(token)
  }
  const clock = new VirtualClock()
  const settlements = createSettlements({ cancel } as unknown as CallLedger, createLogger('silent'), clock)
  for (let call = 0; call < 10; call++)
    settlements.cancel({ token: `bad_${call}`, workspace: 'acme', slotId: null }, 0)
  settlements.cancel({ token: 'good', workspace: 'acme', slotId: null }, 0)
  await clock.advance(700)
  t.same(taken, ['good'])
  t.equal(settlements.pending, 10)
  await settlements.close()
  t.equal(settlements.pending, 0)
})

t.test('it gives up when its time is over, and when the node stops', async (t) => {
  const short = ledgerAwayFor(Number.POSITIVE_INFINITY)
  t.equal(await short.settlements.settle(SETTLEMENT, 500), null)
  await short.clock.advance(999)
  t.equal(short.settlements.pending, 0)
  t.equal(short.seen.length, 3, 'at once, after 100 ms and 200 ms more; after 400 ms more its time is over')

  const stopped = ledgerAwayFor(Number.POSITIVE_INFINITY)
  await stopped.settlements.settle(SETTLEMENT, 60_000)
  await stopped.settlements.close()
  t.equal(stopped.settlements.pending, 0)
})

t.test('a call that outlives its caller is pending until it ends, however', async (t) => {
  const { settlements } = ledgerAwayFor(0)
  const good = Promise.withResolvers<number>()
  const bad = Promise.withResolvers<number>()
  const both = [settlements.during(good.promise), settlements.during(bad.promise)]
  t.equal(settlements.pending, 2)
  good.resolve(1)
  bad.reject(new Error('it failed'))
  t.match(await Promise.allSettled(both), [{ value: 1 }, { reason: { message: 'it failed' } }])
  t.equal(settlements.pending, 0)
})
