import type { Test } from 'tap'
import type { LeaseCharge, Leasing, ReservationTerms } from '../../../src/contracts/ledger.ts'
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
    accounts,
    workspace,
    lease: (token: string, over: Partial<Leasing> & { readonly terms?: Partial<ReservationTerms> }) => {
      const { terms, held = reserve(0, terms), from = null, more = both(PART), useMs = USE_MS } = over
      return ledger.lease({ token, workspace, from, held, more, useMs, used: over.used ?? NOTHING })
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
  recovered(t, start)
}

function spent(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a lease is charged what its calls came to, step by step', async (t) => {
    const { lease, figures } = await leasesOf(t, start)
    const [one, two, three] = [newToken(), newToken(), newToken()]
    const { month } = await figures()
    t.same(await lease(one, {}), { state: 'leased', more: both(PART), useMs: USE_MS, month })
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
    t.match(
      await lease(newToken(), { more: much }),
      { more: both(1000) },
      'and no spending that nothing pays for',
    )
    const capped = { keyBudgetMicros: 31_000, keyId: 'key_one' }
    t.match(await lease(newToken(), { more: much, terms: capped }), {
      more: { platformMicros: 990, spendMicros: 300 },
    })
    const terms = { ...NO_TERMS, budgetMicros: 21_000 }
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
    const { month } = await figures()
    t.same(await lease(one, {}), { state: 'leased', more: both(PART), useMs: 0, month })
    const renewal = { from: { token: one, charge: charged(300) }, held: reserve(600), more: both(9) }
    await lease(two, renewal)
    const before = await figures()
    t.same(await lease(two, renewal), { state: 'leased', more: both(9), useMs: 0, month })
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
  t.test('of the lease of a node that died, what calls under way had is charged', async (t) => {
    const { lease, figures, pass, workspace, accounts } = await leasesOf(t, start)
    const [one, two] = [newToken(), newToken()]
    await lease(one, {})
    const held = { held: reserve(700, { leaseMs: SHORT_MS }), used: both(300), more: NOTHING }
    await lease(two, { from: { token: one, charge: charged(100) }, ...held })
    await pass(SHORT_MS)
    t.same(await lease(newToken(), { from: { token: two, charge: charged(5) } }), { state: 'over' })
    const expired = { count: 1, micros: 300 }
    const after = { creditsMicros: 99_600, reservedMicros: 0, spentMicros: 400, bookedMicros: 400, expired }
    t.match(await figures(), after, 'the rest went back')
    const lost = await accounts.lost(workspace)
    t.match(lost, [{ token: two, keyId: 'key_one', endUser: null, spendMicros: 300 }])
    await accounts.recorded(workspace, { ...lost[0]!, spendMicros: 299 })
    t.same(await accounts.lost(workspace), lost, 'it was recorded as something else')
    await accounts.recorded(workspace, lost[0]!)
    t.same(await accounts.lost(workspace), [])
    t.match(await figures(), after)
  })

  t.test('nothing is lost of a lease that no call had any of', async (t) => {
    const { lease, figures, pass, workspace, accounts } = await leasesOf(t, start)
    await lease(newToken(), { held: reserve(0, { leaseMs: SHORT_MS }) })
    await pass(SHORT_MS)
    t.same(await accounts.lost(workspace), [])
    t.match(await figures(), {
      creditsMicros: CREDITS,
      spentMicros: 0,
      bookedMicros: 0,
      expired: { count: 0 },
    })
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
    const renewed = { state: 'leased', more: NOTHING, useMs: 0, month: '2028-02' }
    t.same(await lease(two, { from, held: reserve(500) }), renewed)
    t.match(await figures(), { creditsMicros: 99_200, reservedMicros: 500, spentMicros: 0 })
  })
}

