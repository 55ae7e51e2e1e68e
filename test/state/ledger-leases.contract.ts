import type { Test } from 'tap'
import type { LeaseCharge, Leasing, ReservationTerms } from '../../src/contracts/ledger.ts'
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
} from '../support/state-under-test.ts'

/** A lease that ends while the test waits, and that a busy machine does not end before it is looked at. */
const SHORT_MS = 1000
const CREDITS = 100_000
/** A hundredth of it. */
const PART = 1_000
const USE_MS = 700

const NOTHING = { platformMicros: 0, spendMicros: 0 }
const both = (micros: number) => ({ platformMicros: micros, spendMicros: micros })
const charged = (micros: number, overageMicros = 0): LeaseCharge => ({ ...both(micros), overageMicros })

/** A workspace that has credits, and its leases. */
async function leasesOf(t: Test, start: (t: Test) => Promise<StateUnderTest>) {
  const under = await start(t)
  const { ledger, accounts } = under.state
  const workspace = newWorkspace()
  await accounts.addCredits(workspace, { id: newDigest(), micros: CREDITS })
  return {
    ...under,
    ledger,
    workspace,
    lease: (token: string, over: Partial<Leasing> & { readonly terms?: Partial<ReservationTerms> }) => {
      const { terms, held = reserve(0, terms), from = null, more = both(PART), useMs = USE_MS } = over
      return ledger.lease({ token, workspace, from, held, more, useMs })
    },
    figures: async () => figuresOf(await accounts.show(workspace, NO_TERMS)),
  }
}

/** What holds of money that nodes hand out to calls by themselves. */
export function ledgerLeasesContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  spent(t, start)
  refused(t, start)
  lost(t, start)
  nodeDies(t, start)
}

function spent(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a lease is charged what its calls came to, step by step', async (t) => {
    const { lease, figures } = await leasesOf(t, start)
    const [one, two, three] = [newToken(), newToken(), newToken()]
    t.same(await lease(one, {}), { state: 'leased', more: both(PART), useMs: USE_MS })
    t.match(await figures(), { creditsMicros: 99_000, reservedMicros: 1000, spentMicros: 1000 })
    const renewed = await lease(two, {
      from: { token: one, charge: charged(300, 7) },
      held: reserve(450),
      more: both(50),
    })
    t.match(renewed, { state: 'leased', more: both(50) }, '250 went back')
    const figuresNow = await figures()
    t.match(figuresNow, { creditsMicros: 99_200, reservedMicros: 500, spentMicros: 800, overageMicros: 7 })
    t.same(figuresNow.spentByKey, { key_one: 800 })
    const from = { token: two, charge: { platformMicros: 500, spendMicros: 530, overageMicros: 30 } }
    t.match(await lease(three, { from, more: NOTHING }), { state: 'leased', more: NOTHING })
    t.match(await figures(), {
      creditsMicros: 99_200,
      reservedMicros: 0,
      spentMicros: 830,
      overageMicros: 37,
    })
    t.match(
      await lease(newToken(), { from: { token: three, charge: charged(1) } }),
      { state: 'over' },
      'ended',
    )
  })

  t.test('a lease of the trial is of the trial, and ends with it', async (t) => {
    const { lease, figures } = await leasesOf(t, start)
    const trial = { allowanceMicros: 50_000, expiresAtMs: Date.now() + 100 * LONG_MS }
    const terms = { terms: { ...NO_TERMS, trial } }
    t.match(await lease(newToken(), { terms }), { more: { platformMicros: 500 } })
    t.match(await figures(), { creditsMicros: CREDITS, trialSpentMicros: 500 })
    const over = { terms: { ...NO_TERMS, trial: { ...trial, expiresAtMs: 1000 } } }
    t.match(await lease(newToken(), { terms: over }), { more: { platformMicros: PART } })
    t.match(await figures(), { creditsMicros: 99_000, trialSpentMicros: 500 })
    const crumbs = { terms: { ...NO_TERMS, trial: { ...trial, allowanceMicros: 501 } } }
    t.match(
      await lease(newToken(), { terms: crumbs }),
      { more: { platformMicros: 0 } },
      'what is left of it is for calls',
    )
  })
}

