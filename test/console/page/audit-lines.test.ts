import { test } from 'tap'
import { byWhom, hashesOf, joinedAnswers } from '../../../src/console/page/views/audit.ts'
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
  const told = (
    newest: readonly number[],
    next: number | null,
    older: readonly number[],
    top = older[0] ?? 0,
  ) => {
    const list = (numbers: readonly number[]) => numbers.map((number) => line(number))
    const both = joinedAnswers({ lines: list(newest), next }, { lines: list(older), next: 3, top })
    return [both.lines.map(({ number }) => number), both.next]
  }
  t.same(told([9, 8], 8, [8, 7]), [[9, 8, 7], 3])
  t.same(told([9, 8], 8, [9, 8, 7]), [[9, 8, 7], 3])
  t.same(told([9, 8], 8, [7, 6]), [[9, 8], 8], 'others may be missing between them')
  t.same(told([9, 8], null, [8]), [[9, 8], null], 'there are no others')
  t.same(told([], 8, [], 8), [[], 3], 'nothing was found so far')
  t.same(joinedAnswers({ lines: [line(1)], next: null }, null).lines.length, 1)
})

test('hashes are shortened, and a line without any has none', async (t) => {
  t.equal(hashesOf(line(1)), null)
  t.equal(hashesOf(line(1, { after: '0123456789abcdef' })), 'none → 01234567')
  t.equal(hashesOf(line(1, { before: 'fedcba9876543210' })), 'fedcba98 → none')
})

test('each line names who made it', async (t) => {
  t.same(byWhom(line(1)), { name: 'Ada', via: 'console' })
  t.same(byWhom(line(1, { by: { via: 'cli', key_id: null, name: 'root@host' } })), {
    name: 'root@host',
    via: 'command line',
  })
  t.same(byWhom(line(1, { by: { via: 'api', key_id: 'key_1', name: '' } })).name, 'key_1')
})
