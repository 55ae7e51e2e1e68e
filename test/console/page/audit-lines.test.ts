import { test } from 'tap'
import { byWhom, hashesOf, joined } from '../../../src/console/page/views/audit.ts'
import type { AuditAnswer } from '../../../src/console/server/answers/audit.ts'

function line(number: number, more: Partial<AuditAnswer> = {}): AuditAnswer {
  return {
    number,
    at: '2026-11-20T12:00:00Z',
    by: { via: 'console', key_id: 'key_ada', name: 'Ada' },
    action: 'route.publish',
    workspace: 'acme',
    target: 'route/acme.voice',
    before: null,
    after: null,
    detail: null,
    ...more,
  }
}

test('older lines follow, and none comes twice', async (t) => {
  const rows = joined([line(9), line(8)], [line(8), line(7)])
  t.same(
    rows.map(({ number }) => number),
    [9, 8, 7],
  )
  t.same(joined([], [line(1)]).length, 1)
})

test('hashes are shortened, and a line without any has none', async (t) => {
  t.equal(hashesOf(line(1)), null)
  t.equal(hashesOf(line(1, { after: '0123456789abcdef' })), 'none → 01234567')
  t.equal(hashesOf(line(1, { before: 'fedcba9876543210' })), 'fedcba98 → none')
})

test('somebody stands for each line', async (t) => {
  t.same(byWhom(line(1)), { name: 'Ada', via: 'console' })
  t.same(byWhom(line(1, { by: { via: 'cli', key_id: null, name: 'root@host' } })), {
    name: 'root@host',
    via: 'command line',
  })
  t.same(byWhom(line(1, { by: { via: 'api', key_id: 'key_1', name: '' } })).name, 'key_1')
})
