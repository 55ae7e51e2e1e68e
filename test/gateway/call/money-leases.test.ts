import { deepStrictEqual as deepEqual } from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Principal } from '../../../src/contracts/catalog.ts'
import type {
  AccountTerms,
  CallLedger,
  Cancellation,
  Charge,
  Leasing,
} from '../../../src/contracts/ledger.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import type { HeldEntry, MoneySource } from '../../../src/contracts/recorder.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { createUsageBuffer } from '../../../src/gateway/call/money/accounts.ts'
import { createMoneyLeases, type LeasedMoney } from '../../../src/gateway/call/money/money-leases.ts'
import { startBareOperations } from '../../support/bare-operations.ts'
import { principal } from '../../support/catalog.ts'
import { Dice } from '../../support/dice.ts'
import { NO_TERMS, reserve } from '../../support/state-under-test.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const USD = 1_000_000
const COST = 40
const ESTIMATE = 100
/** What a lease aims at, at most. */
const LARGEST = 5 * USD

/** Longer than a lease stays that no call uses. */
const IDLE_MS = 3_000

/** A journal that is told what has changed, and has to know all of it. */
class Journal {
  #source: MoneySource | null = null
  readonly #told = new Map<string, HeldEntry>()
  /** Entries that it was told. */
  read = 0

  keepMoney(source: MoneySource): void {
    this.#source = source
  }

  beforeReport(): void {
    this.compare()
  }

