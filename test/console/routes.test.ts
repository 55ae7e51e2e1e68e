import t from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'

let node: ConsoleNode
let operator: Visitor
let admin: Visitor

t.before(async () => {
  node = await startConsoleNode(t)
  operator = await node.signIn(node.keys.operator)
  admin = await node.signIn(node.keys.admin)
})

const ROUTES = '/workspaces/acme/routes'
const entry = (model: string, more: object = {}) => ({ provider: 'acme-own', model, ...more })
const CONFLICT = { status: 409, body: { error: { code: 'CONFLICT', retryable: false } } }

const revisionOf = ({ body }: Told) => (body.draft as { revision: number }).revision
const versionOf = ({ body }: Told) => (body.published as { version: string }).version

async function publish(route: string, ...entries: object[]): Promise<Told> {
  const { draft } = (await admin.get(`${ROUTES}/${route}`)).body as {
    draft: { revision: number } | null | undefined
  }
  const saved = await admin.put(`${ROUTES}/${route}/draft`, {
    fields: { entries },
    revision: draft?.revision ?? null,
  })
  return admin.post(`${ROUTES}/${route}/publish`, { revision: revisionOf(saved) })
}

t.test('a route is drafted, published, changed and rolled back', async (t) => {
  const path = `${ROUTES}/acme.first`
  t.match(await admin.get(path), { status: 404, body: { error: { message: 'there is no such route' } } })
  const drafted = await admin.put(`${path}/draft`, {
    fields: { entries: [entry('morse-1')] },
    revision: null,
  })
  t.match(drafted, {
    status: 200,
    body: {
      name: 'acme.first',
      workspace: 'acme',
      managed_by: 'console',
      published: null,
      draft: {
        saved_by: 'admin',
        issues: [],
        changes: ['entry 1 added: acme-own/morse-1'],
        version: /^pv_[0-9a-f]{16}$/,
      },
    },
  })
  const published = await admin.post(`${path}/publish`, { revision: revisionOf(drafted) })
  t.match(published, { status: 200, body: { published: { number: 1, published_by: 'admin' }, draft: null } })
  t.equal(
    versionOf(published),
    (drafted.body.draft as { version: string }).version,
    'it has the version that was foretold',
  )

  const changed = await publish('acme.first', entry('morse-1-mini'), entry('morse-1'))
  t.match(changed.body, { published: { number: 2 } })
  const kept = await admin.put(`${path}/draft`, { fields: { entries: [] }, revision: null })
  t.match(kept.body.draft, { version: null, changes: [], issues: [/^\/entries: /] }, 'a faulty draft is kept')
  const back = await admin.post(`${path}/rollback`, { number: 1 })
  t.match(back.body, {
    published: { number: 3, version: versionOf(published) },
    draft: { fields: { entries: [] } },
  })

  const { versions } = (await admin.get(`${path}/versions`)).body as { versions: object[] }
  t.match(versions, [
    { number: 3, note: 'rolled back to 1', current: true, version: versionOf(published) },
    { number: 2, note: null, current: false, version: versionOf(changed) },
    { number: 1, current: false, fields: { entries: [entry('morse-1')], workspace: 'acme' } },
  ])
  t.equal((versions[0] as { hash: string }).hash, (versions[2] as { hash: string }).hash)
  t.match((await admin.get(`${path}/versions?below=2`)).body.versions, [{ number: 1 }])
  t.match(await admin.post(`${path}/rollback`, { number: 9 }), {
    status: 404,
    body: { error: { message: 'there is no such version' } },
  })

  const { lines } = (await admin.get('/audit')).body as { lines: { action: string; detail: string | null }[] }
  t.match(lines, [
    { action: 'route.rollback', detail: 'rolled back to 1' },
    { action: 'route.draft' },
    { action: 'route.publish' },
    { action: 'route.draft' },
    { action: 'route.publish' },
    { action: 'route.draft' },
  ])
  const fields = { entries: [entry('morse-1-mini')] }
  const saved = await admin.put(`${path}/draft`, { fields, revision: revisionOf(back) })
  const seen = { revision: revisionOf(saved), number: 2 }
  t.match(await admin.post(`${path}/publish`, seen), { status: 409 }, 'it would undo the roll-back unseen')
  const knowing = await admin.post(`${path}/publish`, { ...seen, number: 3 })
  t.match(knowing, { status: 200, body: { published: { number: 4 }, draft: null } })
  t.match(await admin.post(`${path}/rollback`, { number: 1, replaces: 3 }), { status: 409 })
  t.match(await admin.post(`${path}/rollback`, { number: 1, replaces: 4 }), { status: 200 })
})

