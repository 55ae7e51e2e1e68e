import type { Test } from 'tap'
import type { Begun, Charge } from '../../../src/contracts/ledger.ts'
import {
  beginningOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  type StateUnderTest,
} from '../../support/state-under-test.ts'

/** A lease that ends while the test waits, and that a busy machine does not end before it is looked at. */
const SHORT_MS = 1000
const CREDITS = 1000
const REMEMBERED_MS = 30 * 86_400_000

const BEGUN: Begun = { state: 'begun' }
const VOIDED: Begun = { state: 'refused', why: 'voided' }
const COST: Charge = { platformMicros: 120, spendMicros: 120 }
const NOTHING: Charge = { platformMicros: 0, spendMicros: 0 }

/** One job of a workspace that has credits, and its claims by their numbers. */
async function jobOf(t: Test, start: (t: Test) => Promise<StateUnderTest>) {
  const under = await start(t)
  const { ledger, accounts } = under.state
  const [workspace, token] = [newWorkspace(), newToken()]
  await accounts.addCredits(workspace, { id: newDigest(), micros: CREDITS })
  return {
    ...under,
    workspace,
    token,
    begin: (number: number, micros = 400, over: Parameters<typeof reserve>[1] = {}) =>
      ledger.begin(beginningOf(workspace, { token, reservation: reserve(micros, over), claim: { number } })),
    settle: (number: number, charge = COST) =>
      ledger.settle({ token, workspace, slot: null, charge, claim: { number } }),
    cancel: (number: number) => ledger.cancel({ token, workspace, slotId: null, claim: { number } }),
    figures: async () => figuresOf(await accounts.show(workspace, NO_TERMS)),
  }
}

/** What holds of tokens that begin more than once, since workers die: the customer is charged once. */
export function ledgerClaimsContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  takenOver(t, start)
  charged(t, start)
  expired(t, start)
  withdrawn(t, start)
}

function takenOver(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a later claim takes the reservation over as it is', async (t) => {
    const { begin, settle, figures } = await jobOf(t, start)
    t.same(await begin(1), BEGUN)
    const reserved = { creditsMicros: 600, reservedMicros: 400, spentMicros: 400 }
    t.match(await figures(), reserved)
    t.same(await begin(1), BEGUN, 'the answer of the first may have been lost')
    t.same(await begin(2, 900), BEGUN, 'also when it would ask for more than there is')
    t.same(await begin(4, 1), BEGUN, 'whatever came between')
    t.match(await figures(), reserved, 'no money moves')
    await settle(4)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0, spentMicros: 120, overageMicros: 0 })
  })

  t.test('an earlier claim neither begins nor ends what a later one holds', async (t) => {
    const { begin, settle, cancel, figures } = await jobOf(t, start)
    await begin(1)
    await begin(2)
    t.same(await begin(1), VOIDED)
    await settle(1)
    await cancel(1)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 })
    await settle(3)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 }, 'nor one that has not begun')
    await settle(2)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0 })
  })

  t.test('a claim is no call: each leaves the reservation of the other alone', async (t) => {
    const { state, token, workspace, begin, figures } = await jobOf(t, start)
    await begin(1)
    await state.ledger.settle({ token, workspace, slot: null, charge: COST })
    await state.ledger.cancel({ token, workspace, slotId: null })
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 })
  })

  t.test('taking over extends the lease, and never cuts it', async (t) => {
    const { begin, settle, figures, pass } = await jobOf(t, start)
    await begin(1, 400, { leaseMs: SHORT_MS })
    await begin(2, 400, { leaseMs: LONG_MS })
    await begin(3, 400, { leaseMs: 1 })
    await pass(SHORT_MS + 50)
    t.match(await figures(), { reservedMicros: 400, expired: { count: 0, micros: 0 } })
    await settle(3)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0 })
  })

  t.test('of many claims at once the last one holds it, and there is one reservation', async (t) => {
    const { begin, settle, figures } = await jobOf(t, start)
    const numbers = Array.from({ length: 30 }, (_, i) => 1 + ((i * 7) % 30))
    await Promise.all(numbers.map((number) => begin(number)))
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400, spentMicros: 400 })
    await Promise.all(
      numbers.map((number) => settle(number, { platformMicros: number, spendMicros: number })),
    )
    t.match(await figures(), { creditsMicros: 970, reservedMicros: 0, spentMicros: 30 })
  })
}

