import type { Test } from 'tap'
import type { Begun, Charge, SlotEnd } from '../../../src/contracts/ledger.ts'
import {
  beginningOf,
  claimOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
  type StateUnderTest,
} from '../../support/state-under-test.ts'
import { ledgerClaimsContract } from './ledger-claims.contract.ts'
import { ledgerEndUsersContract } from './ledger-end-users.contract.ts'
import { ledgerLeasesContract } from './ledger-leases.contract.ts'

/** A lease that ends while the test waits, and that a busy machine does not end before it is looked at. */
const SHORT_MS = 1000

/** What every ledger of calls keeps, wherever it is written. */
export function ledgerContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  slots(t, start)
  cancelled(t, start)
  purses(t, start)
  budgets(t, start)
  reservations(t, start)
  both(t, start)
  ledgerClaimsContract(t, start)
  ledgerEndUsersContract(t, start)
  ledgerLeasesContract(t, start)
}

/** A state, a workspace of the test's own, and short words for what is done with them. */
async function ledgerOf(t: Test, start: (t: Test) => Promise<StateUnderTest>) {
  const under = await start(t)
  const { ledger, accounts } = under.state
  const workspace = newWorkspace()
  return {
    ...under,
    ledger,
    accounts,
    workspace,
    begin: (over: Parameters<typeof beginningOf>[1]) => ledger.begin(beginningOf(workspace, over)),
    look: (slotId: string) => ledger.look(workspace, slotId),
    end: async (token: string, id: string, end: SlotEnd) => {
      const { slotHeld } = await ledger.settle({ token, workspace, slot: { id, end }, charge: null })
      return slotHeld
    },
    charge: (token: string, charge: Charge) => ledger.settle({ token, workspace, slot: null, charge }),
    cancel: (token: string, slotId: string | null = null) => ledger.cancel({ token, workspace, slotId }),
    credits: (micros: number) => accounts.addCredits(workspace, { id: newDigest(), micros }),
    figures: async (terms = NO_TERMS) => figuresOf(await accounts.show(workspace, terms)),
  }
}