function refused(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('at most a hundredth of what is left is added', async (t) => {
    const { lease, ledger, workspace, figures } = await leasesOf(t, start)
    const much = both(CREDITS)
    t.match(await lease(newToken(), { more: much }), { more: { platformMicros: 1000, spendMicros: CREDITS } })
    const capped = { keyBudgetMicros: CREDITS + 30_000, keyId: 'key_one' }
    t.match(await lease(newToken(), { more: much, terms: capped }), {
      more: { platformMicros: 990, spendMicros: 300 },
    })
    const terms = { ...NO_TERMS, budgetMicros: CREDITS + 20_000 }
    t.match(await lease(newToken(), { more: much, terms: { terms, keyId: 'key_two' } }), {
      more: { platformMicros: 980, spendMicros: 197 },
    })
    const { creditsMicros } = await figures()
    t.equal(creditsMicros, CREDITS - 1000 - 990 - 980)
    const rest = beginningOf(workspace, { reservation: reserve(creditsMicros - 99) })
    t.same(await ledger.begin(rest), { state: 'begun' }, 'leases leave nearly everything')
    t.match(await lease(newToken(), {}), { more: { platformMicros: 0 } }, 'there is not plenty')
    t.same(await ledger.begin(beginningOf(workspace, { reservation: reserve(99) })), { state: 'begun' })
    t.match(await figures(), { creditsMicros: 0 }, 'the last credit was spent')
  })

  t.test('of the purse no more is held on than there was', async (t) => {
    const { lease, figures } = await leasesOf(t, start)
    const [one, two] = [newToken(), newToken()]
    await lease(one, {})
    await lease(two, { from: { token: one, charge: charged(400) }, held: reserve(5000), more: NOTHING })
    t.match(await figures(), { creditsMicros: 99_000, reservedMicros: 600 })
  })
}

function lost(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('what was sent before changes nothing', async (t) => {
    const { lease, figures } = await leasesOf(t, start)
    const [one, two] = [newToken(), newToken()]
    await lease(one, {})
    t.same(await lease(one, {}), { state: 'leased', more: both(PART), useMs: 0 })
    const renewal = { from: { token: one, charge: charged(300) }, held: reserve(600), more: both(9) }
    await lease(two, renewal)
    const before = await figures()
    t.same(await lease(two, renewal), { state: 'leased', more: both(9), useMs: 0 })
    t.same(await lease(newToken(), renewal), { state: 'over' }, 'what it was charged is charged once')
    t.same(await figures(), before)
    await lease(newToken(), { from: { token: two, charge: charged(0) }, more: NOTHING })
    t.same(await lease(two, renewal), { state: 'over' }, 'one that comes late')
    t.match(await figures(), { creditsMicros: 99_700, reservedMicros: 0, spentMicros: 300 })
  })

  t.test('a lease that was cancelled does not begin', async (t) => {
    const { lease, ledger, workspace, figures } = await leasesOf(t, start)
    const [early, late] = [newToken(), newToken()]
    await lease(early, {})
    for (const token of [early, late]) await ledger.cancel({ token, workspace, slotId: null })
    for (const token of [early, late]) t.same(await lease(token, {}), { state: 'over' })
    t.match(await figures(), { creditsMicros: CREDITS, reservedMicros: 0, spentMicros: 0 })
  })
}

function nodeDies(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('the lease of a node that died is charged as it stood', async (t) => {
    const { lease, figures, pass } = await leasesOf(t, start)
    const [one, two] = [newToken(), newToken()]
    await lease(one, {})
    const from = { token: one, charge: charged(100) }
    await lease(two, { from, held: reserve(700, { leaseMs: SHORT_MS }), more: NOTHING })
    await pass(SHORT_MS)
    t.same(await lease(newToken(), { from: { token: two, charge: charged(5) } }), { state: 'over' })
    const expired = { count: 1, micros: 700 }
    t.match(await figures(), { creditsMicros: 99_200, reservedMicros: 0, spentMicros: 800, expired })
  })

  t.test('each renewal lasts as long as it says', async (t) => {
    const { lease, figures, pass } = await leasesOf(t, start)
    // Longer than one lease in all, and each pause shorter by more than a machine stands still for.
    const [leaseMs, pauseMs] = [4_000, 1_500]
    let token = newToken()
    await lease(token, { terms: { leaseMs } })
    for (let i = 0; i < 3; i++) {
      await pass(pauseMs)
      const next = newToken()
      const held = reserve(PART, { leaseMs })
      t.match(await lease(next, { from: { token, charge: charged(0) }, held, more: NOTHING }), {
        state: 'leased',
      })
      token = next
    }
    t.match(await figures(), { reservedMicros: PART, expired: { count: 0 } })
  })

  t.test('a lease is of the month in which it began', async (t) => {
    const { lease, figures, setClock } = await leasesOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    const endMs = Date.UTC(2028, 2, 1)
    setClock(endMs - 200)
    const [one, two] = [newToken(), newToken()]
    t.match(await lease(one, {}), { more: both(PART), useMs: 200 })
    setClock(endMs)
    const from = { token: one, charge: charged(300) }
    t.match(await lease(two, { from, held: reserve(500) }), { state: 'leased', more: NOTHING, useMs: 0 })
    t.match(await figures(), { creditsMicros: 99_200, reservedMicros: 500, spentMicros: 0 })
  })
}
