import t from 'tap'
import type { AlertTerms } from '../../../src/contracts/alerts.ts'
import type { Settled } from '../../../src/contracts/ledger.ts'
import type { AdmittedContext } from '../../../src/gateway/call/context/call-context.ts'
import { EndUserWatch } from '../../../src/gateway/call/context/end-user-watch.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const MINUTE_MS = 60_000
const BUDGET_MICROS = 1_000

function callOf(workspace: string, keptEndUser: string | null = 'ann'): AdmittedContext {
  return { principal: { workspace: { id: workspace } }, keptEndUser } as unknown as AdmittedContext
}

const budgetOf = (account: string) => ({ account, budgetMicros: BUDGET_MICROS })
const settledAt = (endUserMicros: number): Promise<Settled | null> =>
  Promise.resolve({ slotHeld: false, charged: true, endUserMicros })

function watchOf(rules: AlertTerms['rules'] | null) {
  const catalog = { alerts: rules === null ? undefined : ({ rules } as AlertTerms) }
  const clock = new VirtualClock()
  const watch = new EndUserWatch(
    () => (catalog.alerts === undefined ? {} : { alerts: catalog.alerts }),
    clock,
  )
  const spend = async (account: string, micros: number, context = callOf('acme')) => {
    watch.charged(context, budgetOf(account), settledAt(micros))
    await Promise.resolve()
    await Promise.resolve()
  }
  return { watch, spend, clock, catalog }
}

const RULES: AlertTerms['rules'] = [
  { name: 'budgets', kind: 'budget', share: 0.1, workspace: null },
  { name: 'all', kind: 'end_user_budget', share: 0.9, workspace: null },
  { name: 'acme', kind: 'end_user_budget', share: 0.5, workspace: 'acme' },
]

t.test('those at the smallest share that a rule asks for are named, by the name that is kept', async (t) => {
  const { watch, spend } = watchOf(RULES)
  await spend('a', 499)
  t.same(watch.take(), [])
  await spend('a', 500)
  await spend('b', 899, callOf('other'))
  await spend('c', 900, callOf('other', null))
  t.same(watch.take(), [
    { workspace: 'acme', account: 'a', id: 'ann' },
    { workspace: 'other', account: 'c', id: null },
  ])
  t.same(watch.take(), [], 'once')
})

t.test('whom a budget is refused is named, whatever was spent', async (t) => {
  const { watch } = watchOf(RULES)
  watch.refused(callOf('acme'), budgetOf('a'))
  t.equal(watch.take().length, 1)
})

t.test('one is named again after a while, and of many only some at a time', async (t) => {
  const { watch, spend, clock } = watchOf(RULES)
  const accounts = Array.from({ length: 120 }, (_, index) => `account-${index}`)
  const named = new Set<string>()
  for (const most of [50, 50, 20, 0]) {
    for (const account of accounts) await spend(account, BUDGET_MICROS)
    const some = watch.take()
    t.equal(some.length, most)
    for (const { account } of some) named.add(account)
  }
  t.equal(named.size, accounts.length, 'each has its turn')
  await clock.advance(4 * MINUTE_MS)
  await spend('account-7', BUDGET_MICROS)
  t.equal(watch.take().length, 1)
})

t.test('what is not known to be charged to the month tells nothing', async (t) => {
  const { watch } = watchOf(RULES)
  for (const settled of [null, { slotHeld: false, charged: false }, { slotHeld: false, charged: true }])
    watch.charged(callOf('acme'), budgetOf('a'), Promise.resolve(settled))
  await Promise.resolve()
  t.same(watch.take(), [])
})

t.test('without a rule nobody waits for the end of a call', async (t) => {
  const { watch, catalog } = watchOf(null)
  const untouched = new Proxy(Promise.resolve(null), {
    get: () => {
      throw new Error('it was looked at')
    },
  })
  const other = { rules: [{ name: 'ends', kind: 'model_ends', days: 1 }] } as unknown as AlertTerms
  const foreign = { rules: [{ ...RULES[2], workspace: 'other' }] } as unknown as AlertTerms
  for (const alerts of [undefined, other, foreign]) {
    catalog.alerts = alerts
    watch.charged(callOf('acme'), budgetOf('a'), untouched)
    watch.refused(callOf('acme'), budgetOf('a'))
  }
  t.same(watch.take(), [])
  catalog.alerts = { rules: RULES } as AlertTerms
  watch.refused(callOf('acme'), budgetOf('a'))
  t.equal(watch.take().length, 1, 'with the next configuration they are')
})