function slots(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a slot is free, then running, then stored', async (t) => {
    const { begin, look, end } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    t.same(await look(id), { state: 'free' })
    t.same(await begin({ token, slot: claimOf(id) }), { state: 'begun' })
    t.same(await look(id), { state: 'running' })
    t.same(await begin({ slot: claimOf(id) }), { state: 'running' })
    t.same(await begin({ slot: claimOf(id, { fingerprint: 'other' }) }), { state: 'running' })

    const result = resultOf('{"content":"Grüße \\u0000 🎙","n":1}')
    t.equal(await end(token, id, { state: 'stored', result, ttlMs: LONG_MS }), true)
    const stored = { state: 'stored', fingerprint: 'f1', result }
    t.same(await look(id), stored)
    t.same(await begin({ slot: claimOf(id, { fingerprint: 'other' }) }), stored, 'the one that stored it')
  })

  t.test('a result is kept as it was given, inline or by the name of an object', async (t) => {
    const { begin, look, end } = await ledgerOf(t, start)
    const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-lk-cost-usd': '0.000001' }
    for (const body of [
      { text: '' },
      { text: 'x'.repeat(16 * 1024) },
      { text: 'a\nb\r\n"\\ \u2028' },
      { object: `slot/ws/${newToken()}/0`, bytes: 5_000_000 },
    ]) {
      const [id, token, result] = [newDigest(), newToken(), { status: 200, headers, body }]
      await begin({ token, slot: claimOf(id) })
      await end(token, id, { state: 'stored', result, ttlMs: LONG_MS })
      t.same(await look(id), { state: 'stored', fingerprint: 'f1', result })
    }
    const [id, token, result] = [newDigest(), newToken(), { status: 200, headers: {}, body: { text: 'x' } }]
    await begin({ token, slot: claimOf(id) })
    await end(token, id, { state: 'stored', result, ttlMs: LONG_MS })
    t.same(await look(id), { state: 'stored', fingerprint: 'f1', result }, 'no headers are an empty object')
  })

  t.test('slots of two ids, and of two workspaces, are two', async (t) => {
    const { begin, ledger, look } = await ledgerOf(t, start)
    const [id, other, elsewhere] = [newDigest(), newDigest(), newWorkspace()]
    await begin({ slot: claimOf(id) })
    t.same(await look(other), { state: 'free' })
    t.same(await ledger.look(elsewhere, id), { state: 'free' })
    t.same(await ledger.begin(beginningOf(elsewhere, { slot: claimOf(id) })), { state: 'begun' })
  })

  t.test('of many that claim a slot at once one gets it', async (t) => {
    const { begin } = await ledgerOf(t, start)
    const id = newDigest()
    const begun = await Promise.all(Array.from({ length: 50 }, () => begin({ slot: claimOf(id) })))
    t.equal(begun.filter(({ state }) => state === 'begun').length, 1)
    t.equal(begun.filter(({ state }) => state === 'running').length, 49)
  })

  t.test('the same token claims again what it has', async (t) => {
    const { begin, look } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    for (let i = 0; i < 3; i++)
      t.same(await begin({ token, slot: claimOf(id) }), { state: 'begun' }, 'the same answer')
    t.same(await look(id), { state: 'running' })
  })

  t.test('a released slot is free for the next', async (t) => {
    const { begin, look, end } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id) })
    t.equal(await end(token, id, { state: 'released' }), true)
    t.same(await look(id), { state: 'free' })
    t.same(await begin({ slot: claimOf(id) }), { state: 'begun' })
    await end(token, id, { state: 'released' })
    t.same(await look(id), { state: 'running' }, 'the second holder keeps it')
  })

  t.test('a slot that was burned stays so until its time is over', async (t) => {
    const { begin, look, end, pass } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id) })
    t.equal(await end(token, id, { state: 'burned', ttlMs: SHORT_MS }), true)
    t.same(await look(id), { state: 'burned' })
    t.same(await begin({ slot: claimOf(id) }), { state: 'burned' })
    t.equal(await end(token, id, { state: 'released' }), false, 'burned is final')
    t.equal(await end(token, id, { state: 'stored', result: resultOf('late'), ttlMs: LONG_MS }), false)
    t.same(await look(id), { state: 'burned' })
    await pass(SHORT_MS + 50)
    t.same(await look(id), { state: 'free' })
    t.same(await begin({ slot: claimOf(id) }), { state: 'begun' })
  })

  t.test('a stored slot is free when its time is over, and not before', async (t) => {
    const { begin, look, end, pass } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id, { leaseMs: SHORT_MS, ttlMs: 50 }) })
    const kept = { state: 'stored', result: resultOf('kept'), ttlMs: 3 * SHORT_MS } as const
    t.equal(await end(token, id, kept), true)
    await pass(SHORT_MS + 100)
    t.match(
      await look(id),
      { state: 'stored' },
      'its lease and the time of a burned one are of no more account',
    )
    await pass(2 * SHORT_MS)
    t.same(await look(id), { state: 'free' })
    t.same(await begin({ slot: claimOf(id, { fingerprint: 'new' }) }), { state: 'begun' })
  })

  // A dead node must not free its slot: whether the provider was paid is unknown.
  t.test('a running slot whose lease is over is burned, whoever asks', async (t) => {
    const { begin, look, end, pass } = await ledgerOf(t, start)
    const ids = [newDigest(), newDigest(), newDigest(), newDigest()] as const
    const tokens = ids.map(newToken)
    const claims = ids.map((id) => claimOf(id, { leaseMs: SHORT_MS, ttlMs: LONG_MS }))
    await begin({ token: tokens[0]!, slot: claims[0]! })
    t.same(await look(ids[0]), { state: 'running' })
    for (const [i, slot] of claims.entries()) await begin({ token: tokens[i]!, slot })
    await pass(SHORT_MS + 50)
    t.same(await look(ids[0]), { state: 'burned' })
    t.same(await begin({ slot: claimOf(ids[1]) }), { state: 'burned' })
    const stored = { state: 'stored', result: resultOf('too late'), ttlMs: LONG_MS } as const
    t.equal(await end(tokens[2]!, ids[2], stored), false)
    t.equal(await end(tokens[3]!, ids[3], { state: 'released' }), false)
    for (const id of ids) t.same(await look(id), { state: 'burned' })
  })

  t.test('a slot that was burned by its lease is free after its time', async (t) => {
    const { begin, look, pass } = await ledgerOf(t, start)
    const id = newDigest()
    await begin({ slot: claimOf(id, { leaseMs: 50, ttlMs: SHORT_MS }) })
    await pass(100)
    t.same(await look(id), { state: 'burned' })
    await pass(SHORT_MS)
    t.same(await look(id), { state: 'free' })
  })

  t.test('settling is idempotent, and only the holder settles', async (t) => {
    const { begin, look, end } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    const stored = { state: 'stored', result: resultOf('first'), ttlMs: LONG_MS } as const
    t.equal(await end(token, id, stored), false, 'nothing was begun')
    t.same(await look(id), { state: 'free' })
    await begin({ token, slot: claimOf(id) })
    t.equal(await end(newToken(), id, stored), false, 'somebody else')
    t.equal(await end(newToken(), id, { state: 'released' }), false, 'somebody else')
    t.same(await look(id), { state: 'running' })
    t.equal(await end(token, id, stored), true)
    t.equal(await end(token, id, stored), true, 'the answer of the first may have been lost')
    t.match(await look(id), { state: 'stored', result: { body: { text: 'first' } } })
    t.equal(await end(token, id, { state: 'burned', ttlMs: LONG_MS }), false, 'stored is final')
    t.equal(await end(newToken(), id, { ...stored, result: resultOf('other') }), false)
    t.match(await look(id), { state: 'stored', result: { body: { text: 'first' } } })
  })
}