  /** @returns how many leases there are */
  compare(): number {
    const changed = this.#source!.entries(false)
    this.read += changed.length
    for (const entry of changed) {
      if (entry.money === undefined) this.#told.delete(entry.key)
      else this.#told.set(entry.key, entry)
    }
    const all = new Map(this.#source!.entries(true).map((entry) => [entry.key, entry]))
    deepEqual(this.#told, all)
    return all.size
  }
}

type Fault = 'lost' | 'answer lost' | null

/** A node on a ledger whose messages may be lost. */
async function nodeOf(
  t: Test,
  micros: number,
  fault: (leasing: Leasing) => Fault = () => null,
  clock: Clock = systemClock,
) {
  const { state, pass, setClock } = await startBareOperations(t)
  await state.accounts.addCredits('acme', { id: 'initial', micros })
  const sent: Leasing[] = []
  const cancelled: string[] = []
  const ledger: Pick<CallLedger, 'lease' | 'recover'> = {
    recover: (money) => state.ledger.recover(money),
    async lease(leasing) {
      sent.push(leasing)
      const happens = fault(leasing)
      if (happens === 'lost') throw new Error('it did not arrive')
      const leased = await state.ledger.lease(leasing)
      journal.compare()
      if (happens === 'answer lost') throw new Error('its answer did not arrive')
      return leased
    },
  }
  const cancel = (cancellation: Cancellation) => {
    cancelled.push(cancellation.token)
    void state.ledger.cancel(cancellation)
  }
  const journal = new Journal()
  const log = createLogger('silent')
  const parts = { log, clock }
  const usage = createUsageBuffer({ accounts: state.accounts, ...parts })
  const leases = createMoneyLeases({ ledger, settlements: { cancel }, usage, usageKeeper: journal, ...parts })
  t.teardown(async () => {
    await leases.close()
    await usage.close()
  })
  const caller = principal()
  return {
    state,
    pass,
    setClock: (ms: number) => setClock?.(ms),
    leases,
    usage,
    sent,
    cancelled,
    caller,
    journal,
    take: (estimate = ESTIMATE, of: Principal = caller) =>
      leases.take(
        of,
        reserve(estimate, {
          keyId: of.key.id,
          keyBudgetMicros: of.key.budgetMicros,
          terms: of.workspace.terms,
        }),
      ),
    show: (terms: AccountTerms = NO_TERMS) => state.accounts.show('acme', terms),
  }
}

/** The same caller with another key. */
function withKey(caller: Principal, id: string, budgetMicros: number | null = null): Principal {
  return { ...caller, key: { ...caller.key, id, budgetMicros } }
}

const both = (micros: number): Charge => ({ platformMicros: micros, spendMicros: micros })

async function settleAfter(taken: LeasedMoney | null | Promise<LeasedMoney | null>, micros = COST) {
  const leased = await taken
  leased?.settle(both(micros))
  return leased !== null
}

t.test('many calls cost a renewal or two', async (t) => {
  const { take, sent, leases, show } = await nodeOf(t, USD)
  for (let i = 0; i < 100; i++) t.ok(await settleAfter(take()))
  const many = await Promise.all(Array.from({ length: 50 }, () => take()))
  t.ok(many.every((leased) => leased !== null))
  for (const leased of many) leased?.settle(both(COST))
  t.ok(sent.length <= 12, `${sent.length} renewals for 150 calls`)
  t.equal(await leases.giveBack('acme'), true)
  const spent = 150 * COST
  t.match(await show(), { creditsMicros: USD - spent, spentMicros: spent, reservedMicros: 0 })
  t.same((await show()).spentByKey, { key_web: spent })
  t.equal(leases.giveBack('acme'), null, 'there is nothing more')
})

t.test('the first call waits, and the others get theirs at once', async (t) => {
  const { take } = await nodeOf(t, USD)
  t.ok(take() instanceof Promise)
  await take()
  for (let i = 0; i < 4; i++) t.notOk(take() instanceof Promise)
})

t.test('costs above the estimate are overage', async (t) => {
  const { take, leases, show } = await nodeOf(t, USD)
  await settleAfter(take(), ESTIMATE + 30)
  await settleAfter(take(), COST)
  await leases.giveBack('acme')
  t.match(await show(), {
    creditsMicros: USD - ESTIMATE - COST,
    spentMicros: ESTIMATE + 30 + COST,
    overageMicros: 30,
    reservedMicros: 0,
  })
})

t.test('money that is scarce is not leased, and what was leased is given back', async (t) => {
  const { take, show, sent } = await nodeOf(t, 99 * ESTIMATE)
  t.equal(await take(), null)
  t.match(await show(), { creditsMicros: 99 * ESTIMATE, reservedMicros: 0 })
  const before = sent.length
  t.equal(await take(), null)
  t.equal(sent.length, before, 'the state is not asked again at once')
})

t.test('a call without an estimate is reserved by itself', async (t) => {
  const { take, sent } = await nodeOf(t, USD)
  await settleAfter(take())
  const { length } = sent
  t.equal(take(0), null)
  t.equal(sent.length, length)
})

t.test('a lease of a month that is over is not handed out', async (t) => {
  const { take, leases, state, setClock, sent } = await nodeOf(t, USD)
  setClock(Date.UTC(2028, 2, 1) - 60_000)
  t.ok(await settleAfter(take()))
  setClock(Date.UTC(2028, 2, 1))
  t.ok(await waitUntil(() => sent.length >= 2, IDLE_MS), 'it is renewed in the next one')
  t.ok(await settleAfter(take()))
  await leases.giveBack('acme')
  const { spentMicros, creditsMicros } = await state.accounts.show('acme', NO_TERMS)
  t.same({ spentMicros, creditsMicros }, { spentMicros: COST, creditsMicros: USD - 2 * COST })
})

t.test('a call that another key ends in the next month is taken from no key there', async (t) => {
  const { take, leases, usage, setClock, show, caller } = await nodeOf(t, USD)
  setClock(Date.UTC(2028, 2, 1) - 60_000)
  const own = await take()
  const other = await take(ESTIMATE, withKey(caller, 'key_other'))
  setClock(Date.UTC(2028, 2, 1))
  for (const call of [own, other]) call?.settle(both(COST))
  await leases.giveBack('acme')
  await usage.close()
  t.match(await show(), { month: '2028-03', spentMicros: 0, booked: { months: [{ micros: 2 * COST }] } })
  t.same((await show()).spentByKey, {})
})

t.test('a call that costs most of a lease is reserved by itself', async (t) => {
  const { take, sent } = await nodeOf(t, 10_000 * USD)
  t.equal(take(USD), null)
  t.equal(sent.length, 0)
})

t.test('charges are reported within a second or so, and a lease that no call uses ends', async (t) => {
  const { take, show } = await nodeOf(t, USD)
  const open = await take()
  await settleAfter(take())
  const reported = async () => (await show()).spentMicros === COST + ESTIMATE
  t.ok(await waitUntil(reported, IDLE_MS), 'the call under way is still held')
  t.match(await show(), { reservedMicros: ESTIMATE })
  open?.settle(both(1))
  t.ok(await waitUntil(async () => (await show()).reservedMicros === 0, IDLE_MS))
  t.match(await show(), { creditsMicros: USD - COST - 1, spentMicros: COST + 1 })
})

t.test('a beginning whose answer is lost is taken back, and the call fails', async (t) => {
  for (const fault of ['lost', 'answer lost'] as const) {
    const { take, cancelled, sent, show } = await nodeOf(t, USD, () => fault)
    await t.rejects(Promise.resolve(take()))
    t.same(cancelled, [sent[0]?.token])
    t.match(await show(), { creditsMicros: USD, reservedMicros: 0 })
  }
})

t.test('a node that was away too long has lost its lease, and takes another one', async (t) => {
  const { take, pass, leases, show } = await nodeOf(t, USD)
  const early = await take()
  const { reservedMicros } = await show()
  await pass(2 * 3_600_000)
  t.ok(reservedMicros > 0)
  t.match(await show(), { reservedMicros: 0, creditsMicros: USD })
  t.ok(await settleAfter(take()))
  await leases.giveBack('acme')
  t.match(await show(), { creditsMicros: USD, expired: { count: 0 } }, 'a call of it is under way')
  early?.settle(both(COST))
  await leases.giveBack('acme')
  t.match(await show(), { creditsMicros: USD - 2 * COST, booked: { months: [{ micros: 2 * COST }] } })
  t.ok(await settleAfter(take()))
  await leases.giveBack('acme')
  t.match(await show(), { creditsMicros: USD - 3 * COST, reservedMicros: 0 })
})

for (const fault of ['lost', 'answer lost'] as const)
  t.test(`a renewal that was in doubt (${fault}) when the lease ended is charged once`, async (t) => {
    let happens: Fault = null
    const { take, pass, leases, show } = await nodeOf(t, USD, () => happens)
    const early = await take()
    t.ok(await settleAfter(take()))
    happens = fault
    await leases.giveBack('acme')
    early?.settle(both(COST))
    await pass(2 * 3_600_000)
    t.match(await show(), { reservedMicros: 0 }, 'another has looked')
    happens = null
    for (let times = 0; times < 3; times += 1) await leases.giveBack('acme')
    t.match(await show(), { creditsMicros: USD - 2 * COST, booked: { months: [{ micros: 2 * COST }] } })
  })

t.test('a node that stops knows when all is reported', async (t) => {
  let isAway = false
  const { take, leases, show } = await nodeOf(t, USD, () => (isAway ? 'lost' : null))
  await settleAfter(take())
  isAway = true
  t.equal(leases.report(), 1)
  await sleep(50)
  t.equal(leases.report(), 1, 'the state did not take it')
  isAway = false
  t.ok(await waitUntil(() => leases.report() === 0, IDLE_MS))
  t.match(await show(), { creditsMicros: USD - COST, spentMicros: COST })
})

t.test('the journal is told of a lease when it changes, and when it is over', async (t) => {
  // Its time does not pass, or leases are renewed while the others begin.
  const { take, leases, caller, journal } = await nodeOf(t, 100 * USD, undefined, new VirtualClock())
  const callers = Array.from({ length: 200 }, (_, at) => withKey(caller, `key_${at}`, 100 * USD))
  for (const one of callers) await settleAfter(take(ESTIMATE, one))
  t.equal(journal.compare(), callers.length)
  const { read } = journal
  journal.compare()
  t.equal(journal.read, read, 'nothing has changed')
  const under = await take(ESTIMATE, callers[7])
  journal.compare()
  t.equal(journal.read, read + 1)
  under?.accrue(both(1))
  journal.compare()
  t.equal(journal.read, read + 2)
  under?.settle(both(2))
  await leases.giveBack('acme')
  t.equal(journal.compare(), 0)
})

t.test('other terms need another lease', async (t) => {
  const { take, caller, sent } = await nodeOf(t, USD)
  await settleAfter(take())
  const terms = { ...caller.workspace.terms, budgetMicros: USD }
  await settleAfter(take(ESTIMATE, { ...caller, workspace: { ...caller.workspace, terms } }))
  t.equal(sent.filter(({ from }) => from === null).length, 2)
})

t.test('keys without a budget share a lease, and each has spent what it has', async (t) => {
  const { take, caller, sent, leases, usage, show } = await nodeOf(t, USD)
  for (let i = 0; i < 100; i++) t.ok(await settleAfter(take(ESTIMATE, withKey(caller, `key_${i % 50}`))))
  t.ok(sent.length <= 12, `${sent.length} renewals for 50 keys`)
  t.equal(sent.filter(({ from }) => from === null).length, 1)
  await settleAfter(take(ESTIMATE, withKey(caller, 'key_capped', 100 * USD)))
  t.equal(sent.filter(({ from }) => from === null).length, 2, 'one with a budget has its own')
  await leases.close()
  await usage.close()
  const spent = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`key_${i}`, 2 * COST]))
  t.match(await show(), { creditsMicros: USD - 101 * COST, spentMicros: 101 * COST, reservedMicros: 0 })
  t.same((await show()).spentByKey, { ...spent, key_capped: COST })
})