/** What is settled by the records of a node that died. */
function recovered(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  const settled = {
    creditsMicros: CREDITS - 450,
    reservedMicros: 0,
    spentMicros: 450,
    bookedMicros: 450,
    expired: { count: 1, micros: 150 },
  }

  t.test('a lease comes to what the records of its node say, once', async (t) => {
    const { lease, ledger, figures, workspace, accounts } = await leasesOf(t, start)
    const token = newToken()
    await lease(token, {})
    const money = { workspace, token, charge: charged(300), estimate: both(150) }
    const both2 = await Promise.all([ledger.recover(money), ledger.recover(money)])
    t.same(both2.sort(), [false, true], 'two take it over at once')
    t.match(await figures(), settled)
    t.match(await accounts.lost(workspace), [{ token, spendMicros: 150 }])
    t.same(await lease(newToken(), { from: { token, charge: charged(1) } }), { state: 'over' })
    t.equal(await ledger.recover(money), false)
    t.match(await figures(), settled)
  })

  t.test('what was charged by guess is corrected when the records appear', async (t) => {
    const { lease, ledger, figures, workspace, accounts, pass } = await leasesOf(t, start)
    for (const isRecorded of [false, true]) {
      const before = await figures()
      const token = newToken()
      await lease(token, { ...{ from: null, held: reserve(0, { leaseMs: LONG_MS }) } })
      const next = newToken()
      const held = { held: reserve(PART, { leaseMs: SHORT_MS }), used: both(700), more: NOTHING }
      await lease(next, { from: { token, charge: charged(0) }, ...held })
      await pass(SHORT_MS)
      const [guess] = await accounts.lost(workspace)
      t.match(guess, { token: next, spendMicros: 700 })
      if (isRecorded) await accounts.recorded(workspace, guess!)
      const money = { workspace, token: next, charge: charged(300, 4), estimate: NOTHING }
      t.equal(await ledger.recover(money), true)
      t.equal(await ledger.recover(money), false, 'once')
      t.match(await figures(), {
        creditsMicros: before.creditsMicros - 300,
        bookedMicros: before.bookedMicros + 300,
        spentMicros: before.spentMicros + 300,
        overageMicros: before.overageMicros + 4,
        expired: { count: 0, micros: 0 },
      })
      const again = isRecorded ? [{ ...guess, spendMicros: 0 }] : []
      t.same(await accounts.lost(workspace), again, 'a record of it is taken back')
      for (const one of again) await accounts.recorded(workspace, one as typeof guess & object)
      t.same(await accounts.lost(workspace), [])
    }
  })

  t.test('what was given back and spent since is overage', async (t) => {
    const { lease, ledger, figures, workspace, accounts, pass } = await leasesOf(t, start)
    const token = newToken()
    await lease(token, { held: reserve(0, { leaseMs: SHORT_MS }) })
    await pass(SHORT_MS)
    t.same(await accounts.lost(workspace), [])
    await accounts.addCredits(workspace, { id: newDigest(), micros: 100 - CREDITS })
    await ledger.recover({ workspace, token, charge: charged(250), estimate: NOTHING })
    t.match(await figures(), { creditsMicros: 0, overageMicros: 150, spentMicros: 250, bookedMicros: 250 })
  })

  t.test('a call that was reserved by itself is settled by its record, and none of a job', async (t) => {
    const { ledger, figures, workspace, pass, accounts } = await leasesOf(t, start)
    const [late, job, open] = [newToken(), newToken(), newToken()]
    const begin = (token: string, leaseMs: number, claim?: { number: number }) =>
      ledger.begin({
        ...beginningOf(workspace, { token, reservation: reserve(500, { leaseMs }) }),
        ...(claim === undefined ? {} : { claim }),
      })
    await begin(late, SHORT_MS)
    await begin(job, LONG_MS, { number: 1 })
    await begin(open, LONG_MS)
    await pass(SHORT_MS)
    const recover = (token: string) =>
      ledger.recover({ workspace, token, charge: charged(40), estimate: NOTHING })
    t.equal(await recover(late), true)
    t.equal(await recover(open), true)
    t.equal(await recover(job), false)
    t.equal(await recover(newToken()), false)
    t.match(await figures(), {
      spentMicros: 580,
      bookedMicros: 80,
      reservedMicros: 500,
      expired: { count: 0 },
    })
    t.same(await accounts.lost(workspace), [])
  })
}
