import type { Test } from 'tap'
import {
  beginningOf,
  figuresOf,
  NO_TERMS,
  newToken,
  newWorkspace,
  reserve,
  type StateUnderTest,
} from '../../support/state-under-test.ts'

/** What the accounts of workspaces keep, wherever they are written. */
export function accountsContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('an account that nobody has used is empty', async (t) => {
    const { state } = await start(t)
    const view = await state.accounts.show(newWorkspace(), NO_TERMS)
    t.match(view.month, /^\d{4}-(0[1-9]|1[0-2])$/)
    t.same(view, {
      booked: { sinceMs: 0, months: [] },
      creditsMicros: 0,
      grants: [],
      trialSpentMicros: 0,
      overageMicros: 0,
      reservedMicros: 0,
      expired: { count: 0, micros: 0 },
      month: view.month,
      spentMicros: 0,
      spentByKey: {},
    })
  })

  t.test('showing books the grant of the terms, once', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    const terms = { ...NO_TERMS, grant: { id: 'initial', micros: 1000 } }
    const beforeMs = Date.now() - 5000
    for (let i = 0; i < 3; i++) {
      const { creditsMicros, grants } = await state.accounts.show(workspace, terms)
      t.match({ creditsMicros, grants }, { creditsMicros: 1000, grants: [{ id: 'initial', micros: 1000 }] })
      t.equal(grants.length, 1)
      t.ok(grants[0]!.bookedAtMs >= beforeMs && grants[0]!.bookedAtMs <= Date.now() + 5000)
    }
    t.match(await state.accounts.show(newWorkspace(), NO_TERMS), { creditsMicros: 0, grants: [] })
  })

  t.test('credits are booked once per id', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    const add = (id: string, micros: number) => state.accounts.addCredits(workspace, { id, micros })
    t.same(await add('one', 500), { booked: true, creditsMicros: 500 })
    t.same(await add('one', 500), { booked: false, creditsMicros: 500 })
    t.same(await add('one', 9999), { booked: false, creditsMicros: 500 })
    t.same(await add('two', 250), { booked: true, creditsMicros: 750 })
    const grants = [
      { id: 'one', micros: 500 },
      { id: 'two', micros: 250 },
    ]
    t.same(figuresOf(await state.accounts.show(workspace, NO_TERMS)).grants, grants)
    const terms = { ...NO_TERMS, grant: { id: 'one', micros: 70 } }
    t.match(await state.accounts.show(workspace, terms), { creditsMicros: 750 }, 'the terms may name it too')
  })

  t.test('grants are told in the order in which they were booked', async (t) => {
    const { state, pass } = await start(t)
    const workspace = newWorkspace()
    for (const id of ['zulu', 'alpha', 'mike']) {
      await state.accounts.addCredits(workspace, { id, micros: 1 })
      await pass(5)
    }
    const { grants } = await state.accounts.show(workspace, NO_TERMS)
    t.same(
      grants.map(({ id }) => id),
      ['zulu', 'alpha', 'mike'],
    )
  })

  t.test('credits are taken back, but not below zero', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    const add = (id: string, micros: number) => state.accounts.addCredits(workspace, { id, micros })
    await add('one', 500)
    t.same(await add('back', -200), { booked: true, creditsMicros: 300 })
    t.same(await add('back', -200), { booked: false, creditsMicros: 300 })
    t.same(await add('all', -1000), { booked: true, creditsMicros: 0 })
    const grants = [
      { id: 'all', micros: -300 },
      { id: 'back', micros: -200 },
      { id: 'one', micros: 500 },
    ]
    const view = figuresOf(await state.accounts.show(workspace, NO_TERMS))
    t.same(view.grants, grants, 'what was booked in truth: the grants add up')
    t.same(await add('more', 10), { booked: true, creditsMicros: 10 })
  })

  t.test('what is set aside cannot be taken back', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    await state.accounts.addCredits(workspace, { id: 'one', micros: 500 })
    const token = newToken()
    await state.ledger.begin(beginningOf(workspace, { token, reservation: reserve(400) }))
    const taken = await state.accounts.addCredits(workspace, { id: 'back', micros: -500 })
    t.same(taken, { booked: true, creditsMicros: 0 })
    await state.ledger.settle({
      token,
      workspace,
      slot: null,
      charge: { platformMicros: 50, spendMicros: 50 },
    })
    t.match(await state.accounts.show(workspace, NO_TERMS), { creditsMicros: 350 })
  })

  t.test('usage is counted per key, once per batch', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    const batch = { token: newToken(), workspace, spentMicros: { key_one: 30, key_two: 12 } }
    for (let i = 0; i < 3; i++) await state.accounts.addUsage(batch)
    await state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { key_one: 5, key_zero: 0 } })
    await state.accounts.addUsage({ token: newToken(), workspace, spentMicros: {} })
    const view = figuresOf(await state.accounts.show(workspace, NO_TERMS))
    t.match(view, { spentMicros: 47, creditsMicros: 0, reservedMicros: 0 })
    t.same(view.spentByKey, { key_one: 35, key_two: 12 })
  })

  t.test('usage that counts in one month alone is in no other', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    const { month } = await state.accounts.show(workspace, NO_TERMS)
    const moved = { workspace, spentMicros: { key_one: -5, key_two: 5 } }
    await state.accounts.addUsage({ ...moved, token: newToken(), month: '2020-01' })
    t.same((await state.accounts.show(workspace, NO_TERMS)).spentByKey, {})
    await state.accounts.addUsage({ ...moved, token: newToken(), month })
    t.same((await state.accounts.show(workspace, NO_TERMS)).spentByKey, moved.spentMicros)
  })

  t.test('usage of calls without a reservation counts against the budgets of those with one', async (t) => {
    const { state } = await start(t)
    const workspace = newWorkspace()
    await state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { key_one: 60 } })
    const capped = (spendMicros: number) =>
      state.ledger.begin(
        beginningOf(workspace, { reservation: reserve(0, { spendMicros, keyBudgetMicros: 100 }) }),
      )
    t.same(await capped(41), { state: 'refused', why: 'key_budget' })
    t.same(await capped(40), { state: 'begun' })
  })

  t.test('batches of the same token of two workspaces are two', async (t) => {
    const { state } = await start(t)
    const [token, one, two] = [newToken(), newWorkspace(), newWorkspace()]
    for (const workspace of [one, two])
      await state.accounts.addUsage({ token, workspace, spentMicros: { key: 7 } })
    for (const workspace of [one, two])
      t.match(await state.accounts.show(workspace, NO_TERMS), { spentMicros: 7 })
  })

  t.test('names that are awkward are names like others', async (t) => {
    const { state } = await start(t)
    const workspace = `${newWorkspace()}:{x}'"%_ü`
    const keyId = `key:'"{}%🎙`
    await state.accounts.addCredits(workspace, { id: `grant '"{}:🎙`, micros: 5 })
    const spentMicros = { [keyId]: 3, constructor: 2 }
    await state.accounts.addUsage({ token: newToken(), workspace, spentMicros })
    const view = await state.accounts.show(workspace, NO_TERMS)
    t.match(view, { creditsMicros: 5, grants: [{ id: `grant '"{}:🎙` }], spentMicros: 5 })
    t.same(view.spentByKey, { [keyId]: 3, constructor: 2 })
  })

  t.test('a month that is over is forgotten', async (t) => {
    const { state, setClock } = await start(t)
    if (!setClock) return t.pass('the clock of this state cannot be moved')
    const workspace = newWorkspace()
    const add = (keyId: string) =>
      state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { [keyId]: 7 } })
    setClock(Date.UTC(2028, 1, 29, 23, 59, 59, 999))
    await add('key_one')
    await add('key_two')
    const february = figuresOf(await state.accounts.show(workspace, NO_TERMS))
    t.match(february, { month: '2028-02', spentMicros: 14, spentByKey: { key_one: 7, key_two: 7 } })
    setClock(Date.UTC(2028, 2, 1))
    await add('key_two')
    const march = figuresOf(await state.accounts.show(workspace, NO_TERMS))
    t.match(march, { month: '2028-03', spentMicros: 7 })
    t.same(march.spentByKey, { key_two: 7 })
  })
}
