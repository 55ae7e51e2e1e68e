import { test } from 'tap'
import { type Goal, idGoals, matching, platformGoals } from '../../../src/console/page/palette.ts'

const goal = (label: string, more?: string): Goal => {
  return { group: 'Page', label, path: `/console/acme/${label}`, ...(more === undefined ? {} : { more }) }
}

test('goals are found by each word, those that begin with it first', async (t) => {
  const goals = [goal('API keys'), goal('Keys'), goal('Audit', 'key_1')]
  const labels = (text: string) => matching(goals, text).map(({ label }) => label)
  t.same(labels(''), ['API keys', 'Keys', 'Audit'])
  t.same(labels('key'), ['Keys', 'API keys', 'Audit'])
  t.same(labels('KEYS api'), ['API keys'])
  t.same(labels('page audit'), ['Audit'])
  t.same(labels('nothing'), [])
  const many = Array.from({ length: 20 }, (_, index) => goal(`route ${index}`))
  t.equal(matching(many, 'route').length, 6)
})

test('an id leads where things like it are', async (t) => {
  const paths = (text: string) => idGoals('acme', text).map(({ path }) => path)
  t.same(paths('req_01JABCDEF'), ['/console/acme/requests?tab=log&id=req_01JABCDEF'])
  t.same(paths('key_web1'), ['/console/acme/keys?q=key_web1'])
  t.same(paths('tj_abcd1'), ['/console/acme/jobs/tj_abcd1', '/console/acme/requests?tab=log&id=tj_abcd1'])
  t.same(paths('0af7651916cd43dd8448eb211c80319c'), [
    '/console/acme/requests?tab=log&id=0af7651916cd43dd8448eb211c80319c',
  ])
  for (const text of ['', 'req_', 'words of a page', 'req_a/../b', '<script>']) t.same(paths(text), [], text)
  t.same(idGoals(null, 'req_01JABCDEF'), [], 'of no workspace')
  const everywhere = (text: string) => platformGoals(text).map(({ path }) => path)
  t.same(everywhere('req_01JABCDEF'), ['/console/requests?tab=log&id=req_01JABCDEF'])
  t.same(everywhere('key_web1'), ['/console/requests?tab=log&key_id=key_web1'], 'what it has sent')
  for (const text of ['', 'words of a page']) t.same(everywhere(text), [], text)
})
