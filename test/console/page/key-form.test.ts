import t from 'tap'
import type { KeyFields } from '../../../src/console/page/views/keys/forms.ts'
import { changedKeyOf, fieldsOf, keyIssues, newKeyOf } from '../../../src/console/page/views/keys/forms.ts'
import { isIdle, keyState } from '../../../src/console/page/views/keys/view.ts'
import type { KeyAnswer } from '../../../src/console/server/answers/keys.ts'

const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const FORM: KeyFields = {
  name: ' ci ',
  app: 'web',
  scopes: ['inference'],
  requestsPerMinute: '',
  burst: '',
  tokensPerMinute: '',
  audioSecondsPerMinute: '',
  budgetUsd: '',
  expires: '',
}
const issuesOf = (form: Partial<KeyFields>) => Object.keys(keyIssues({ ...FORM, ...form }, NOW_MS))

t.test('what is left empty is not sent', async (t) => {
  t.same(issuesOf({}), [])
  t.same(newKeyOf(FORM), { name: 'ci', app: 'web', scopes: ['inference'] })
  const full = { requestsPerMinute: '60', burst: '10', budgetUsd: '$12.5', expires: '2026-11-20' }
  t.same(issuesOf(full), [])
  t.same(newKeyOf({ ...FORM, ...full }), {
    name: 'ci',
    app: 'web',
    scopes: ['inference'],
    rate_limit: { requests_per_minute: 60, burst: 10 },
    budget_usd_per_month: 12.5,
    expires_at: '2026-11-20T23:59:59.000Z',
  })
  const units = { requestsPerMinute: '60', burst: '10', tokensPerMinute: '50000', audioSecondsPerMinute: '' }
  t.same(newKeyOf({ ...FORM, ...units }).rate_limit, {
    ...{ requests_per_minute: 60, burst: 10, tokens_per_minute: 50_000 },
  })
  t.same(issuesOf({ tokensPerMinute: '1.5', audioSecondsPerMinute: '-1' }), [
    ...['requestsPerMinute', 'burst', 'tokensPerMinute', 'audioSecondsPerMinute'],
  ])
  t.same(newKeyOf({ ...FORM, budgetUsd: '0' }), {
    name: 'ci',
    app: 'web',
    scopes: ['inference'],
    budget_usd_per_month: 0,
  })
})

t.test('issues are reported by field', async (t) => {
  t.same(issuesOf({ name: '  ', app: '', scopes: [] }), ['name', 'app', 'scopes'])
  t.same(issuesOf({ name: 'x'.repeat(1025) }), ['name'])
  for (const text of ['0', '-1', '1.5', 'many', '1e12'])
    t.same(issuesOf({ requestsPerMinute: text, burst: '1' }), ['requestsPerMinute'], text)
  t.same(issuesOf({ requestsPerMinute: '60', burst: '100001' }), ['burst'])
  t.same(issuesOf({ requestsPerMinute: '60' }), ['burst'], 'the bucket is given as a whole')
  t.same(issuesOf({ burst: '10' }), ['requestsPerMinute'])
  for (const text of ['-1', 'free', '1e12', '1e-9', '0.0000001'])
    t.same(issuesOf({ budgetUsd: text }), ['budgetUsd'], text)
  t.same(issuesOf({ expires: '2026-11-19' }), ['expires'])
  t.same(issuesOf({ expires: 'tomorrow' }), ['expires'])
})

const key = (id: string, more: Partial<KeyAnswer> = {}): KeyAnswer => ({
  id,
  name: id,
  prefix: 'lk_live_abcd',
  app: 'web',
  scopes: ['inference'],
  rate_limit: { requests_per_minute: 600, burst: 100 },
  rate_limit_is_default: true,
  budget_usd_per_month: null,
  spent_usd: null,
  created_at: '2026-11-01T00:00:00Z',
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
  former: null,
  managed_by: 'console',
  ...more,
})

t.test('a key that is edited keeps what is left alone', async (t) => {
  const saved = (more: Partial<KeyAnswer>, fields: Partial<KeyFields> = {}) => {
    const edited = key('key_1', more)
    return changedKeyOf({ ...fieldsOf(edited), ...fields }, edited)
  }
  const plain = { name: 'key_1', scopes: ['inference'] }
  t.same(saved({}), plain, 'the rate limit keeps following the configuration')
  const limits = { rate_limit: { requests_per_minute: 7, burst: 2 }, budget_usd_per_month: 0.25 }
  const counted = { ...limits.rate_limit, tokens_per_minute: 100 }
  const hasTokens = { rate_limit: counted, rate_limit_is_default: false }
  t.match(saved(hasTokens), { rate_limit: counted })
  t.match(saved(hasTokens, { tokensPerMinute: '' }), { rate_limit: { ...counted, tokens_per_minute: 0 } })
  const own = { ...limits, rate_limit_is_default: false, expires_at: '2099-01-30T23:00:00.000Z' }
  t.same(saved(own), { ...plain, ...limits, expires_at: own.expires_at }, 'to the second')
  t.match(saved(own, { expires: '2099-02-01' }), { expires_at: '2099-02-01T23:59:59.000Z' })
  t.same(saved(own, { requestsPerMinute: '', burst: '', budgetUsd: '', expires: '' }), plain)
})

t.test('the state of a key', async (t) => {
  const state = (more: Partial<KeyAnswer>) => keyState(key('key_1', more), NOW_MS)
  t.equal(state({}), 'active')
  t.equal(state({ expires_at: '2027-11-20T09:00:00Z' }), 'active')
  t.equal(state({ expires_at: '2026-11-22T09:00:00Z' }), 'ends soon', 'the last tenth of three weeks')
  t.equal(state({ expires_at: '2026-11-25T09:00:00Z' }), 'active')
  t.equal(state({ expires_at: '2026-11-25T09:00:00Z', created_at: null }), 'ends soon', 'the last week')
  t.equal(state({ expires_at: '2026-11-20T09:00:00Z' }), 'expired')
  t.equal(state({ expires_at: '2027-11-20T09:00:00Z', revoked_at: '2026-11-20T08:00:00Z' }), 'revoked')
})

t.test('a key that was not used for a month', async (t) => {
  const idle = (more: Partial<KeyAnswer>) =>
    isIdle(key('key_1', { created_at: '2026-01-01T00:00:00Z', ...more }), NOW_MS)
  t.ok(idle({}), 'never since it was made')
  t.ok(idle({ last_used_at: '2026-10-20T00:00:00Z' }))
  t.notOk(idle({ last_used_at: '2026-10-22T00:00:00Z' }))
  t.notOk(idle({ created_at: '2026-11-01T00:00:00Z' }), 'it is new')
  t.notOk(idle({ created_at: null }), 'its age is not known')
  t.notOk(idle({ revoked_at: '2026-11-01T00:00:00Z' }))
  t.notOk(idle({ expires_at: '2026-11-01T00:00:00Z' }))
})