function cancelled(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('cancelling gives back the slot and the money', async (t) => {
    const { begin, cancel, credits, figures, look } = await ledgerOf(t, start)
    await credits(1000)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id), reservation: reserve(400) })
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400, spentMicros: 400 })
    await cancel(token, id)
    await cancel(token, id)
    t.same(await look(id), { state: 'free' })
    t.match(await figures(), { creditsMicros: 1000, reservedMicros: 0, spentMicros: 0, spentByKey: {} })
  })

  t.test('what is cancelled before it arrives does nothing when it does', async (t) => {
    const { begin, cancel, credits, figures, look, ledger } = await ledgerOf(t, start)
    await credits(1000)
    const [id, token] = [newDigest(), newToken()]
    await cancel(token, id)
    const voided: Begun = { state: 'refused', why: 'voided' }
    t.same(await begin({ token, slot: claimOf(id), reservation: reserve(400) }), voided)
    t.same(await begin({ token, reservation: reserve(400) }), voided)
    t.same(await begin({ token, slot: claimOf(id) }), voided)
    t.same(await look(id), { state: 'free' })
    t.match(await figures(), { creditsMicros: 1000, spentMicros: 0 })
    t.same(await begin({ slot: claimOf(id) }), { state: 'begun' }, 'another token is not concerned')
    t.same(await ledger.begin(beginningOf(newWorkspace(), { token, slot: claimOf(id) })), { state: 'begun' })
  })

  t.test('cancelling leaves alone what the token does not hold', async (t) => {
    const { begin, cancel, credits, end, figures, look } = await ledgerOf(t, start)
    await credits(1000)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id), reservation: reserve(400) })
    await cancel(newToken(), id)
    t.same(await look(id), { state: 'running' })
    t.match(await figures(), { creditsMicros: 600, reservedMicros: 400 })
    await end(token, id, { state: 'stored', result: resultOf('kept'), ttlMs: LONG_MS })
    await cancel(token, id)
    t.match(await look(id), { state: 'stored' }, 'what has ended stays')
  })
}

