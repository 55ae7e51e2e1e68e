import t from 'tap'
import { ApiError } from '../../../src/console/page/api.ts'
import {
  changedBy,
  keptFields,
  phaseOf,
  revisionOf,
  type Saving,
  type SavingEvent,
  savingAfter,
  savingOf,
} from '../../../src/console/page/views/routes/editing.ts'
import type { RouteAnswer } from '../../../src/console/server/answers/routes.ts'
import type { RouteFields } from '../../../src/gateway/catalog/file.ts'

const fieldsWith = (...models: string[]): RouteFields => ({
  workspace: 'acme',
  entries: models.map((model) => ({ provider: 'p', model })),
})

const PUBLISHED: RouteAnswer = {
  name: 'acme.voice',
  workspace: 'acme',
  managed_by: 'console',
  apps: ['web'],
  published: {
    number: 3,
    version: 'pv_3',
    fields: fieldsWith('a'),
    published_at: '2026-11-20T10:00:00Z',
    published_by: 'Ann',
    note: null,
  },
  draft: null,
}

const drafted = (revision: number, ...models: string[]): RouteAnswer => ({
  ...PUBLISHED,
  draft: {
    revision,
    fields: fieldsWith(...models),
    version: 'pv_d',
    saved_at: '2026-11-20T11:00:00Z',
    saved_by: 'Bob',
    issues: [],
    changes: [],
  },
})

const after = (saving: Saving, ...events: readonly SavingEvent[]) => events.reduce(savingAfter, saving)
const FAILED = new ApiError('can’t reach the server', { code: 'UNREACHABLE', status: 0 })

t.test('a save goes from unsaved over saving to the same', async (t) => {
  const mine = fieldsWith('a', 'b')
  const start = savingOf(PUBLISHED)
  t.equal(phaseOf(start, fieldsWith('a')), 'same')
  t.equal(revisionOf(start), null)
  t.equal(phaseOf(start, mine), 'unsaved')
  const sent = after(start, { is: 'sent', fields: mine })
  t.equal(phaseOf(sent, mine), 'saving')
  t.equal(phaseOf(sent, fieldsWith('a', 'b', 'c')), 'saving', 'one after the other')
  const done = after(sent, { is: 'known', answer: drafted(1, 'a', 'b') })
  t.equal(phaseOf(done, mine), 'same')
  t.equal(revisionOf(done), 1)
  t.equal(
    phaseOf(done, fieldsWith('a', 'b', 'c')),
    'unsaved',
    'what was typed meanwhile is still to be saved',
  )
})

t.test('a failure waits until it is tried again', async (t) => {
  const mine = fieldsWith('b')
  const failed = after(savingOf(PUBLISHED), { is: 'sent', fields: mine }, { is: 'failed', error: FAILED })
  t.equal(phaseOf(failed, mine), 'failed')
  t.equal(phaseOf(failed, fieldsWith('a')), 'same', 'there is nothing to save any more')
  t.equal(phaseOf(after(failed, { is: 'again' }), mine), 'unsaved')
  t.equal(after(failed, { is: 'sent', fields: mine }).failed, null)
})

t.test('of two editors one decides whose draft is kept', async (t) => {
  const mine = fieldsWith('a', 'mine')
  const theirs = drafted(7, 'a', 'theirs')
  const conflict = after(savingOf(drafted(5, 'a')), { is: 'sent', fields: mine }, { is: 'conflict', theirs })
  t.equal(phaseOf(conflict, mine), 'conflict')
  t.same(changedBy(theirs, conflict.known), { name: 'Bob', at: '2026-11-20T11:00:00Z', did: 'saved' })

  const kept = after(conflict, { is: 'mine' })
  t.equal(phaseOf(kept, mine), 'unsaved')
  t.equal(revisionOf(kept), 7, 'it replaces theirs')

  const given = after(conflict, { is: 'known', answer: theirs })
  t.same(keptFields(given.known), fieldsWith('a', 'theirs'))
  t.equal(phaseOf(given, fieldsWith('a', 'theirs')), 'same')
})

t.test('another editor may have published the draft, or removed the route', async (t) => {
  const known = drafted(5, 'a')
  const published = { name: 'Ann', at: '2026-11-20T10:00:00Z', did: 'published' } as const
  t.same(changedBy(PUBLISHED, known), published)
  t.same(changedBy(known, known), published, 'the draft stayed, as with a roll-back')
  t.equal(changedBy({ ...PUBLISHED, published: null }, known).did, 'removed')
  t.same(keptFields({ ...PUBLISHED, published: null }), { workspace: 'acme', entries: [] })
})