t.test('what is published serves, under the version that is shown', async (t) => {
  const key = makeKey()
  await publish('acme.served', entry('morse-1'))
  t.equal((await admin.put('/workspaces/acme/apps/served', { route: 'acme.served' })).status, 200)
  const made = await admin.post('/workspaces/acme/keys', { name: 'served', app: 'served' })
  const authorization = `Bearer ${made.body.key}`
  t.not(hashKey(key), hashKey(String(made.body.key)))
  const call = async () => {
    const headers = { authorization, 'content-type': 'audio/wav' }
    const answer = await fetch(`${node.url}/v1/transcription`, {
      method: 'POST',
      headers,
      body: speak('sos', 600, 12),
    })
    return (await answer.json()) as { policy_version_id?: string; model?: string }
  }
  const first = await admin.get(`${ROUTES}/acme.served`)
  t.match(await call(), { policy_version_id: versionOf(first), model: 'morse-1' })
  const second = await publish('acme.served', entry('morse-1-mini'))
  t.match(
    await call(),
    { policy_version_id: versionOf(second), model: 'morse-1-mini' },
    'at once on the node that published',
  )
  await admin.post(`${ROUTES}/acme.served/rollback`, { number: 1 })
  t.match(await call(), { policy_version_id: versionOf(first), model: 'morse-1' })

  t.match((await admin.get(`${ROUTES}/acme.served`)).body.apps, ['served'])
  t.match(await admin.delete(`${ROUTES}/acme.served`), {
    status: 400,
    issues: ['/workspaces/acme/apps/served/route: there is no route "acme.served"'],
  })
  await admin.delete(`/workspaces/acme/keys/${made.body.id}`)
  await admin.delete('/workspaces/acme/apps/served')
  t.match(await admin.delete(`${ROUTES}/acme.served`), { status: 200, body: { deleted: true } })
  t.equal((await admin.get(`${ROUTES}/acme.served`)).status, 404)
  t.match(
    await admin.post(`${ROUTES}/acme.served/rollback`, { number: 2 }),
    { status: 200, body: { published: { number: 4 } } },
    'what was taken away can be put back',
  )
})

t.test('of two editors one is told that the other was faster', async (t) => {
  const path = `${ROUTES}/acme.shared`
  const second = await node.signIn(node.keys.admin)
  const first = await admin.put(`${path}/draft`, { fields: { entries: [entry('morse-1')] }, revision: null })
  t.match(await second.put(`${path}/draft`, { fields: { entries: [] }, revision: null }), CONFLICT)
  const next = await second.put(`${path}/draft`, {
    fields: { entries: [entry('morse-1-mini')] },
    revision: revisionOf(first),
  })
  t.ok(revisionOf(next) > revisionOf(first))
  t.match(
    await admin.put(`${path}/draft`, { fields: { entries: [] }, revision: revisionOf(first) }),
    CONFLICT,
  )
  t.match(
    await admin.post(`${path}/publish`, { revision: revisionOf(first) }),
    CONFLICT,
    'no one publishes what they have not seen',
  )
  t.match(
    await admin.delete(`${path}/draft?revision=${revisionOf(first)}`),
    CONFLICT,
    'nor does one discard it',
  )
  t.equal((await second.post(`${path}/publish`, { revision: revisionOf(next) })).status, 200)
  t.match(await second.post(`${path}/publish`, { revision: revisionOf(next) }), CONFLICT, 'nor twice')

  const racers = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      admin.put(`${path}/draft`, { fields: { entries: [entry(`morse-${index}`)] }, revision: null }),
    ),
  )
  t.same(racers.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)])
})