function purses(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  const trial = { allowanceMicros: 1000, expiresAtMs: Date.now() + LONG_MS }
  const over = { allowanceMicros: 1000, expiresAtMs: 1 }

  t.test('credits are set aside, and the difference comes back', async (t) => {
    const { begin, charge, credits, figures } = await ledgerOf(t, start)
    await credits(1000)
    const token = newToken()
    t.same(await begin({ token, reservation: reserve(700) }), { state: 'begun' })
    t.match(await figures(), { creditsMicros: 300, reservedMicros: 700, spentMicros: 700 })
    t.same(await begin({ reservation: reserve(301) }), { state: 'refused', why: 'credits' })
    await charge(token, { platformMicros: 450, spendMicros: 450 })
    t.match(await figures(), {
      creditsMicros: 550,
      reservedMicros: 0,
      overageMicros: 0,
      spentMicros: 450,
      spentByKey: { key_one: 450 },
    })
    t.same(await begin({ reservation: reserve(550) }), { state: 'begun' }, 'to the last micro')
    t.same(await begin({ reservation: reserve(1) }), { state: 'refused', why: 'credits' })
  })

  t.test('the same token reserves, settles and gives back once', async (t) => {
    const { begin, charge, credits, figures } = await ledgerOf(t, start)
    await credits(1000)
    const token = newToken()
    for (let i = 0; i < 3; i++) t.same(await begin({ token, reservation: reserve(700) }), { state: 'begun' })
    t.match(await figures(), { creditsMicros: 300, reservedMicros: 700, spentMicros: 700 })
    for (let i = 0; i < 3; i++) await charge(token, { platformMicros: 200, spendMicros: 200 })
    t.match(await figures(), { creditsMicros: 800, reservedMicros: 0, spentMicros: 200 })
    await charge(newToken(), { platformMicros: 5, spendMicros: 5 })
    t.match(await figures(), { creditsMicros: 800, overageMicros: 0, spentMicros: 200 }, 'never begun')
  })

  t.test('what a call cost above its reservation is overage: the purse gives no more', async (t) => {
    const { begin, charge, credits, figures } = await ledgerOf(t, start)
    await credits(1000)
    const token = newToken()
    await begin({ token, reservation: reserve(300) })
    await charge(token, { platformMicros: 450, spendMicros: 470 })
    t.match(await figures(), { creditsMicros: 700, overageMicros: 150, spentMicros: 470 })
  })

  t.test('the trial pays first, and credits when it does not suffice', async (t) => {
    const { begin, charge, credits, figures } = await ledgerOf(t, start)
    await credits(5000)
    const terms = { ...NO_TERMS, trial }
    const [first, second] = [newToken(), newToken()]
    await begin({ token: first, reservation: reserve(800, { terms }) })
    t.match(await figures(terms), { trialSpentMicros: 800, creditsMicros: 5000, reservedMicros: 800 })
    await begin({ token: second, reservation: reserve(201, { terms }) })
    t.match(await figures(terms), { trialSpentMicros: 800, creditsMicros: 4799 })
    await charge(first, { platformMicros: 100, spendMicros: 100 })
    await charge(second, { platformMicros: 1, spendMicros: 1 })
    t.match(await figures(terms), { trialSpentMicros: 100, creditsMicros: 4999 }, 'each its own purse')
    await begin({ reservation: reserve(900, { terms }) })
    t.match(await figures(terms), { trialSpentMicros: 1000, creditsMicros: 4999 }, 'to the last micro')
  })

  t.test('a trial that is over or used up pays nothing', async (t) => {
    const { begin, figures, credits } = await ledgerOf(t, start)
    const refusal: Begun = { state: 'refused', why: 'trial' }
    t.same(await begin({ reservation: reserve(1, { terms: { ...NO_TERMS, trial: over } }) }), refusal)
    t.same(await begin({ reservation: reserve(1001, { terms: { ...NO_TERMS, trial } }) }), refusal)
    t.match(await figures(), { trialSpentMicros: 0, spentMicros: 0 })
    await credits(10)
    const short: Begun = { state: 'refused', why: 'credits' }
    t.same(await begin({ reservation: reserve(11, { terms: { ...NO_TERMS, trial: over } }) }), short)
    t.same(await begin({ reservation: reserve(10, { terms: { ...NO_TERMS, trial: over } }) }), {
      state: 'begun',
    })
    t.same(await begin({ reservation: reserve(1, { terms: { ...NO_TERMS, trial: over } }) }), short)
    t.same(await begin({ reservation: reserve(1) }), short)
  })

  t.test('without trial and credits it is the credits that are missing', async (t) => {
    const { begin } = await ledgerOf(t, start)
    t.same(await begin({ reservation: reserve(1) }), { state: 'refused', why: 'credits' })
  })

  t.test('a call that takes nothing from a purse needs none', async (t) => {
    const { begin, charge, figures } = await ledgerOf(t, start)
    const token = newToken()
    t.same(await begin({ token, reservation: reserve(0, { spendMicros: 90 }) }), { state: 'begun' })
    t.match(await figures(), { creditsMicros: 0, reservedMicros: 0, spentMicros: 90 })
    await charge(token, { platformMicros: 0, spendMicros: 40 })
    t.match(await figures(), { creditsMicros: 0, overageMicros: 0, spentMicros: 40 })
  })

  t.test('the grant of the terms is booked with the first call, once', async (t) => {
    const { begin, figures } = await ledgerOf(t, start)
    const terms = { ...NO_TERMS, grant: { id: 'initial', micros: 1000 } }
    t.same(await begin({ reservation: reserve(600, { terms }) }), { state: 'begun' })
    t.same(await begin({ reservation: reserve(600, { terms }) }), { state: 'refused', why: 'credits' })
    t.match(await figures(terms), { creditsMicros: 400, grants: [{ id: 'initial', micros: 1000 }] })
    const raised = { ...NO_TERMS, grant: { id: 'initial', micros: 5000 } }
    t.same(await begin({ reservation: reserve(600, { terms: raised }) }), {
      state: 'refused',
      why: 'credits',
    })
    const more = { ...NO_TERMS, grant: { id: 'more', micros: 5000 } }
    t.same(await begin({ reservation: reserve(600, { terms: more }) }), { state: 'begun' })
    t.match(await figures(), {
      creditsMicros: 4800,
      grants: [{ id: 'initial' }, { id: 'more', micros: 5000 }],
    })
  })

  t.test('many at once take what there is and not one more', async (t) => {
    const { begin, figures, credits } = await ledgerOf(t, start)
    await credits(250)
    const begun = await Promise.all(Array.from({ length: 400 }, () => begin({ reservation: reserve(10) })))
    t.equal(begun.filter(({ state }) => state === 'begun').length, 25)
    t.match(await figures(), { creditsMicros: 0, reservedMicros: 250, spentMicros: 250 })
  })

  t.test('amounts are exact to the micro-USD, also large ones', async (t) => {
    const { begin, charge, credits, figures } = await ledgerOf(t, start)
    await credits(9_000_000_000_000_001)
    const token = newToken()
    await begin({ token, reservation: reserve(8_000_000_000_000_003) })
    t.match(await figures(), { creditsMicros: 999_999_999_999_998, reservedMicros: 8_000_000_000_000_003 })
    await charge(token, { platformMicros: 1, spendMicros: 8_999_999_999_999_999 })
    t.match(await figures(), { creditsMicros: 9_000_000_000_000_000, spentMicros: 8_999_999_999_999_999 })
  })
}

