import t from 'tap'
import { bookItems, forecastOf, ranked } from '../../../src/console/page/views/workspaces/view.ts'
import {
  newGrantId,
  type WorkspaceForm,
  workspaceBody,
  workspaceForm,
  workspaceIssues,
} from '../../../src/console/page/views/workspaces/workspace-form.ts'
import type { WorkspaceAnswer } from '../../../src/console/server/answers/workspaces.ts'

const ACME: WorkspaceAnswer = {
  id: 'acme',
  name: 'Acme',
  plan: 'pro',
  plans: ['pro'],
  managed_by: 'console',
  budget_usd_per_month: 50,
  trial: { allowance_usd: 5, expires_at: '2027-01-31T12:00:00Z' },
  rate_limit: { tokens_per_minute: 1_000, audio_seconds_per_minute: 600 },
  end_users: {
    hash: true,
    budget_usd: { per_month: 2 },
    rate_limit: { requests_per_minute: 30 },
    overrides: { eu_x: { budget_usd: { per_month: 9 } } },
  },
  account: null,
  content_shown: false,
  purposes: [],
  apps: [],
}

const form = (change: Partial<WorkspaceForm>): WorkspaceForm => ({ ...workspaceForm(ACME), ...change })

t.test('a workspace that is loaded and saved stays as it was', async (t) => {
  t.same(workspaceBody(workspaceForm(ACME), ACME), {
    name: 'Acme',
    plan: 'pro',
    budget_usd_per_month: 50,
    trial: ACME.trial,
    rate_limit: ACME.rate_limit,
    end_users: ACME.end_users,
  })
  const nothing = { plan: null, budget_usd_per_month: null, trial: null, rate_limit: null, end_users: null }
  const bare: WorkspaceAnswer = { ...ACME, name: 'acme', ...nothing }
  t.same(workspaceBody(workspaceForm(bare), bare), { name: null, ...nothing })
})

t.test('terms of end users are set and taken away, those of single ones stay', async (t) => {
  const none = { endUserBudget: '', endUserPerMinute: '', endUserBurst: '', hashEndUsers: false }
  t.same(workspaceBody(form(none), ACME).end_users, { overrides: ACME.end_users?.overrides })
  t.same(workspaceBody(form({ endUserBurst: '5', endUserBudget: '0' }), null).end_users, {
    ...{ hash: true, budget_usd: { per_month: 0 } },
    rate_limit: { requests_per_minute: 30, burst: 5 },
  })
  const limited: WorkspaceAnswer = { ...ACME, end_users: { rate_limit: {} } }
  t.same(
    workspaceBody(workspaceForm(limited), limited).end_users,
    { rate_limit: {} },
    'the limit of every key',
  )
  const wrong = { endUserBudget: 'x', endUserPerMinute: '1.5', endUserBurst: '100001' }
  t.same(Object.keys(workspaceIssues(form(wrong), null)), Object.keys(wrong))
})

t.test('limits of tokens and audio are set one by one, and taken away', async (t) => {
  const of = (change: Partial<WorkspaceForm>) => workspaceBody(form(change), ACME).rate_limit
  t.same(of({ tokensPerMinute: ' 20 ' }), { tokens_per_minute: 20, audio_seconds_per_minute: 600 })
  t.same(of({ tokensPerMinute: '' }), { audio_seconds_per_minute: 600 })
  t.equal(of({ tokensPerMinute: '', audioSecondsPerMinute: '' }), null)
  const wrong = { tokensPerMinute: '0', audioSecondsPerMinute: '1.5' }
  t.same(Object.keys(workspaceIssues(form(wrong), null)), Object.keys(wrong))
})

t.test('a trial ends with the day that was picked', async (t) => {
  const body = workspaceBody(form({ trialEnds: '2027-02-01', trialAllowance: '7.50' }), ACME)
  t.same(body.trial, { allowance_usd: 7.5, expires_at: '2027-02-01T23:59:59Z' })
  t.equal(workspaceBody(form({ trialEnds: '', trialAllowance: '' }), ACME).trial, null)
})

