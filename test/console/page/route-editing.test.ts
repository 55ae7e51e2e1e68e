import t from 'tap'
import {
  type Edit,
  type Editing,
  edited,
  editingOf,
  readIssues,
  routeFields,
  saysTheSame,
} from '../../../src/console/page/views/routes/editing.ts'
import type { RouteFields } from '../../../src/gateway/catalog/file.ts'

const ROUTE: RouteFields = {
  workspace: 'acme',
  strategy: 'weighted',
  entries: [
    { provider: 'openai', model: 'whisper-1', weight: 2 },
    { provider: 'eleven', model: 'scribe_v2', retry_empty: true },
  ],
}

function after(...edits: readonly Edit[]): Editing {
  return edits.reduce(edited, editingOf(ROUTE))
}

const keysOf = ({ entries }: Editing) => entries.map(({ key }) => key)

t.test('a route that is loaded and saved says what it said', async (t) => {
  t.same(routeFields(after()), ROUTE)
  const facts = { price: { per_hour_usd: 1 }, limits: { max_audio_seconds: 60 }, options: { a: [1] } }
  const odd: RouteFields = { ...ROUTE, entries: [{ provider: 'p', model: 'm', ...facts }] }
  t.same(routeFields(editingOf(odd)), odd, 'what the page has no field for is kept')
})

t.test('what is the default is not written', async (t) => {
  const fields = routeFields(
    after({ do: 'strategy', strategy: 'priority' }, { do: 'published', published: true }),
  )
  t.same(Object.keys(fields).sort(), ['entries', 'workspace'])
  t.same(routeFields(after({ do: 'published', published: false })).published, false)
  const batch = { do: 'live_fallback', liveFallback: 'batch' } as const
  t.same(routeFields(after(batch)).live_fallback, 'batch')
  t.same(routeFields(after(batch, { ...batch, liveFallback: 'none' })), ROUTE)
})

t.test('a shadow is set, changed in what the page has fields for, and taken away', async (t) => {
  const shadow = {
    entry: { provider: 'dg', model: 'nova-3' },
    share: 0.05,
    references: { ttl_seconds: 60 },
  } as const
  const set = after({ do: 'shadow', shadow })
  t.same(routeFields(set), { ...ROUTE, shadow })
  t.same(routeFields(edited(set, { do: 'shadow', shadow: undefined })), ROUTE)
  t.notOk(saysTheSame(routeFields(set), ROUTE))
  const more = edited(set, { do: 'shadow', shadow: { ...shadow, share: 1 } })
  t.same(routeFields(more).shadow, { ...shadow, share: 1 }, 'the rest of it stays')
  const { fields } = readIssues(['/routes/main/shadow/entry/model: must be given'], 'main')
  t.match(fields.get('shadow'), [/must be given/])
})

t.test('entries are added, moved, changed and removed by keys that stay theirs', async (t) => {
  const editing = after(
    { do: 'add', entry: { provider: 'dg', model: 'nova-3' } },
    { do: 'move', from: 2, to: 0 },
    { do: 'set', key: 0, change: { weight: undefined, profile: 'fast' } },
    { do: 'remove', key: 1 },
  )
  t.same(keysOf(editing), [2, 0])
  t.same(routeFields(editing).entries, [
    { provider: 'dg', model: 'nova-3' },
    { provider: 'openai', model: 'whisper-1', profile: 'fast' },
  ])
  const again = edited(editing, { do: 'add', entry: { provider: 'p', model: 'm' } })
  t.same(keysOf(again), [2, 0, 3], 'a key is never given twice')
})

t.test('an edit that changes nothing answers the same object', async (t) => {
  const editing = after()
  for (const edit of [
    { do: 'strategy', strategy: 'weighted' },
    { do: 'published', published: true },
    { do: 'live_fallback', liveFallback: 'none' },
    { do: 'move', from: 1, to: 1 },
    { do: 'move', from: 9, to: 0 },
  ] as const)
    t.equal(edited(editing, edit), editing, JSON.stringify(edit))
})

t.test('text that is no JSON is remembered until the field can be read', async (t) => {
  const broken = after({ do: 'unread', key: 1, field: 'options', why: 'is no JSON' })
  t.same(broken.entries[1]?.unread, { options: 'is no JSON' })
  t.same(routeFields(broken), ROUTE, 'what was there before stays')
  const mended = edited(broken, { do: 'set', key: 1, change: { options: { a: 1 } } })
  t.same(mended.entries[1]?.unread, {})
  t.same(mended.entries[1]?.fields.options, { a: 1 })
})

t.test('of another version that is loaded, entries that stay what they were keep their keys', async (t) => {
  const [first, second] = ROUTE.entries
  const load = (...entries: RouteFields['entries']) => {
    const loaded = edited(after(), { do: 'load', fields: { workspace: 'acme', entries } })
    return { loaded, keys: keysOf(loaded) }
  }
  t.same(load(first!, second!).keys, [0, 1])
  t.same(load(first!).keys, [0])
  t.same(load(first!, { ...second!, weight: 3 }).keys, [0, 3], 'a field of it must not show what it was')
  t.same(load(second!, first!).keys, [2, 3])
  const { loaded } = load(second!)
  t.equal(loaded.strategy, 'priority')
  t.same(keysOf(edited(loaded, { do: 'add', entry: { provider: 'p', model: 'm' } })), [2, 3])
  const broken = after({ do: 'unread', key: 0, field: 'options', why: 'is no JSON' })
  const mended = edited(broken, { do: 'load', fields: ROUTE })
  t.same(keysOf(mended), [2, 1], 'what was typed and could not be read is gone')
  t.same(mended.entries[0]?.unread, {})
})

t.test('routes say the same however they are written', async (t) => {
  const [first, second] = ROUTE.entries
  const reversed = {
    entries: ROUTE.entries,
    strategy: 'weighted',
    workspace: 'acme',
    published: true,
  } as const
  t.ok(saysTheSame(ROUTE, reversed))
  t.notOk(saysTheSame(ROUTE, { ...ROUTE, entries: [second!, first!] }))
  t.ok(saysTheSame(ROUTE, { ...ROUTE, live_fallback: 'none' }))
  t.notOk(saysTheSame(ROUTE, { ...ROUTE, published: false }))
  t.notOk(saysTheSame(ROUTE, { ...ROUTE, live_fallback: 'batch' }))
})