function budgets(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a budget is kept to, reservations included, and is told whose it is', async (t) => {
    const { begin, charge, figures } = await ledgerOf(t, start)
    const terms = { ...NO_TERMS, budgetMicros: 1000 }
    const byok = (spendMicros: number, keyId = 'key_one') =>
      reserve(0, { spendMicros, keyId, keyBudgetMicros: 600, terms })
    const token = newToken()
    t.same(await begin({ token, reservation: byok(600) }), { state: 'begun' }, 'up to the cap')
    t.same(await begin({ reservation: byok(1) }), { state: 'refused', why: 'key_budget' })
    t.same(await begin({ reservation: byok(401, 'key_two') }), { state: 'refused', why: 'workspace_budget' })
    t.same(
      await begin({ reservation: byok(601, 'key_two') }),
      { state: 'refused', why: 'key_budget' },
      'both',
    )
    t.same(await begin({ reservation: byok(400, 'key_two') }), { state: 'begun' })
    await charge(token, { platformMicros: 0, spendMicros: 100 })
    t.match(await figures(terms), { spentMicros: 500, spentByKey: { key_one: 100, key_two: 400 } })
    t.same(await begin({ reservation: byok(500) }), { state: 'begun' }, 'what came back can be spent')
  })

  t.test('a refusal by a budget takes nothing from the purse', async (t) => {
    const { begin, figures, credits } = await ledgerOf(t, start)
    await credits(1000)
    const refused = await begin({ reservation: reserve(100, { keyBudgetMicros: 99 }) })
    t.same(refused, { state: 'refused', why: 'key_budget' })
    t.match(await figures(), { creditsMicros: 1000, reservedMicros: 0, spentMicros: 0 })
  })

  t.test('the purse is asked before the budgets', async (t) => {
    const { begin } = await ledgerOf(t, start)
    const refused = await begin({ reservation: reserve(100, { keyBudgetMicros: 99 }) })
    t.same(refused, { state: 'refused', why: 'credits' })
  })

  t.test('the real cost counts against the budget, also above the reservation', async (t) => {
    const { begin, charge } = await ledgerOf(t, start)
    const capped = (spendMicros: number) => reserve(0, { spendMicros, keyBudgetMicros: 500 })
    const token = newToken()
    await begin({ token, reservation: capped(100) })
    await charge(token, { platformMicros: 0, spendMicros: 450 })
    t.same(await begin({ reservation: capped(51) }), { state: 'refused', why: 'key_budget' })
    t.same(await begin({ reservation: capped(50) }), { state: 'begun' })
  })

  t.test('budgets begin anew with the month, and take nothing over', async (t) => {
    const { begin, charge, figures, setClock } = await ledgerOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    const capped = (spendMicros: number) => reserve(0, { spendMicros, keyBudgetMicros: 500 })
    setClock(Date.UTC(2027, 10, 30, 23, 59, 59, 0))
    const [before, after] = [newToken(), newToken()]
    await begin({ token: before, reservation: capped(400) })
    t.match(await figures(), { month: '2027-11', spentMicros: 400 })
    t.same(await begin({ reservation: capped(101) }), { state: 'refused', why: 'key_budget' })

    setClock(Date.UTC(2027, 11, 1, 0, 0, 0, 0))
    t.match(await figures(), { month: '2027-12', spentMicros: 0, spentByKey: {} })
    t.same(await begin({ token: after, reservation: capped(500) }), { state: 'begun' })
    await charge(before, { platformMicros: 0, spendMicros: 450 })
    t.match(await figures(), { spentMicros: 500 }, 'a reservation of November adjusts nothing in December')
    await charge(after, { platformMicros: 0, spendMicros: 20 })
    t.match(await figures(), { spentMicros: 20, spentByKey: { key_one: 20 } })
  })

  t.test('a purse is settled also when the month has ended', async (t) => {
    const { begin, charge, cancel, credits, figures, setClock } = await ledgerOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    setClock(Date.UTC(2027, 11, 31, 23, 59, 59, 999))
    await credits(1000)
    const [settled, withdrawn] = [newToken(), newToken()]
    await begin({ token: settled, reservation: reserve(300) })
    await begin({ token: withdrawn, reservation: reserve(200) })
    setClock(Date.UTC(2028, 0, 1, 0, 0, 1))
    await charge(settled, { platformMicros: 50, spendMicros: 50 })
    await cancel(withdrawn)
    t.match(await figures(), { month: '2028-01', creditsMicros: 950, reservedMicros: 0, spentMicros: 0 })
  })
}

