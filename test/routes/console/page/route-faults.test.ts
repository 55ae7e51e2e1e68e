import t from 'tap'
import {
  faultCount,
  faultsOfEntry,
  readFaults,
} from '../../../../src/routes/console/page/views/routes/route-faults.ts'

t.test('faults stand beside the fields that they are about', async (t) => {
  const faults = readFaults(
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
  t.same(faultsOfEntry(faults, 0, 'model'), [
    'is not in the built-in table: declare its capabilities',
    'must be shorter',
  ])
  t.same(faultsOfEntry(faults, 0, 'purposes'), ['1: the workspace declares no purpose "x"'])
  t.same(faultsOfEntry(faults, 1, ''), ['is nothing'])
  t.same(faultsOfEntry(faults, 7, 'model'), [])
  t.equal(faultCount(faults, 0), 3)
  t.equal(faultCount(faults, 2), 0)
  t.same(faults.fields.get('strategy'), ['must be one of priority, weighted'])
  t.same(faults.fields.get('entries'), ['must not have fewer than 1 items'])
  t.same(faults.others, [
    '/workspaces/acme/apps/web/route: there is no route',
    '/routes/acme.other/entries/0/model: is another route',
    'the file changed meanwhile',
    'the file changed meanwhile',
  ])
})

t.test('a route without a fault has none', async (t) => {
  const { entries, fields, others } = readFaults([], 'acme.voice')
  t.same([entries.size, fields.size, others.length], [0, 0, 0])
})
