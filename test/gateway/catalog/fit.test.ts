import { load } from 'js-yaml'
import t from 'tap'
import type { PublishedRecord } from '../../../src/contracts/catalog-service.ts'
import { recordId } from '../../../src/contracts/catalog-store.ts'
import { NOTHING_SHARED } from '../../../src/gateway/catalog/sharing.ts'
import { fitRecords } from '../../../src/gateway/catalog/try-edits.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { recordOf, routeFields } from './catalog-records.ts'

const FILE: unknown = load(EXAMPLE)

function fit(records: readonly PublishedRecord[], file = FILE) {
  const fitting = fitRecords(file, records, SURROUNDINGS, NOTHING_SHARED)
  if ('issues' in fitting) throw new Error(fitting.issues.join('\n'))
  return { ...fitting, ids: fitting.records.map(recordId) }
}

const WHOLE = [
  recordOf('workspace/beta', 'beta', { plan: 'free' }),
  recordOf('plan/free', null, { includes: ['text', 'audio_input'] }),
  recordOf('purpose/beta/notes', 'beta', {}),
  recordOf('provider/beta.own', 'beta', {
    kind: 'openai-compatible',
    access: 'byok',
    workspace: 'beta',
    base_url: 'http://10.0.0.7/v1',
    capabilities: ['audio_input'],
  }),
  recordOf('route/beta.voice', 'beta', {
    workspace: 'beta',
    entries: [{ provider: 'beta.own', model: 'm', purposes: ['notes'], plans: ['free'] }],
  }),
  recordOf('app/beta/web', 'beta', { route: 'beta.voice', purposes: { notes: 'beta.voice' } }),
  recordOf('route/acme.more', 'acme', routeFields('acme')),
  recordOf('app/acme/mobile', 'acme', { route: 'acme.more' }),
]

t.test('what fits is served, all of it', async (t) => {
  const { good, broken, ids } = fit(WHOLE)
  t.same(ids, WHOLE.map(recordId))
  t.same(broken, [])
  t.equal(
    good.snapshot.apps.get('beta')?.get('web')?.route.entries[0]?.provider.baseUrl,
    'http://10.0.0.7/v1',
  )
  t.ok(good.snapshot.apps.get('acme')?.has('mobile'))
})

t.test('without one record, all that depends on it is left out, and nothing else', async (t) => {
  const rows: readonly [string, readonly string[]][] = [
    ['route/beta.voice', ['app/beta/web']],
    ['provider/beta.own', ['app/beta/web', 'route/beta.voice']],
    [
      'plan/free',
      ['app/beta/web', 'provider/beta.own', 'purpose/beta/notes', 'route/beta.voice', 'workspace/beta'],
    ],
    ['purpose/beta/notes', ['app/beta/web', 'route/beta.voice']],
    ['workspace/beta', ['app/beta/web', 'provider/beta.own', 'purpose/beta/notes', 'route/beta.voice']],
    ['route/acme.more', ['app/acme/mobile']],
    ['app/beta/web', []],
  ]
  for (const [gone, expected] of rows) {
    const records = WHOLE.filter((record) => recordId(record) !== gone)
    const { broken, ids } = fit(records)
    const left = broken.map(({ record }) => recordId(record))
    t.same(left, expected, `without ${gone}`)
    t.same(
      ids,
      records.map(recordId).filter((id) => !expected.includes(id)),
    )
    for (const { issues } of broken) t.match(issues, [/^\/[a-z/0-9_]*: /])
  }
})

t.test('every issue is told of the record that has it', async (t) => {
  const { broken } = fit([
    recordOf('route/acme.bad', 'acme', {
      workspace: 'acme',
      entries: [{ provider: 'gone', model: 'm' }, { provider: 'whisper' }],
    }),
    recordOf('app/acme/mobile', 'acme', { route: 'acme.bad' }),
    recordOf('app/nowhere/web', 'nowhere', { route: 'voice' }),
  ])
  t.same(
    broken.map(({ record, issues }) => [recordId(record), issues]),
    [
      ['app/acme/mobile', ['/route: there is no route "acme.bad"']],
      ['app/nowhere/web', ['/workspace: there is no workspace "nowhere"']],
      [
        'route/acme.bad',
        ['/entries/1/model: is missing', '/entries/0/provider: there is no provider "gone"'],
      ],
    ],
  )
})

t.test('a file that is faulty itself is no matter of the records', async (t) => {
  const fitting = fitRecords({ ...Object(FILE), deadline_seconds: 0 }, WHOLE, SURROUNDINGS, NOTHING_SHARED)
  t.same('issues' in fitting && fitting.issues, ['/deadline_seconds: must be >= 1'])
})