t.test('others who publish at the same time hinder no one', async (t) => {
  const names = Array.from({ length: 6 }, (_, index) => `acme.many-${index}`)
  const drafts = await Promise.all(
    names.map((name) =>
      admin.put(`${ROUTES}/${name}/draft`, { fields: { entries: [entry('morse-1')] }, revision: null }),
    ),
  )
  const told = await Promise.all(
    names.map((name, index) =>
      admin.post(`${ROUTES}/${name}/publish`, { revision: revisionOf(drafts[index]!) }),
    ),
  )
  t.same(
    told.map(({ status }) => status),
    names.map(() => 200),
  )
  const { routes } = (await admin.get(ROUTES)).body as { routes: { name: string; in_service: boolean }[] }
  t.same(
    routes.filter(({ name }) => name.includes('many')).map(({ name, in_service }) => [name, in_service]),
    names.map((name) => [name, true]),
  )
})

t.test('a draft is dropped, with a route that never was more', async (t) => {
  const path = `${ROUTES}/acme.dropped`
  await admin.put(`${path}/draft`, { fields: { anything: [1] }, revision: null })
  t.match(await admin.delete(`${path}/draft`), { status: 200, body: { published: null, draft: null } })
  t.match(await admin.delete(`${path}/draft`), { status: 200, body: { published: null, draft: null } })
  t.equal((await admin.get(path)).status, 404)
  await admin.put(`${path}/draft`, { fields: {}, revision: null })
  t.match(await admin.delete(path), { status: 200, body: { deleted: true } })
  t.equal((await admin.delete(path)).status, 404)
})

t.test('names, owners and bodies that are not to be had', async (t) => {
  const put = (name: string, body: unknown = { fields: {}, revision: null }) =>
    admin.put(`${ROUTES}/${name}/draft`, body)
  for (const name of [
    'voice2',
    'other.voice',
    'acme.',
    'acme.a.b',
    'acme.a%20b',
    'acmex.a',
    `acme.${'a'.repeat(60)}`,
    'acme.%E2%82%AC',
  ]) {
    const told = await put(name)
    t.match(told, { status: 400, body: { error: { code: 'INVALID_REQUEST', param: 'route' } } }, name)
  }
  t.match(await put('voice'), { status: 400, issues: [/managed by the configuration file/] })
  t.match(await admin.delete(`${ROUTES}/voice`), {
    status: 400,
    issues: [/managed by the configuration file/],
  })
  const rows: [unknown, string | null][] = [
    [{ fields: { workspace: 'other' }, revision: null }, 'fields.workspace'],
    [{ fields: [], revision: null }, 'fields'],
    [{ fields: {} }, 'revision'],
    [{ fields: {}, revision: '1' }, 'revision'],
    [{ fields: {}, revision: null, note: 'x' }, 'note'],
    [[], null],
    [{ fields: { x: 'a'.repeat(64 * 1024) }, revision: null }, 'fields'],
  ]
  for (const [body, param] of rows) {
    const told = await put('acme.bad', body)
    t.match(told, { status: 400, body: { error: { param } } }, JSON.stringify(body).slice(0, 80))
  }
  const many = await put('acme.many', { fields: { entries: Array(20_000).fill({}) }, revision: null })
  t.match(many, { status: 200, body: { draft: { version: null } } })
  t.ok((many.body.draft as { issues: unknown[] }).issues.length <= 2_000, 'as many issues as are read')
  t.match(await put('acme.bad', { fields: { x: 'a'.repeat(256 * 1024) }, revision: null }), {
    status: 413,
    body: { error: { code: 'REQUEST_TOO_LARGE' } },
  })
  t.match(
    await put('acme.bad', '{"fields":{"__proto__":{"a":1},"entries":[{"__proto__":1}]},"revision":null}'),
    { status: 200, body: { draft: { version: null } } },
  )
  for (const name of ['acme.bad', 'acme.many']) await admin.delete(`${ROUTES}/${name}`)
})

