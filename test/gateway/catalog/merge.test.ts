import { load } from 'js-yaml'
import t from 'tap'
import type { PublishedRecord } from '../../../src/contracts/catalog-service.ts'
import { type RecordFields, recordId } from '../../../src/contracts/catalog-store.ts'
import { issueLines } from '../../../src/gateway/catalog/issues.ts'
import { mergeCatalog } from '../../../src/gateway/catalog/merge.ts'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { recordOf, routeFields } from './catalog-records.ts'

const FILE: unknown = Object.freeze(load(EXAMPLE))

function at(value: unknown, path: string): unknown {
  return path
    .split('/')
    .slice(1)
    .reduce((part: unknown, key) => Reflect.get(Object(part), key), value)
}

/** Each kind once under a name of its own, and once under one that the file has. */
const KINDS: readonly {
  readonly added: PublishedRecord
  readonly path: string
  readonly shadowed: PublishedRecord
}[] = [
  {
    added: recordOf('head/head', null, { deadline_seconds: 30 }),
    path: '/deadline_seconds',
    shadowed: recordOf('head/head', null, { audio_url_domains: ['other.example.com'] }),
  },
  {
    added: recordOf('plan/free', null, { includes: ['text'] }),
    path: '/plans/free',
    shadowed: recordOf('plan/pro', null, { includes: ['text'] }),
  },
  {
    added: recordOf('workspace/beta', 'beta', { name: 'Beta' }),
    path: '/workspaces/beta',
    shadowed: recordOf('workspace/acme', 'acme', { name: 'Other' }),
  },
  {
    added: recordOf('purpose/acme/notes', 'acme', { description: 'Notes' }),
    path: '/workspaces/acme/purposes/notes',
    shadowed: recordOf('purpose/acme/dictation', 'acme', { enabled: true }),
  },
  {
    added: recordOf('app/acme/mobile', 'acme', { route: 'voice' }),
    path: '/workspaces/acme/apps/mobile',
    shadowed: recordOf('app/acme/web', 'acme', { route: 'calls' }),
  },
  {
    added: recordOf('provider/acme.own', 'acme', {
      kind: 'openai-compatible',
      access: 'byok',
      workspace: 'acme',
      base_url: 'http://10.0.0.6/v1',
    }),
    path: '/providers/acme.own',
    shadowed: recordOf('provider/whisper', null, { kind: 'openai-compatible', access: 'platform' }),
  },
  {
    added: recordOf('route/acme.notes', 'acme', routeFields('acme')),
    path: '/routes/acme.notes',
    shadowed: recordOf('route/voice', 'acme', routeFields('acme', { strategy: 'weighted' })),
  },
]

t.test('a record of each kind stands where the file would have it, unless the file has one', async (t) => {
  for (const { added, path, shadowed } of KINDS) {
    const merged = mergeCatalog(FILE, [added, shadowed].slice(0, added.name === shadowed.name ? 1 : 2))
    const expected = added.kind === 'head' ? added.fields.deadline_seconds : added.fields
    t.same(at(merged.document, path), expected, path)
    t.ok('snapshot' in buildSnapshot(merged.document, SURROUNDINGS), 'and the whole can be served')
    t.equal(merged.misfits.size, 0)

    const alone = mergeCatalog(FILE, [shadowed])
    t.same(alone.document, FILE, `${recordId(shadowed)} changes nothing`)
    t.same(alone.shadowed, [shadowed])
  }
})

t.test('all together, in whichever order they come', async (t) => {
  const records = KINDS.map(({ added }) => added)
  const inOneOrder = mergeCatalog(FILE, records)
  const inOther = mergeCatalog(FILE, [...records].reverse())
  t.same(inOneOrder.document, inOther.document)
  t.equal(JSON.stringify(inOneOrder.document), JSON.stringify(inOther.document))
  t.same(FILE, load(EXAMPLE), 'the document of the file is as it was')
})

t.test('a workspace of a record has its apps and purposes, those that the file lacks', async (t) => {
  const { document, misfits } = mergeCatalog({ providers: {}, routes: {}, workspaces: {} }, [
    recordOf('app/beta/web', 'beta', { route: 'beta.voice' }),
    recordOf('purpose/beta/notes', 'beta', {}),
    recordOf('workspace/beta', 'beta', { plan: 'pro' }),
  ])
  t.same(document.workspaces, {
    beta: { plan: 'pro', purposes: { notes: {} }, apps: { web: { route: 'beta.voice' } } },
  })
  t.equal(misfits.size, 0)
})