function reservations(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('a reservation that nobody settles stays charged, and is counted', async (t) => {
    const { begin, charge, cancel, credits, figures, pass } = await ledgerOf(t, start)
    await credits(1000)
    const [lost, byok] = [newToken(), newToken()]
    await begin({ token: lost, reservation: reserve(300, { leaseMs: SHORT_MS, spendMicros: 310 }) })
    await begin({ token: byok, reservation: reserve(0, { leaseMs: SHORT_MS, spendMicros: 5 }) })
    await begin({ reservation: reserve(100) })
    t.match(await figures(), { reservedMicros: 400, expired: { count: 0, micros: 0 }, spentMicros: 415 })
    await pass(SHORT_MS + 50)
    const charged = {
      creditsMicros: 600,
      reservedMicros: 100,
      expired: { count: 2, micros: 300 },
      overageMicros: 0,
      spentMicros: 415,
    }
    t.match(await figures(), charged)
    await charge(lost, { platformMicros: 10, spendMicros: 10 })
    await cancel(byok)
    t.match(await figures(), charged, 'what its token holds no longer is left alone')
  })

  t.test('settling after the lease changes nothing, also when nobody looked before', async (t) => {
    const { begin, charge, credits, figures, pass } = await ledgerOf(t, start)
    await credits(1000)
    const token = newToken()
    await begin({ token, reservation: reserve(300, { leaseMs: 50 }) })
    await pass(100)
    await charge(token, { platformMicros: 10, spendMicros: 10 })
    const charged = { creditsMicros: 700, reservedMicros: 0, expired: { count: 1, micros: 300 } }
    t.match(await figures(), { ...charged, spentMicros: 300 })
  })

  t.test('many lost reservations are all counted in the end', async (t) => {
    const { begin, credits, figures, pass } = await ledgerOf(t, start)
    await credits(10_000)
    const lost = Array.from({ length: 300 }, () => begin({ reservation: reserve(10, { leaseMs: 50 }) }))
    await Promise.all(lost)
    await pass(100)
    let last = await figures()
    for (let i = 0; i < 20 && last.expired.count < 300; i++) last = await figures()
    t.match(last, { creditsMicros: 7000, reservedMicros: 0, expired: { count: 300, micros: 3000 } })
  })
}