t.test('amounts, trials and new ids are checked', async (t) => {
  t.same(workspaceIssues(workspaceForm(ACME), null), {})
  t.same(Object.keys(workspaceIssues(form({ budget: 'much', trialAllowance: '1,5' }), null)), [
    'budget',
    'trialAllowance',
  ])
  t.same(Object.keys(workspaceIssues(form({ trialEnds: '' }), null)), ['trialEnds'])
  t.same(Object.keys(workspaceIssues(form({ trialAllowance: '' }), null)), ['trialAllowance'])
  for (const [id, isRight] of [
    ['new', true],
    ['', false],
    ['acme', false],
    ['-x', false],
    ['x'.repeat(40), true],
    ['x'.repeat(41), false],
  ] as const)
    t.equal(workspaceIssues(form({ id }), ['acme']).id === undefined, isRight, JSON.stringify(id))
})

t.test('a grant id names the day, and is not given twice', async (t) => {
  const now = new Date('2026-11-20T20:00:00Z')
  t.equal(
    newGrantId(now, () => 0),
    'console-2026-11-20-000000',
  )
  t.match(
    newGrantId(now, () => 0.999999999),
    /^console-2026-11-20-[0-9a-z]{6}$/,
  )
  t.not(newGrantId(now, Math.random), newGrantId(now, Math.random))
})

t.test('workspaces are ranked by what they use, and by name as long as that is not known', async (t) => {
  const named = (id: string, name: string) => {
    return { id, name, plan: null, managed_by: 'file', apps: 1, routes: 1 } as const
  }
  const all = [named('a', 'Zoo'), named('b', 'Acme'), named('c', 'Bolt')]
  const sums = { audio_seconds: 0, input_tokens: 0, output_tokens: 0, characters: 0, images: 0 }
  const times = { total_ms: null, first_ms: null }
  const data = [
    { ...sums, ...times, workspace: 'c', calls: 5, errors: 4, cost_usd: 0.5 },
    { ...sums, ...times, workspace: 'a', calls: 9, errors: 0, cost_usd: 0.25 },
    { ...sums, ...times, workspace: 'gone', calls: 99, errors: 9, cost_usd: 9 },
  ]
  const names = (
    rank: 'cost' | 'calls' | 'errors' | 'name',
    usage: { data: typeof data } | null = { data },
  ) => ranked(all, usage, rank).map(({ name }) => name)
  t.same(names('cost'), ['Bolt', 'Zoo', 'Acme'])
  t.same(names('calls'), ['Zoo', 'Bolt', 'Acme'])
  t.same(names('errors'), ['Bolt', 'Acme', 'Zoo'])
  t.same(names('name'), ['Acme', 'Bolt', 'Zoo'])
  t.same(names('cost', null), ['Acme', 'Bolt', 'Zoo'])
  t.match(ranked(all, { data }, 'name')[0], { used: { calls: 0, errors: 0, cost_usd: 0 } })
})

t.test('charges are beside the cost of the records', async (t) => {
  const total = {
    since: '2026-11-25T00:00:00.000Z',
    booked_usd: 1.5,
    recorded_usd: 1.5,
    difference_usd: 0,
    reserved_usd: 0,
  }
  const books = { complete_until: '2026-11-25T01:00:00.000Z', data: [], total }
  t.same(bookItems(books), [
    ['Charged', '$1.50'],
    ['In usage records', '$1.50'],
    ['Charged minus recorded', '$0.00'],
  ])
  const differing = { ...books, total: { ...total, recorded_usd: 1.25, difference_usd: 0.25 } }
  t.same(bookItems(differing)[2], ['Charged minus recorded', '$0.25'])
  t.same(bookItems({ ...books, total: { ...total, since: null } }), [])
})

t.test('a month is forecast from what has passed of it', async (t) => {
  const at = (time: string) => Date.parse(`2026-11-${time}:00Z`)
  t.equal(forecastOf('2026-11', 10, at('11T00:00')), 30)
  t.equal(forecastOf('2026-11', 10, at('21T00:00')), 15)
  t.equal(forecastOf('2026-11', 10, at('01T23:59')), null, 'a first day says nothing yet')
  t.equal(forecastOf('2026-10', 10, at('11T00:00')), null, 'that month is over')
  t.equal(forecastOf('2026-11', 0, at('11T00:00')), null)
})