function charged(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a job that was charged is charged no more', async (t) => {
    const { begin, settle, figures } = await jobOf(t, start)
    await begin(1)
    t.match(await settle(1), { charged: true })
    const paid = { creditsMicros: 880, reservedMicros: 0, spentMicros: 120, overageMicros: 0 }
    for (const number of [2, 1, 3]) {
      t.same(await begin(number, 5000), BEGUN, 'and needs no money')
      t.match(await figures(), paid)
      const again = await settle(number, { platformMicros: 70, spendMicros: 70 })
      t.match(again, { charged: false })
      t.match(await figures(), paid)
    }
  })

  t.test('spending without a purse is a charge', async (t) => {
    const { begin, settle, figures } = await jobOf(t, start)
    const capped = { spendMicros: 90, keyBudgetMicros: 100 }
    await begin(1, 0, capped)
    await settle(1, { platformMicros: 0, spendMicros: 80 })
    t.same(await begin(2, 0, capped), BEGUN)
    t.match(await figures(), { creditsMicros: CREDITS, spentMicros: 80 })
  })

  t.test('a claim that cost nothing leaves the job to be paid for by another', async (t) => {
    const { begin, settle, figures } = await jobOf(t, start)
    await begin(1)
    await settle(1, NOTHING)
    t.match(await figures(), { creditsMicros: CREDITS, reservedMicros: 0, spentMicros: 0 })
    t.same(await begin(2, 1001), { state: 'refused', why: 'credits' })
    t.same(await begin(2), BEGUN)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 })
    await settle(1)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 }, 'a late end is of the first one')
    await settle(2)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0, spentMicros: 120 })
  })

  t.test('that a job was charged concerns no other, and no other workspace', async (t) => {
    const { state, token, begin, settle } = await jobOf(t, start)
    const { ledger } = state
    await begin(1)
    await settle(1)
    const elsewhere = newWorkspace()
    const refused = await ledger.begin(
      beginningOf(elsewhere, { token, reservation: reserve(1), claim: { number: 2 } }),
    )
    t.same(refused, { state: 'refused', why: 'credits' })
  })

  t.test('a charge is remembered for thirty days', async (t) => {
    const { begin, settle, figures, setClock } = await jobOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    const atMs = Date.UTC(2027, 0, 1)
    setClock(atMs)
    await begin(1)
    await settle(1)
    setClock(atMs + REMEMBERED_MS - 1)
    await begin(2)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0 })
    setClock(atMs + REMEMBERED_MS)
    await begin(3)
    t.match(await figures(), { creditsMicros: 480, reservedMicros: 400 })
  })
}

function expired(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  const left = { creditsMicros: 600, reservedMicros: 0, spentMicros: 400, expired: { count: 1, micros: 400 } }

  t.test('a reservation whose lease is over was the charge, whoever finds it', async (t) => {
    const finders: [string, (job: Awaited<ReturnType<typeof jobOf>>) => Promise<unknown>][] = [
      ['the next claim', async () => {}],
      ['who looks at the account', ({ figures }) => figures()],
      [
        'another call',
        ({ state, workspace }) => state.ledger.begin(beginningOf(workspace, { reservation: reserve(0) })),
      ],
      ['an end that is late', ({ settle }) => settle(1)],
      ['a withdrawal that is late', ({ cancel }) => cancel(1)],
    ]
    await Promise.all(
      finders.map(async ([who, find]) => {
        const job = await jobOf(t, start)
        const { begin, settle, cancel, figures, pass } = job
        await begin(1, 400, { leaseMs: SHORT_MS / 2 })
        await pass(SHORT_MS)
        await find(job)
        t.same(await begin(2, 5000), BEGUN, who)
        t.match(await figures(), left, who)
        await settle(2)
        await settle(1)
        await cancel(2)
        t.match(await figures(), left, `${who}: for good`)
      }),
    )
  })

  t.test('thirty days after its lease a job can be charged again', async (t) => {
    const { begin, figures, setClock } = await jobOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    const atMs = Date.UTC(2027, 0, 1)
    setClock(atMs)
    await begin(1, 400, { leaseMs: 1000 })
    setClock(atMs + 1000 + REMEMBERED_MS - 1)
    await begin(2)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 0, expired: { count: 1 } })
    setClock(atMs + 1000 + REMEMBERED_MS)
    await begin(3)
    t.match(await figures(), { creditsMicros: 200, reservedMicros: 400, expired: { count: 1 } })
  })
}

function withdrawn(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a claim that was cancelled does not begin, and the next one does', async (t) => {
    const { begin, cancel, figures } = await jobOf(t, start)
    await cancel(1)
    t.same(await begin(1), VOIDED)
    t.match(await figures(), { creditsMicros: CREDITS, reservedMicros: 0 })
    t.same(await begin(2), BEGUN)
    await cancel(2)
    await cancel(2)
    t.match(await figures(), { creditsMicros: CREDITS, reservedMicros: 0, spentMicros: 0 })
    t.same(await begin(2), VOIDED)
    t.same(await begin(3), BEGUN)
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 })
  })

  t.test('a claim whose beginning is withdrawn takes back what it had taken over', async (t) => {
    const { begin, settle, cancel, figures } = await jobOf(t, start)
    await begin(1)
    await begin(2)
    await cancel(2)
    t.match(await figures(), { creditsMicros: CREDITS, reservedMicros: 0, spentMicros: 0 })
    await settle(1)
    t.match(await figures(), { creditsMicros: CREDITS, spentMicros: 0 }, 'it is not the first one’s any more')
  })

  t.test('withdrawing what was charged takes nothing back', async (t) => {
    const { begin, settle, cancel, figures } = await jobOf(t, start)
    await begin(1)
    await settle(1)
    await begin(2)
    await cancel(2)
    await cancel(1)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0, spentMicros: 120 })
    t.same(await begin(3), BEGUN)
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0 })
  })
}