t.test("issues of a draft are its own, and name nothing of others'", async (t) => {
  const fields = {
    colour: 'red',
    entries: [
      { provider: 'other-own', model: 'unheard-of', options: { x: 1 } },
      { provider: 'nobody', model: 'morse-1' },
      entry('morse-1', { purposes: ['nothing'], plans: ['large'] }),
    ],
  }
  const told = await admin.put(`${ROUTES}/acme.faulty/draft`, { fields, revision: null })
  t.same((told.body.draft as { issues: string[] }).issues.toSorted(), [
    '/colour: is not a known key; remove it or correct its spelling',
    '/entries/0/provider: there is no provider "other-own"',
    '/entries/1/provider: there is no provider "nobody"',
    '/entries/2/plans/0: there is no plan "large"',
    '/entries/2/purposes/0: the workspace declares no purpose "nothing"',
  ])
  const refused = await admin.post(`${ROUTES}/acme.faulty/publish`, { revision: revisionOf(told) })
  t.match(refused, { status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
  t.equal(refused.issues.length, 5)
  t.match((await operator.get(`${ROUTES}/acme.faulty`)).body.draft, { issues: [/./] })
  await admin.delete(`${ROUTES}/acme.faulty`)
})

t.test('an admin sets no price, and no pattern, for what others pay or run', async (t) => {
  const price = { per_hour_usd: 0, per_1k_characters_usd: 0 }
  const rows: [object, RegExp][] = [
    [{ provider: 'house', model: 'morse-1', price }, /^\/entries\/0\/price: only an operator/],
    [
      { provider: 'house', model: 'made-up', capabilities: ['audio_input'], price },
      /^\/entries\/0\/capabilities: only an operator/,
    ],
    [
      entry('morse-1', { limits: { voice_pattern: '(a+)+$' } }),
      /^\/entries\/0\/limits\/voice_pattern: only an operator/,
    ],
  ]
  for (const [one, fault] of rows) {
    const saved = await admin.put(`${ROUTES}/acme.cheap/draft`, {
      fields: { entries: [one] },
      revision: null,
    })
    t.match(saved.body.draft, { version: null, issues: [fault] })
    const refused = await admin.post(`${ROUTES}/acme.cheap/publish`, { revision: revisionOf(saved) })
    t.match(refused, { status: 400, issues: [fault] })
    const explained = await admin.post('/workspaces/acme/explain', {
      endpoint: 'speech',
      route: 'acme.cheap',
      fields: { entries: [one] },
    })
    t.match(explained.body, { issues: [fault], entries: [] })
    await admin.delete(`${ROUTES}/acme.cheap/draft`)
  }
  const saved = await operator.put(`${ROUTES}/acme.cheap/draft`, {
    fields: { entries: [rows[0]![0]] },
    revision: null,
  })
  t.equal(
    (await operator.post(`${ROUTES}/acme.cheap/publish`, { revision: revisionOf(saved) })).status,
    200,
    'an operator may',
  )
  t.equal(
    (await publish('acme.cheap', rows[0]![0], entry('morse-1'))).status,
    200,
    'and an admin leaves it as it is',
  )
  t.equal(
    (await publish('acme.cheap', { provider: 'house', model: 'morse-1' })).status,
    200,
    'or takes it away',
  )
  t.equal(
    (await publish('acme.cheap', entry('morse-1', { price: { per_hour_usd: 2 } }))).status,
    200,
    'of its own accounts it may say what it likes',
  )
})
