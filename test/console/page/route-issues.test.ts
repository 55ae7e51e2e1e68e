import t from 'tap'
import { entryIssues, issueCount, readIssues } from '../../../src/console/page/views/routes/editing.ts'

t.test('issues are beside the fields that they are about', async (t) => {
  const issues = readIssues(
    [
      '/entries/0/model: is not in the built-in table: declare its capabilities',
      '/routes/acme.voice/entries/0/model: must be shorter',
      '/entries/0/purposes/1: the workspace declares no purpose "x"',
      '/entries/1: is nothing',
      '/strategy: must be one of priority, weighted',
      '/entries: must not have fewer than 1 items',
      '/workspaces/acme/apps/web/route: there is no route',
      '/routes/acme.other/entries/0/model: is another route',
      'the file changed meanwhile',
      '/: the file changed meanwhile',
    ],
    'acme.voice',
  )
  t.same(entryIssues(issues, 0, 'model'), [
    'is not in the built-in table: declare its capabilities',
    'must be shorter',
  ])
  t.same(entryIssues(issues, 0, 'purposes'), ['1: the workspace declares no purpose "x"'])
  t.same(entryIssues(issues, 1, ''), ['is nothing'])
  t.same(entryIssues(issues, 7, 'model'), [])
  t.equal(issueCount(issues, 0), 3)
  t.equal(issueCount(issues, 2), 0)
  t.same(issues.fields.get('strategy'), ['must be one of priority, weighted'])
  t.same(issues.fields.get('entries'), ['must not have fewer than 1 items'])
  t.same(issues.others, [
    '/workspaces/acme/apps/web/route: there is no route',
    '/routes/acme.other/entries/0/model: is another route',
    'the file changed meanwhile',
    'the file changed meanwhile',
  ])
})

t.test('a route without a fault has none', async (t) => {
  const { entries, fields, others } = readIssues([], 'acme.voice')
  t.same([entries.size, fields.size, others.length], [0, 0, 0])
})
