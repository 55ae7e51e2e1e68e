import type { Test } from 'tap'
import type { Begun, Charge } from '../../../src/contracts/ledger.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'
import { beginningOf, NO_TERMS, newToken, newWorkspace, reserve } from '../../support/state-under-test.ts'

const REFUSED: Begun = { state: 'refused', why: 'end_user_budget' }

/** A state, a workspace of the test's own, and short words for what is done with them. */
async function ledgerOf(t: Test, start: (t: Test) => Promise<StateUnderTest>) {
  const under = await start(t)
  const { ledger } = under.state
  const workspace = newWorkspace()
  /** Of nobody's credits: what is spent counts for the end user. */
  const spending = (account: string, spendMicros: number, budgetMicros = 500) =>
    reserve(0, { spendMicros, endUser: { account, budgetMicros } })
  return {
    ...under,
    ledger,
    workspace,
    spending,
    begin: (account: string, spendMicros: number, token = newToken(), budgetMicros = 500) =>
      ledger.begin(
        beginningOf(workspace, { token, reservation: spending(account, spendMicros, budgetMicros) }),
      ),
    charge: (token: string, endUser: string, charge: Charge) =>
      ledger.settle({ token, workspace, slot: null, charge, endUser }),
    cancel: (token: string, endUser: string) => ledger.cancel({ token, workspace, slotId: null, endUser }),
  }
}