t.test('the head is merged setting by setting', async (t) => {
  const record = recordOf('head/head', null, { audio_url_domains: ['x.example.com'], deadline_seconds: 30 })
  const { document, shadowed, ownerOf } = mergeCatalog(FILE, [record])
  t.match(document, { audio_url_domains: ['cdn.example.com', '*.Media.example.com'], deadline_seconds: 30 })
  t.same(shadowed, [], 'a part of it has an effect')
  t.same(ownerOf(['deadline_seconds']), { record, path: ['deadline_seconds'] })
  t.equal(ownerOf(['audio_url_domains', 0]), null)
})

t.test('a path of the document leads to the record, and on within it', async (t) => {
  const records = KINDS.map(({ added }) => added)
  const { ownerOf } = mergeCatalog(FILE, records)
  const rows: readonly [string, string | null, string][] = [
    ['/limits/max_audio_bytes', null, ''],
    ['/deadline_seconds', 'head/head', '/deadline_seconds'],
    ['/plans/free/includes/0', 'plan/free', '/includes/0'],
    ['/plans/pro', null, ''],
    ['/workspaces/beta/plan', 'workspace/beta', '/plan'],
    ['/workspaces/acme/plan', null, ''],
    ['/workspaces/acme/purposes/notes/enabled', 'purpose/acme/notes', '/enabled'],
    ['/workspaces/acme/purposes/dictation', null, ''],
    ['/workspaces/acme/apps/mobile/route', 'app/acme/mobile', '/route'],
    ['/workspaces/acme/apps/web/route', null, ''],
    ['/providers/acme.own/api_key', 'provider/acme.own', '/api_key'],
    ['/routes/acme.notes/entries/0/model', 'route/acme.notes', '/entries/0/model'],
    ['/routes/acme.notes', 'route/acme.notes', ''],
    ['/routes', null, ''],
    ['', null, ''],
  ]
  for (const [path, id, within] of rows) {
    const owner = ownerOf(path.split('/').slice(1))
    t.equal(owner && recordId(owner.record), id, path)
    if (owner !== null) t.equal(owner.path.map((part) => `/${part}`).join(''), within)
  }
})

t.test('what no document could hold is told of the record, and left out', async (t) => {
  const rows: readonly [string, string | null, RecordFields, string][] = [
    [
      'head/head',
      null,
      { providers: {} },
      '/providers: is not a known key; remove it or correct its spelling',
    ],
    ['workspace/beta', 'beta', { keys: [] }, '/keys: is not a known key; remove it or correct its spelling'],
    ['workspace/beta', 'beta', { apps: {} }, '/apps: is not a known key; remove it or correct its spelling'],
    ['workspace/beta', 'acme', {}, '/: a workspace is its own owner'],
    ['app/gone/web', 'gone', { route: 'voice' }, '/workspace: there is no workspace "gone"'],
    ['purpose/gone/notes', 'gone', {}, '/workspace: there is no workspace "gone"'],
    ['app/constructor/web', 'constructor', {}, '/workspace: there is no workspace "constructor"'],
    ['route/beta.voice', 'beta', routeFields('acme'), '/workspace: must be beta'],
    ['route/beta.voice', 'beta', {}, '/workspace: must be beta'],
    [
      'provider/own',
      null,
      { kind: 'openai', access: 'byok', workspace: 'acme' },
      '/workspace: must not be there',
    ],
    [
      'provider/own',
      null,
      { kind: 'openai', access: 'platform', api_key: 'file:keys/openai' },
      '/api_key: must be an absolute path: every node reads it',
    ],
  ]
  for (const [id, workspace, fields, line] of rows) {
    const record = recordOf(id, workspace, fields)
    const { document, misfits } = mergeCatalog(FILE, [record])
    t.same(
      [...misfits].map(([misfit, issue]) => [misfit, ...issueLines([issue])]),
      [[record, line]],
      id,
    )
    t.same(document, FILE)
  }
})

t.test('a name that means something to JavaScript is a name, or refused as one', async (t) => {
  const good = mergeCatalog(FILE, [recordOf('plan/constructor', null, { includes: [] })])
  t.ok('snapshot' in buildSnapshot(good.document, SURROUNDINGS))
  t.ok(Object.hasOwn(Object(good.document.plans), 'constructor'))

  const bad = mergeCatalog(FILE, [recordOf('plan/__proto__', null, { includes: [] })])
  const reading = buildSnapshot(bad.document, SURROUNDINGS)
  t.match('issues' in reading && reading.issues, [/^\/plans\/__proto__: must be named with 1 to 64 letters/])
  t.equal(Object.getPrototypeOf(bad.document.plans), Object.prototype)
  t.ok(bad.ownerOf(['plans', '__proto__']))
})