function both(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('slot and money are claimed together or not at all', async (t) => {
    const { begin, credits, figures, look } = await ledgerOf(t, start)
    const id = newDigest()
    const reservation = reserve(100)
    t.same(await begin({ slot: claimOf(id), reservation }), { state: 'refused', why: 'credits' })
    t.same(await look(id), { state: 'free' }, 'a refusal holds no slot')
    await credits(150)
    t.same(await begin({ slot: claimOf(id), reservation }), { state: 'begun' })
    t.same(await begin({ slot: claimOf(id), reservation }), { state: 'running' })
    t.match(await figures(), { creditsMicros: 50 }, 'a slot that is taken costs nothing')
  })

  t.test('a slot that is taken is told before any shortage', async (t) => {
    const { begin, end } = await ledgerOf(t, start)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id) })
    t.same(await begin({ slot: claimOf(id), reservation: reserve(100) }), { state: 'running' })
    await end(token, id, { state: 'stored', result: resultOf('kept'), ttlMs: LONG_MS })
    t.match(await begin({ slot: claimOf(id), reservation: reserve(100) }), { state: 'stored' })
  })

  t.test('one settlement ends slot and money, each by itself', async (t) => {
    const { ledger, workspace, begin, credits, figures, look, pass } = await ledgerOf(t, start)
    await credits(1000)
    const [id, token] = [newDigest(), newToken()]
    await begin({ token, slot: claimOf(id), reservation: reserve(500) })
    const settlement = {
      token,
      workspace,
      slot: { id, end: { state: 'stored', result: resultOf('kept'), ttlMs: LONG_MS } },
      charge: { platformMicros: 120, spendMicros: 120 },
    } as const
    for (const charged of [true, false, false])
      t.same(await ledger.settle(settlement), { slotHeld: true, charged }, 'the money ends once')
    t.match(await look(id), { state: 'stored' })
    t.match(await figures(), { creditsMicros: 880, reservedMicros: 0, spentMicros: 120 })

    const [burned, late] = [newDigest(), newToken()]
    const slot = claimOf(burned, { leaseMs: 50 })
    await begin({ token: late, slot, reservation: reserve(500) })
    await pass(100)
    const tooLate = { ...settlement, token: late, slot: { ...settlement.slot, id: burned } }
    t.same(await ledger.settle(tooLate), { slotHeld: false, charged: true })
    t.same(await look(burned), { state: 'burned' })
    t.match(await figures(), { creditsMicros: 760, reservedMicros: 0 }, 'the money is settled all the same')
  })

  t.test('a settlement without a slot holds none', async (t) => {
    const { ledger, workspace } = await ledgerOf(t, start)
    const settled = await ledger.settle({ token: newToken(), workspace, slot: null, charge: null })
    t.same(settled, { slotHeld: false, charged: false })
  })
}