/** What a ledger keeps of the budgets of end users. */
export function ledgerEndUsersContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('the budget of an end user is kept to, reservations included, and by nobody else', async (t) => {
    const { begin, charge } = await ledgerOf(t, start)
    const token = newToken()
    t.same(await begin('ann', 500, token), { state: 'begun' }, 'up to the cap')
    t.same(await begin('ann', 500, token), { state: 'begun' }, 'what was sent again counts once')
    t.same(await begin('ann', 1), REFUSED)
    t.same(await begin('ben', 500), { state: 'begun' }, 'another has a budget of its own')
    t.same(await charge(token, 'ann', { platformMicros: 0, spendMicros: 100 }), {
      slotHeld: false,
      charged: true,
      endUserMicros: 100,
    })
    t.same(
      await charge(token, 'ann', { platformMicros: 0, spendMicros: 0 }),
      { slotHeld: false, charged: false },
      'it is told once',
    )
    t.same(await begin('ann', 401), REFUSED, 'an end that was sent again gives nothing back')
    t.same(await begin('ann', 400), { state: 'begun' }, 'what came back can be spent')
  })

  t.test(
    'what end users have spent is told in the order of their accounts, reservations included',
    async (t) => {
      const { begin, charge, state, workspace } = await ledgerOf(t, start)
      const { accounts } = state
      t.same(await accounts.endUsersSpent(workspace, []), [])
      const token = newToken()
      await begin('ann', 300, token)
      await begin('ben', 200)
      t.same(await accounts.endUsersSpent(workspace, ['ben', 'nobody', 'ann', 'ben']), [200, 0, 300, 200])
      await charge(token, 'ann', { platformMicros: 0, spendMicros: 300 })
      t.same(await accounts.endUsersSpent(workspace, ['ann']), [300])
      t.same(await accounts.endUsersSpent(newWorkspace(), ['ann']), [0], 'of another workspace')
    },
  )

  t.test('workspaces have end users of their own', async (t) => {
    const { begin, ledger, spending } = await ledgerOf(t, start)
    await begin('ann', 500)
    const other = beginningOf(newWorkspace(), { reservation: spending('ann', 500) })
    t.same(await ledger.begin(other), { state: 'begun' })
  })

  t.test('the real cost counts for an end user, also above the reservation', async (t) => {
    const { begin, charge } = await ledgerOf(t, start)
    const token = newToken()
    await begin('ann', 100, token)
    await charge(token, 'ann', { platformMicros: 0, spendMicros: 450 })
    t.same(await begin('ann', 51), REFUSED)
    t.same(await begin('ann', 50), { state: 'begun' })
  })

  t.test(
    'a budget of an end user that was lowered below its spending refuses, and one raised admits',
    async (t) => {
      const { begin } = await ledgerOf(t, start)
      await begin('ann', 300)
      t.same(await begin('ann', 0, newToken(), 299), REFUSED)
      t.same(await begin('ann', 700, newToken(), 1000), { state: 'begun' })
    },
  )

  t.test('a call that is taken back is nobody’s spending', async (t) => {
    const { begin, cancel } = await ledgerOf(t, start)
    const token = newToken()
    await begin('ann', 500, token)
    await cancel(token, 'ann')
    await cancel(token, 'ann')
    t.same(await begin('ann', 500), { state: 'begun' })
    t.same(await begin('ann', 1), REFUSED, 'taken back once')
  })

  t.test('a refusal by an end user’s budget takes nothing, and others are told first', async (t) => {
    const { begin, ledger, workspace, spending, state } = await ledgerOf(t, start)
    await begin('ann', 500)
    const before = await state.accounts.show(workspace, NO_TERMS)
    t.same(await begin('ann', 1), REFUSED)
    t.same(await state.accounts.show(workspace, NO_TERMS), before)
    const reservation = { ...spending('ann', 1), keyBudgetMicros: 0 }
    const refused = await ledger.begin(beginningOf(workspace, { reservation }))
    t.same(refused, { state: 'refused', why: 'key_budget' })
  })

  t.test('a job counts once, whichever claim ends it', async (t) => {
    const { ledger, workspace, spending, begin } = await ledgerOf(t, start)
    const token = newToken()
    const claimed = (number: number) =>
      ledger.begin(beginningOf(workspace, { token, claim: { number }, reservation: spending('ann', 400) }))
    t.same(await claimed(1), { state: 'begun' })
    t.same(await claimed(2), { state: 'begun' }, 'the second takes it over')
    t.same(await begin('ann', 101), REFUSED)
    const charge = { platformMicros: 0, spendMicros: 300 }
    const ended = { token, workspace, slot: null, charge, endUser: 'ann' }
    t.match(await ledger.settle({ ...ended, claim: { number: 1 } }), { charged: false })
    t.match(await ledger.settle({ ...ended, claim: { number: 2 } }), { charged: true })
    t.same(await begin('ann', 201), REFUSED)
    t.same(await begin('ann', 200), { state: 'begun' })
  })

  t.test('many at once never overdraw the budget of an end user', async (t) => {
    const { begin } = await ledgerOf(t, start)
    const begun = await Promise.all(Array.from({ length: 60 }, (_, i) => begin(i % 2 ? 'ann' : 'ben', 25)))
    for (const half of [0, 1]) {
      const own = begun.filter((_, i) => i % 2 === half)
      t.equal(own.filter(({ state }) => state === 'begun').length, 20)
    }
  })

  t.test('budgets of end users begin anew with the month', async (t) => {
    const { begin, charge, setClock, state, workspace } = await ledgerOf(t, start)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    setClock(Date.UTC(2027, 10, 30, 23, 59, 59, 0))
    const [before, after] = [newToken(), newToken()]
    await begin('ann', 400, before)
    t.same(await begin('ann', 101), REFUSED)
    setClock(Date.UTC(2027, 11, 1, 0, 0, 0, 0))
    t.same(await state.accounts.endUsersSpent(workspace, ['ann']), [0])
    t.same(await begin('ann', 500, after), { state: 'begun' })
    t.same(
      await charge(before, 'ann', { platformMicros: 0, spendMicros: 0 }),
      { slotHeld: false, charged: true },
      'of November nothing is told',
    )
    t.same(await begin('ann', 1), REFUSED, 'a reservation of November adjusts nothing in December')
    await charge(after, 'ann', { platformMicros: 0, spendMicros: 20 })
    t.same(await begin('ann', 481), REFUSED)
    t.same(await begin('ann', 480), { state: 'begun' })
  })
}