/** What leases can have set aside: each what a renewal holds on, and at most a hundredth of what is left besides. */
function mostSetAside(sent: readonly Leasing[], left: number): number {
  const leaseOf = new Map<string, string>()
  const most = new Map<string, number>()
  for (const { token, from, held, more } of sent) {
    const lease = from === null ? token : leaseOf.get(from.token)!
    leaseOf.set(token, lease)
    const micros = held.platformMicros + Math.min(more.platformMicros, left / 100)
    most.set(lease, Math.max(most.get(lease) ?? 0, micros))
  }
  return [...most.values()].reduce((sum, micros) => sum + micros, 0)
}

const first = Math.floor(Math.random() * 1_000_000)
t.test(`random calls are charged exactly while messages are lost, from seed ${first}`, async (t) => {
  for (let seed = first; seed < first + 6; seed++) {
    const dice = new Dice(seed)
    let stable = false
    // What a beginning took goes back by a cancellation, which these tests do not repeat.
    const fault = ({ from }: Leasing): Fault =>
      stable || from === null ? null : dice.one(['lost', 'answer lost', null, null] as const)
    const { take, caller, leases, usage, show, sent, journal } = await nodeOf(t, 50 * USD, fault)
    const [count, dearest] = [300, 2_000]
    const spentByKey: Record<string, number> = {}
    let [creditsMicros, spentMicros, overageMicros] = [50 * USD, 0, 0]
    const call = async () => {
      const estimate = 1 + dice.below(dearest)
      const cost = dice.chance(0.9) ? dice.below(estimate) : estimate + dice.below(500)
      await sleep(dice.below(300))
      const keyId = dice.one(['key_a', 'key_b', 'key_c'] as const)
      const taken = take(estimate, withKey(caller, keyId))
      const leased = await Promise.resolve(taken).catch(() => null)
      if (leased === null) return
      await sleep(dice.below(60))
      if (dice.chance(0.3)) leased.accrue(both(Math.floor(cost / 2)))
      journal.compare()
      leased.settle(both(cost))
      journal.compare()
      creditsMicros -= Math.min(cost, estimate)
      overageMicros += Math.max(0, cost - estimate)
      spentMicros += cost
      spentByKey[keyId] = (spentByKey[keyId] ?? 0) + cost
    }
    const calls = Promise.all(Array.from({ length: count }, call))
    for (let i = 0; i < 10; i++) {
      await sleep(30)
      const left = (await show()).creditsMicros
      t.ok(
        50 * USD - left <= spentMicros + mostSetAside(sent, 50 * USD),
        'no more is set aside than was asked',
      )
    }
    await calls
    stable = true
    await leases.close()
    await usage.close()
    t.equal(journal.compare(), 0)
    t.match(
      await show(),
      { creditsMicros, spentMicros, spentByKey, overageMicros, reservedMicros: 0, expired: { count: 0 } },
      `seed ${seed}`,
    )
    t.ok(spentMicros > 0)
    // Beside what calls under way have. How near to it a lease comes is a matter of how fast they are.
    const most = LARGEST + count * dearest
    t.ok(
      sent.every(({ held, more }) => held.spendMicros + more.spendMicros <= most),
      'no renewal asks for more',
    )
  }
})
