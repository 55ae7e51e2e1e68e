import t from 'tap'
import { newId } from '../../src/contracts/ids.ts'
import { hashKey } from '../../src/gateway/catalog/key.ts'
import type { ConsoleBench, Told } from '../support/console-bench.ts'
import { auditAfter, sameFor, startConsoleBench } from '../support/console-bench.ts'
import { storedKey } from '../support/stored-key.ts'
import { waitUntil } from '../support/wait-until.ts'

const HOUR_MS = 3_600_000
const KEYS = 'workspaces/acme/keys'

type Shown = Readonly<Record<string, unknown>>
const keysIn = ({ body }: Told) => body.keys as readonly Shown[]

/** Status that the API answers a key with. */
async function statusOf({ larkway }: ConsoleBench, key: unknown): Promise<number> {
  const response = await fetch(`${larkway.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  await response.arrayBuffer()
  return response.status
}

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('a key is made, shown once, used, and revoked', async (t) => {
  const bench = await startConsoleBench(t)
  const { admin, operator } = bench.visitors
  const made = await admin.ask('POST', KEYS, {
    name: 'Lobby <script>',
    app: 'back',
    scopes: ['inference', 'inference'],
    rate_limit: { requests_per_minute: 5, burst: 2 },
    budget_usd_per_month: 0.3,
    expires_at: '2096-01-31T00:00:00Z',
  })
  t.equal(made.status, 201)
  const { key, ...rest } = made.body
  t.match(String(key), /^lk_live_/)
  const expected = {
    name: 'Lobby <script>',
    prefix: String(key).slice(0, 12),
    app: 'back',
    scopes: ['inference'],
    rate_limit: { requests_per_minute: 5, burst: 2 },
    budget_usd_per_month: 0.3,
    spent_usd: 0,
    expires_at: '2096-01-31T00:00:00.000Z',
    revoked_at: null,
    last_used_at: null,
    managed_by: 'console',
  }
  t.match(rest, expected)
  t.equal(await statusOf(bench, key), 200, 'this node knows it at once')

  const { id } = rest
  const usedAt = async () => keysIn(await admin.get(KEYS)).find((one) => one.id === id)?.last_used_at
  t.ok(await waitUntil(async () => (await usedAt()) !== null), 'its use is noted')
  const used = await usedAt()
  const listed = await admin.get(KEYS)
  t.match(keysIn(listed), [
    { id: 'key_admin', prefix: null, managed_by: 'file', created_at: null, scopes: ['admin'] },
    { id: 'key_app', managed_by: 'file', rate_limit: { requests_per_minute: 600_000, burst: 10_000 } },
    { id, ...expected, last_used_at: used },
  ])
  t.same(keysIn(await operator.get(KEYS)), keysIn(listed))
  t.notOk(listed.text.includes(String(key)) || listed.text.includes(hashKey(String(key))))

  await bench.state.console.keyUses.note({ [String(id)]: 1_780_000_000_000, key_app: 1_780_000_000_000 })
  const token = newId('call')
  await bench.state.accounts.addUsage({ token, workspace: 'acme', spentMicros: { [String(id)]: 120_001 } })
  t.match(keysIn(await admin.get(KEYS)), [
    { id: 'key_admin', last_used_at: null, spent_usd: 0 },
    { id: 'key_app', last_used_at: '2026-05-28T20:26:40.000Z' },
    { id, last_used_at: used, spent_usd: 0.120001 },
  ])

  const revoked = await admin.ask('DELETE', `${KEYS}/${id}`)
  t.equal(revoked.status, 200)
  t.match(revoked.body, { id, revoked_at: /^20/ })
  t.notOk('key' in revoked.body)
  t.equal(await statusOf(bench, key), 401, 'this node knows it at once')
  t.same(
    (await admin.ask('DELETE', `${KEYS}/${id}`)).body,
    revoked.body,
    'revoking twice keeps the first time',
  )
  t.match(keysIn(await admin.get(KEYS)).at(-1), { id, revoked_at: revoked.body.revoked_at })

  const { lines } = (await admin.get('audit')).body as { lines: Shown[] }
  const by = { via: 'console', key_id: 'key_admin', name: 'key_admin' }
  t.match(lines, [
    {
      action: 'key.revoke',
      target: `key/${id}`,
      workspace: 'acme',
      by,
      before: /^[0-9a-f]{64}$/,
      after: null,
    },
    {
      action: 'key.create',
      target: `key/${id}`,
      workspace: 'acme',
      by,
      before: null,
      after: /^[0-9a-f]{64}$/,
    },
  ])
  t.equal(lines[0]?.before, lines[1]?.after)
  t.equal(lines.length, 2)
})

t.test('a key is changed, and rotated beside the former', async (t) => {
  const { admin, operator } = bench.visitors
  const { body: made } = await admin.ask('POST', KEYS, { name: 'one', app: 'web', budget_usd_per_month: 1 })
  const path = `${KEYS}/${made.id}`
  t.match(made, { former: null, rate_limit_is_default: true })
  const settings = { name: 'two', scopes: ['inference'], rate_limit: { requests_per_minute: 9, burst: 3 } }
  const changed = await admin.ask('PUT', path, settings)
  const kept = { id: made.id, app: 'web', prefix: made.prefix, created_at: made.created_at }
  t.match(changed.body, { ...kept, ...settings, budget_usd_per_month: null, rate_limit_is_default: false })
  t.notOk('key' in changed.body)
  t.equal(await statusOf(bench, made.key), 200, 'the key is the same')

  const token = newId('call')
  const spentMicros = { [String(made.id)]: 120_001 }
  await bench.state.accounts.addUsage({ token, workspace: 'acme', spentMicros })
  const rotated = await admin.ask('POST', `${path}/rotation`, { overlap_seconds: 3600 })
  t.equal(rotated.status, 201)
  t.match(rotated.body, { id: made.id, ...settings, spent_usd: 0.120001, former: { prefix: made.prefix } })
  t.not(rotated.body.key, made.key)
  for (const key of [made.key, rotated.body.key]) t.equal(await statusOf(bench, key), 200)
  const again = await admin.ask('POST', `${path}/rotation`, { overlap_seconds: 1 })
  t.match([again.status, again.body], [409, { error: { code: 'CONFLICT' } }], 'three would be too many')
  t.equal(await statusOf(bench, made.key), 200, 'and nothing was changed')

  const soon = new Date(Date.now() + 60_000).toISOString()
  const ending = await admin.ask('PUT', path, { ...settings, expires_at: soon })
  t.match(
    ending.body,
    { expires_at: soon, former: { prefix: made.prefix, until: soon } },
    'it ends with its key',
  )

  const [stored] = (await bench.state.keys.list()).filter(({ id }) => id === made.id)
  const over = { ...stored!.former!, untilMs: Date.now() - 1 }
  await bench.state.keys.replace({ ...stored!, former: over }, await bench.state.keys.version())
  await waitUntil(async () => (await statusOf(bench, made.key)) === 401)
  t.equal(await statusOf(bench, made.key), 401, 'its time is over')
  t.match(keysIn(await admin.get(KEYS)).at(-1), { id: made.id, former: null })

  const last = await admin.ask('POST', `${path}/rotation`, { overlap_seconds: 0 })
  t.equal(await statusOf(bench, rotated.body.key), 401, 'at once')
  t.equal(await statusOf(bench, last.body.key), 200)
  for (const text of [last.body, rotated.body, made]) {
    const listed = await admin.get(KEYS)
    t.notOk(listed.text.includes(String(text.key)) || listed.text.includes(hashKey(String(text.key))))
  }
  const { lines } = (await admin.get('audit')).body as { lines: Shown[] }
  t.same(
    lines.map(({ action }) => action),
    ['key.rotate', 'key.change', 'key.rotate', 'key.change', 'key.create'],
  )
  t.equal(lines[0]?.detail, `two (${last.body.prefix}…) of the app web`)
  t.match(lines[2]?.detail, new RegExp(`of the app web, beside ${made.prefix}… until 20`))

  await admin.ask('DELETE', path)
  t.equal(await statusOf(bench, last.body.key), 401)
  for (const [method, at, body] of [
    ['PUT', path, settings],
    ['POST', `${path}/rotation`, { overlap_seconds: 0 }],
  ] as const)
    t.match(
      (await admin.ask(method, at, body)).body,
      { error: { code: 'INVALID_REQUEST' } },
      'revoked for good',
    )

  const grant = { name: 'boss', app: 'web', scopes: ['operator'] }
  const { body: boss } = await operator.ask('POST', KEYS, grant)
  const denied = await admin.ask('POST', `${KEYS}/${boss.id}/rotation`, { overlap_seconds: 0 })
  t.match([denied.status, denied.body], [403, { error: { code: 'PERMISSION_DENIED' } }])
  const plain = { name: 'boss', scopes: ['inference'] }
  t.equal((await admin.ask('PUT', `${KEYS}/${boss.id}`, plain)).status, 403)
  t.equal((await admin.ask('PUT', `${KEYS}/key_app`, plain)).status, 400, 'a key of the configuration')
  t.equal((await admin.ask('PUT', `${KEYS}/key_nobody`, plain)).status, 404)
  const raised = await admin.ask('POST', KEYS, { name: 'three', app: 'web' })
  const up = await admin.ask('PUT', `${KEYS}/${raised.body.id}`, { name: 'three', scopes: ['operator'] })
  t.match(up.body, { error: { code: 'PERMISSION_DENIED', param: 'scopes' } })
})

t.test('settings that are left out are those of the configuration', async (t) => {
  const { admin } = bench.visitors
  const unsaid = { scopes: null, rate_limit: null, budget_usd_per_month: null, expires_at: null }
  for (const more of [{}, unsaid]) {
    const { status, body } = await admin.ask('POST', KEYS, { name: 'plain', app: 'web', ...more })
    t.equal(status, 201)
    t.match(body, {
      scopes: ['inference', 'jobs', 'queue'],
      rate_limit: { requests_per_minute: 600_000, burst: 10_000 },
      budget_usd_per_month: null,
      expires_at: null,
    })
  }
  const app = await admin.ask('PUT', 'workspaces/acme/apps/mobile', { route: 'acme' })
  t.equal(app.status, 200, app.text)
  const { body } = await admin.ask('POST', KEYS, { name: 'phone', app: 'mobile' })
  t.equal(body.app, 'mobile', 'an app that was made in the console')
  t.equal(await statusOf(bench, body.key), 200)
  const [stored] = (await bench.state.keys.list()).slice(-1)
  t.equal(stored?.rateLimit, null, 'that of the configuration, also when it changes')
})

t.test('an app goes when it has no key any more', async (t) => {
  const { admin } = bench.visitors
  const APP = 'workspaces/acme/apps/tablet'
  await admin.ask('PUT', APP, { route: 'acme' })
  const over = storedKey({ app: 'tablet', createdAtMs: 1_700_000_000_000, expiresAtMs: 1_700_003_600_000 })
  await bench.state.keys.create(over)
  const { body } = await admin.ask('POST', KEYS, { name: 'phone', app: 'tablet' })
  const held = await admin.ask('DELETE', APP)
  t.equal(held.status, 400)
  t.match(held.text, String(body.id))
  t.notOk(held.text.includes(over.id), 'one that has expired holds nothing')
  await admin.ask('DELETE', `${KEYS}/${body.id}`)
  t.equal((await admin.ask('DELETE', APP)).status, 200)
})

t.test('what cannot be a key', async (t) => {
  const { admin, operator } = bench.visitors
  const known = await bench.state.keys.list()
  const lines = await auditAfter(operator)
  const good = { name: 'one', app: 'web' }
  const refused: readonly (readonly [object, string, string?])[] = [
    [{ app: 'web' }, 'name'],
    [{ ...good, name: '' }, 'name'],
    [{ ...good, name: ' ' }, 'name'],
    [{ ...good, name: 'a\nb' }, 'name'],
    [{ ...good, name: 'x'.repeat(1025) }, 'name'],
    [{ name: 'one' }, 'app'],
    [{ ...good, app: 'nope' }, 'app', '`app` must name an app of the workspace'],
    [{ ...good, scopes: [] }, 'scopes'],
    [{ ...good, scopes: ['root'] }, 'scopes[0]'],
    [{ ...good, rate_limit: { requests_per_minute: 1 } }, 'rate_limit.burst'],
    [{ ...good, rate_limit: { requests_per_minute: 0, burst: 1 } }, 'rate_limit.requests_per_minute'],
    [{ ...good, budget_usd_per_month: -1 }, 'budget_usd_per_month'],
    [{ ...good, budget_usd_per_month: 0.000_000_1 }, 'budget_usd_per_month'],
    [{ ...good, budget_usd_per_month: 2e9 }, 'budget_usd_per_month'],
    [{ ...good, expires_at: 'tomorrow' }, 'expires_at'],
    [{ ...good, expires_at: '2027-02-30T00:00:00Z' }, 'expires_at'],
    [{ ...good, expires_at: '2020-01-01T00:00:00Z' }, 'expires_at', '`expires_at` must be in the future'],
    [{ ...good, workspace: 'other' }, 'workspace'],
    [{ ...good, rateLimit: null }, 'rateLimit'],
  ]
  for (const [body, param, message] of refused) {
    const told = await admin.ask('POST', KEYS, body)
    t.equal(told.status, 400, JSON.stringify(body).slice(0, 80))
    const error = { code: 'INVALID_REQUEST', param, ...(message && { message }) }
    t.match(told.body, { error }, JSON.stringify(body).slice(0, 80))
  }
  const app = await operator.ask('POST', 'workspaces/other/keys', { name: 'one', app: 'back' })
  t.match(app.body, { error: { code: 'INVALID_REQUEST', param: 'app' } }, 'an app of another workspace')

  const grant = { ...good, scopes: ['admin', 'operator'] }
  const denied = await admin.ask('POST', KEYS, grant)
  t.match(denied.body, { error: { code: 'PERMISSION_DENIED', param: 'scopes' } })
  t.same(await bench.state.keys.list(), known, 'nothing was made')
  t.same(await lines(), [], 'and nothing is said to be')
  const granted = await operator.ask('POST', KEYS, grant)
  t.equal(granted.status, 201)
  const visitor = await bench.signIn(String(granted.body.key))
  t.match((await visitor.get('session')).body, { role: 'operator', workspace: 'acme' })
  const path = `${KEYS}/${granted.body.id}`
  const kept = await admin.ask('DELETE', path)
  t.match([kept.status, kept.body], [403, { error: { code: 'PERMISSION_DENIED' } }])
  t.equal((await visitor.get('session')).status, 200, 'it is in force still')
  t.equal((await operator.ask('DELETE', path)).status, 200)
})

t.test('keys of others, and of the file', async (t) => {
  const { admin, foreign, operator } = bench.visitors
  const lines = await auditAfter(admin)
  const theirs = storedKey({ workspace: 'other' })
  await bench.state.keys.create(theirs)
  const unknown = await admin.ask('DELETE', `${KEYS}/key_unknown`)
  t.match(unknown, { status: 404, body: { error: { code: 'NOT_FOUND', message: 'there is no such key' } } })
  for (const id of [theirs.id, 'key_foreign', 'key_operator'])
    t.equal(sameFor(await admin.ask('DELETE', `${KEYS}/${id}`)), sameFor(unknown), id)
  const nowhere = sameFor(await admin.ask('DELETE', `workspaces/nowhere/keys/${theirs.id}`))
  t.equal(sameFor(await admin.ask('DELETE', `workspaces/other/keys/${theirs.id}`)), nowhere)
  t.notMatch((await admin.get(KEYS)).text, theirs.id)
  t.match(keysIn(await foreign.get('workspaces/other/keys')), [{ id: 'key_foreign' }, { id: theirs.id }])

  for (const visitor of [admin, operator]) {
    const ofFile = await visitor.ask('DELETE', `${KEYS}/key_app`)
    t.match(ofFile.body, {
      error: {
        code: 'INVALID_REQUEST',
        message: 'the key is defined in the configuration file: remove it there',
      },
    })
  }
  t.equal(await statusOf(bench, bench.keys.app), 200)
  t.equal((await operator.ask('DELETE', `workspaces/other/keys/${theirs.id}`)).status, 200)
  t.same(await lines(), [], 'what happens elsewhere')
  t.match((await foreign.get('audit')).body, {
    lines: [{ action: 'key.revoke', by: { key_id: 'key_operator' } }],
  })
})

t.test('who revokes the key that is signed in with is signed out, also elsewhere', async (t) => {
  const bench = await startConsoleBench(t)
  const made = await bench.visitors.admin.ask('POST', KEYS, { name: 'second', app: 'web', scopes: ['admin'] })
  const [one, other] = [await bench.signIn(String(made.body.key)), await bench.signIn(String(made.body.key))]
  const revoked = await one.ask('DELETE', `${KEYS}/${made.body.id}`)
  t.equal(revoked.status, 200)
  for (const visitor of [one, other])
    t.match(await visitor.get(KEYS), { status: 401, body: { error: { code: 'UNAUTHENTICATED' } } })
})

t.test('the page has keys of an hour, and not too many', async (t) => {
  const bench = await startConsoleBench(t)
  const { admin, operator } = bench.visitors
  const over = {
    name: 'playground',
    createdAtMs: Date.now() - 2 * HOUR_MS,
    expiresAtMs: Date.now() - HOUR_MS,
  }
  const past = storedKey({ ...over, kind: 'playground' })
  // Of the same name and life, but made by a person.
  const own = storedKey(over)
  const DAY_MS = 24 * HOUR_MS
  const long = storedKey({
    ...over,
    kind: 'playground',
    createdAtMs: over.createdAtMs - DAY_MS,
    expiresAtMs: over.expiresAtMs - DAY_MS,
  })
  for (const key of [past, own, long]) await bench.state.keys.create(key)

  const PLAYGROUND = 'workspaces/acme/playground-key'
  const first = await admin.ask('POST', PLAYGROUND, { app: 'web' })
  t.equal(first.status, 201)
  t.equal(await statusOf(bench, first.body.key), 200)
  const endsMs = Date.parse(String(first.body.expires_at))
  t.ok(endsMs > Date.now() + HOUR_MS - 60_000 && endsMs <= Date.now() + HOUR_MS)
  t.same(
    keysIn(await admin.get(KEYS)).filter(({ id }) => id === first.body.id),
    [],
    'the list leaves it out',
  )
  const listed = keysIn(await admin.get(`${KEYS}?playground=true`))
  const shown = listed.filter(({ managed_by }) => managed_by === 'console')
  t.match(shown, [{ name: 'playground', scopes: ['inference', 'jobs', 'queue'] }, { id: own.id }])
  t.equal(shown.length, 2, 'one that is over is not shown any more')
  const kept = (await bench.state.keys.list()).map(({ id }) => id)
  t.same(
    [past, own, long].map(({ id }) => kept.includes(id)),
    [true, true, false],
    'nor kept after a day',
  )

  const more = await Promise.all(
    Array.from({ length: 19 }, () => operator.ask('POST', PLAYGROUND, { app: 'back' })),
  )
  t.ok(more.every(({ status }) => status === 201))
  const refused = await admin.ask('POST', PLAYGROUND, { app: 'web' })
  t.match(refused, { status: 429, body: { error: { code: 'RATE_LIMITED' } } })
  const waitSeconds = Number(refused.headers.get('retry-after'))
  t.ok(waitSeconds > 3_500 && waitSeconds <= 3_600, `${waitSeconds}`)
  const elsewhere = await operator.ask('POST', 'workspaces/other/playground-key', { app: 'web' })
  t.equal(elsewhere.status, 201, 'another workspace has its own')
  await admin.ask('DELETE', `${KEYS}/${shown[0]?.id}`)
  t.equal((await admin.ask('POST', PLAYGROUND, { app: 'web' })).status, 201)

  const unknown = await admin.ask('POST', PLAYGROUND, { app: 'none' })
  t.match(unknown, { status: 400, body: { error: { param: 'app' } } })
  const lines = (await admin.get('audit')).body.lines as readonly Shown[]
  t.same(lines, [], 'and so does the audit list')
  const all = (await admin.get('audit?playground=true')).body.lines as readonly Shown[]
  t.equal(all.filter(({ action }) => action === 'playground_key.create').length, 21)
  t.equal(all.filter(({ action }) => action === 'playground_key.revoke').length, 1)
})
