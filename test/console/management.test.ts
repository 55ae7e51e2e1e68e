import { readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { managementTable } from '../../src/console/server/management.ts'
import { consoleRoutes, managementOperations } from '../../src/console/server/table.ts'
import { newJobId } from '../../src/contracts/ids.ts'
import { emptyConsoleContext } from '../support/console-endpoints.ts'
import { type ConsoleNode, startConsoleNode } from '../support/console-node.ts'

t.setTimeout(120_000)

const OPERATIONS = managementOperations(emptyConsoleContext())

interface Told {
  readonly status: number
  readonly text: string
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

/** @param path below `/v1/admin` */
async function askAs(
  { url }: Pick<ConsoleNode, 'url'>,
  key: string | null,
  method: string,
  path: string,
  body?: unknown,
): Promise<Told> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(`${url}/v1/admin${path}`, {
    method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(text === undefined ? {} : { body: Buffer.from(text) }),
  })
  const answer = await response.text()
  const { status, headers } = response
  return {
    status,
    headers,
    text: answer,
    body: answer === '' ? {} : (JSON.parse(answer) as Record<string, unknown>),
  }
}

const codeOf = ({ body }: Told) => (body.error as { code?: string } | undefined)?.code
const isChange = (method: string) => method !== 'GET'

/** Else the answer would say until when it was looked. */
const LONG_AGO = '&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z'

/** A path of an operation at what there is in the workspace `acme`. */
function realPath(path: string): string {
  const names: Readonly<Record<string, string>> = {
    workspace: 'acme',
    route: 'voice',
    app: 'web',
    purpose: 'notes',
    name: 'acme-own',
    id: 'key_app',
    job: newJobId('tj', 'acme'),
  }
  const real = path.replace('/v1/admin', '').replaceAll(/:(\w+)/g, (_, name: string) => names[name] ?? 'none')
  return ['/v1/admin/audit', '/v1/admin/books', '/v1/admin/log', '/v1/admin/log/:record'].includes(path)
    ? `${real}?workspace=acme${path.includes('/log') ? LONG_AGO : ''}`
    : real
}

let node: ConsoleNode

t.before(async () => {
  node = await startConsoleNode(t)
})

t.test('no endpoint is open to a key of less, of another workspace, or to none', async (t) => {
  const { operator, admin, app, foreignAdmin } = node.keys
  const sight = async () =>
    Promise.all(
      [
        '/workspaces/acme',
        '/workspaces/acme/routes/voice',
        '/workspaces/acme/keys',
        '/workspaces/acme/providers',
      ].map(async (path) => (await askAs(node, operator, 'GET', path)).text),
    )
  const before = await sight()
  t.ok(OPERATIONS.length > 35, `${OPERATIONS.length} operations`)
  for (const { method, path, scope } of OPERATIONS) {
    const name = `${method} ${path}`
    const ask = (key: string | null) =>
      askAs(node, key, method, realPath(path), isChange(method) ? {} : undefined)
    t.equal((await ask(null)).status, 401, `${name}: without a key`)
    const lower = await ask(app)
    t.equal(lower.status, 403, `${name}: a key for calls`)
    t.equal(codeOf(lower), 'PERMISSION_DENIED')
    const foreign = await ask(foreignAdmin)
    if (path === '/v1/admin/workspaces') t.notMatch(foreign.text, /acme/i, 'it lists its own alone')
    else
      t.ok(foreign.status === 404 || foreign.status === 403, `${name}: another workspace: ${foreign.status}`)
    t.notMatch(foreign.text, /acme-own|Acme|voice|key_app/, `${name} tells nothing`)
    if (scope === 'operator') {
      const own = await ask(admin)
      t.equal(own.status, 403, `${name}: an admin`)
    }
  }
  t.same(await sight(), before, 'and nothing was changed')
})

t.test('a session is no key, and a key no session', async (t) => {
  const { cookie, csrf } = await node.signIn(node.keys.admin)
  const headers = { cookie, 'x-lk-csrf': csrf }
  const asked = await fetch(`${node.url}/v1/admin/workspaces/acme`, { headers })
  t.equal(asked.status, 401)
  const other = await node.ask('/workspaces/acme', {
    headers: { authorization: `Bearer ${node.keys.admin}` },
  })
  t.equal(other.status, 401)
})

t.test('both doors say the same, and one changes what the other shows', async (t) => {
  const page = await node.signIn(node.keys.admin)
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.admin, method, path, body)
  const both = async (t: Test, path: string) => {
    const byKey = await ask('GET', path)
    t.equal(byKey.status, 200, path)
    // Up to when records are in the store is told anew each time.
    const lasting = (body: unknown) => ({ ...Object(body), complete_until: null })
    t.same(lasting(byKey.body), lasting((await page.get(path)).body), path)
    t.equal(byKey.headers.get('cache-control'), 'no-store')
    return byKey.body
  }
  const A = '/workspaces/acme'
  for (const { method, path, scope } of OPERATIONS)
    if (method === 'GET' && scope === 'admin' && !/:(job|record)/.test(path)) await both(t, realPath(path))

  const purpose = { description: 'dictated letters', enabled: true }
  for (const turn of ['once', 'again']) {
    const put = await ask('PUT', `${A}/purposes/letters`, purpose)
    t.equal(put.status, 200, turn)
  }
  t.match(await both(t, A), { purposes: [{ purpose: 'letters' }, { purpose: 'notes' }] })

  const fields = { entries: [{ provider: 'acme-own', model: 'morse-1' }] }
  const drafted = await ask('PUT', `${A}/routes/acme.new/draft`, { fields, revision: null })
  t.match(drafted.body, { draft: { issues: [] }, published: null })
  t.equal(
    (await ask('PUT', `${A}/routes/acme.new/draft`, { fields, revision: null })).status,
    409,
    'another draft',
  )
  const explained = await ask('POST', `${A}/explain`, {
    route: 'acme.new',
    endpoint: 'transcription',
    fields,
  })
  t.match(explained.body, { refusal: null, entries: [{ provider: 'acme-own', rank: 1 }] })
  const { revision } = drafted.body.draft as { revision: number }
  t.match((await ask('POST', `${A}/routes/acme.new/publish`, { revision })).body, {
    published: { number: 1 },
  })
  t.match((await page.get(`${A}/routes/acme.new`)).body, { published: { number: 1 }, draft: null })
  const second = { ...fields, strategy: 'weighted' }
  const next = await ask('PUT', `${A}/routes/acme.new/draft`, { fields: second, revision: null })
  const again = (next.body.draft as { revision: number }).revision
  t.equal((await ask('POST', `${A}/routes/acme.new/publish`, { revision: again })).status, 200)
  t.match((await ask('POST', `${A}/routes/acme.new/rollback`, { number: 1 })).body, {
    published: { number: 3 },
  })
  t.ok(Array.isArray((await both(t, `${A}/routes/acme.new/versions`)).versions))

  t.equal((await ask('PUT', `${A}/apps/batch`, { route: 'acme.new' })).status, 200)
  const made = await ask('POST', `${A}/keys`, { name: 'batch', app: 'batch' })
  t.equal(made.status, 201)
  const authorization = `Bearer ${String(made.body.key)}`
  t.equal((await fetch(`${node.url}/v1/me`, { headers: { authorization } })).status, 200)
  t.equal((await ask('DELETE', `${A}/keys/${String(made.body.id)}`)).status, 200)
  t.equal((await ask('DELETE', `${A}/keys/${String(made.body.id)}`)).status, 200, 'again')
  t.equal((await fetch(`${node.url}/v1/me`, { headers: { authorization } })).status, 401)

  const { lines } = (await both(t, '/audit')) as { lines: { action: string; by: object }[] }
  for (const action of [
    'purpose.publish',
    'route.publish',
    'route.rollback',
    'app.publish',
    'key.create',
    'key.revoke',
  ])
    t.match(
      lines.find((line) => line.action === action),
      { by: { via: 'api', key_id: 'key_admin', name: 'admin' } },
      action,
    )
})

t.test('a route is published in one step, as often as it is sent', async (t) => {
  const page = await node.signIn(node.keys.operator)
  const PATH = '/workspaces/acme/routes/acme.put'
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.admin, method, path, body)
  const put = (fields: object, more: object = {}) => ask('PUT', PATH, { fields, ...more })
  const entries = [{ provider: 'acme-own', model: 'morse-1' }]
  const first = { entries }
  const second = { entries, strategy: 'weighted' }
  const third = { entries, strategy: 'lowest_cost' }
  const numbers = async () =>
    ((await ask('GET', `${PATH}/versions`)).body.versions as { number: number }[]).map(({ number }) => number)
  const linesOf = async () =>
    ((await ask('GET', '/audit')).body.lines as { target: string; action: string; detail: string | null }[])
      .filter(({ target }) => target === 'route/acme.put')
      .map(({ action, detail }) => [action, detail])

  for (const turn of ['made', 'as it is'])
    t.match(
      await put(first, { number: null, note: 'from the plan' }),
      {
        status: 200,
        body: {
          published: { number: 1, fields: first, note: 'from the plan', published_by: 'admin' },
          draft: null,
        },
      },
      turn,
    )
  for (const turn of ['replaced', 'its answer was lost'])
    t.match(await put(second, { number: 1 }), { status: 200, body: { published: { number: 2 } } }, turn)
  for (const number of [1, null])
    t.match(
      await put(third, { number }),
      { status: 409, body: { error: { code: 'CONFLICT' } } },
      'an old plan',
    )
  t.same(await numbers(), [2, 1])
  t.same(await linesOf(), [
    ['route.publish', null],
    ['route.publish', 'from the plan'],
  ])

  const { body: drafted } = await page.put(`${PATH}/draft`, { fields: first, revision: null })
  const { revision, saved_at } = drafted.draft as { revision: number; saved_at: string }
  t.match(await put(third), {
    status: 409,
    body: {
      error: { code: 'CONFLICT', details: { draft: { revision, saved_by: 'operator', saved_at: String } } },
    },
  })
  t.match((await put(second)).body, { published: { number: 2 }, draft: { revision } }, 'nothing to do')
  const { body: forced } = await put(third, { force: true })
  t.match(forced, { published: { number: 3, published_by: 'admin' } })
  const kept = { revision, fields: first, saved_by: 'operator', saved_at }
  t.match(forced.draft, kept, 'the draft beside it stays as it is, and whose it is')
  t.match(
    (await put(first)).body,
    { published: { number: 4, fields: first }, draft: null },
    'it was the draft',
  )
  t.same(await numbers(), [4, 3, 2, 1])
})

t.test('a route that is put is held to what a draft is that is published', async (t) => {
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.admin, method, path, body)
  const A = '/workspaces/acme/routes'
  const entry = { provider: 'acme-own', model: 'morse-1' }
  for (const fields of [
    { entries: [] },
    { entries: [{ provider: 'nobody', model: 'm' }] },
    { entries: [{ ...entry, provider: 'other-own' }] },
    { entries: [{ ...entry, limits: { voice_pattern: 'x' } }] },
    { entries: [entry], nothing: 1 },
  ]) {
    const told = await ask('PUT', `${A}/acme.held`, { fields })
    const { body: drafted } = await ask('PUT', `${A}/acme.drafted`, { fields: { entries: [entry] } })
    t.match(drafted, { published: { number: 1 } })
    const draft = await ask('PUT', `${A}/acme.drafted/draft`, { fields, revision: null })
    const { revision } = draft.body.draft as { revision: number }
    const published = await ask('POST', `${A}/acme.drafted/publish`, { revision })
    t.equal(told.status, 400, told.text)
    const issuesOf = ({ body }: Told) =>
      JSON.stringify((body.error as { details?: object }).details).replaceAll('acme.held', 'acme.drafted')
    t.equal(issuesOf(told), issuesOf(published))
    await ask('DELETE', `${A}/acme.drafted/draft`)
  }
  const fields = { entries: [entry] }
  const rows: readonly [path: string, body: object, told: object][] = [
    [
      `${A}/voice`,
      { fields },
      { status: 400, body: { error: { details: { issues: [/managed by the config/] } } } },
    ],
    [`${A}/strange`, { fields }, { status: 400, body: { error: { param: 'route' } } }],
    [`${A}/acme.held`, { fields: { ...fields, workspace: 'other' } }, { status: 400 }],
    [`${A}/acme.held`, { fields, number: 0 }, { status: 400, body: { error: { param: 'number' } } }],
    [`${A}/acme.held`, { fields, note: 'a\nb' }, { status: 400, body: { error: { param: 'note' } } }],
    [`${A}/acme.held`, { fields, number: 1 }, { status: 409 }],
    ['/workspaces/other/routes/other.put', { fields }, { status: 404 }],
  ]
  for (const [path, body, told] of rows) t.match(await ask('PUT', path, body), told, path)
  t.equal((await ask('GET', `${A}/acme.held`)).status, 404, 'nothing was made')
})

t.test('of those who put at the same time one wins, and no draft is lost', async (t) => {
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.admin, method, path, body)
  const PATH = '/workspaces/acme/routes/acme.race'
  const fieldsOf = (weight: number) => ({ entries: [{ provider: 'acme-own', model: 'morse-1', weight }] })
  const many = Array.from({ length: 8 }, (_, number) => number + 1)
  const same = await Promise.all(many.map(() => ask('PUT', PATH, { fields: fieldsOf(1), number: null })))
  t.same(
    same.map(({ status, body }) => [status, (body.published as { number?: number } | undefined)?.number]),
    many.map(() => [200, 1]),
    'the same is one version',
  )
  const others = await Promise.all(
    many.map((number) => ask('PUT', PATH, { fields: fieldsOf(number + 1), number: 1 })),
  )
  t.same(others.map(({ status }) => status).sort(), [200, ...many.slice(1).map(() => 409)])
  for (const turn of many) {
    const fields = fieldsOf(100 + turn)
    const [drafted, put] = await Promise.all([
      ask('PUT', `${PATH}/draft`, { fields, revision: null }),
      ask('PUT', PATH, { fields: fieldsOf(200 + turn) }),
    ])
    t.equal(drafted.status, 200)
    t.ok([200, 409].includes(put.status), put.text)
    t.match((await ask('GET', PATH)).body, { draft: { fields } }, 'the draft is there')
    await ask('DELETE', `${PATH}/draft`)
  }
})

t.test('what only operators may do', async (t) => {
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.operator, method, path, body)
  for (const turn of ['made', 'as it is'])
    t.match(
      await ask('PUT', '/workspaces/newco', { name: 'New', budget_usd_per_month: 10 }),
      { status: 200 },
      turn,
    )
  const rates = { tokens_per_minute: 1_000, audio_seconds_per_minute: 600 }
  for (const [sent, kept] of [
    [{ rate_limit: rates }, rates],
    [{}, rates],
    [{ rate_limit: null }, null],
  ] as const) {
    const told = await ask('PUT', '/workspaces/newco', { name: 'New', budget_usd_per_month: 10, ...sent })
    t.same(told.body.rate_limit, kept, JSON.stringify(sent))
  }
  for (const turn of ['booked', 'once'])
    t.match(
      (await ask('POST', '/workspaces/newco/credits', { amount_usd: 5, grant_id: 'g1' })).body,
      { account: { credits_usd: 5 } },
      turn,
    )
  t.match((await ask('GET', '/workspaces')).body, { workspaces: [{}, {}, {}, {}] })
  t.equal(
    (
      await ask('PUT', '/providers/shared', {
        kind: 'deepgram',
        credential: 'sk-1234567890',
        price: { per_hour_usd: 1 },
      })
    ).status,
    200,
  )
  t.notMatch((await ask('GET', '/providers')).text, /sk-1234567890/)
  t.equal((await ask('DELETE', '/providers/shared')).status, 200)
  t.equal((await ask('DELETE', '/workspaces/newco')).status, 200)
  t.equal((await ask('GET', '/workspaces/newco')).status, 404)
})

t.test('what is sent is held to its shape', async (t) => {
  const ask = (method: string, path: string, body?: unknown) =>
    askAs(node, node.keys.admin, method, path, body)
  const A = '/workspaces/acme'
  const rows: readonly [method: string, path: string, body: unknown, status: number][] = [
    ['GET', `${A}/apps?nothing=1`, undefined, 400],
    ['GET', `${A}/apps?limit=x`, undefined, 400],
    ['PUT', `${A}/purposes/x`, { enabled: 'yes' }, 400],
    ['PUT', `${A}/purposes/x`, { nothing: true }, 400],
    ['PUT', `${A}/purposes/x`, '{"enabled":', 400],
    ['PUT', `${A}/purposes/x`, [], 400],
    ['PUT', `${A}/purposes/x`, JSON.stringify({ description: 'x'.repeat(300_000) }), 413],
    ['PUT', `${A}/routes/other-voice`, { fields: { entries: [] } }, 400],
    ['PUT', `${A}/routes/acme.new`, { fields: {}, revision: 1 }, 400],
    ['PUT', `${A}/routes/other-voice/draft`, { fields: { entries: [] }, revision: null }, 400],
    ['POST', `${A}/keys`, { name: 'x', app: 'web', scopes: ['operator'] }, 403],
    ['PUT', `${A}/webhook`, { url: 'https://10.0.0.1/' }, 400],
    ['GET', '/nothing', undefined, 404],
    ['PATCH', A, {}, 405],
  ]
  for (const [method, path, body, status] of rows) {
    const told = await ask(method, path, body)
    t.equal(told.status, status, `${method} ${path}: ${told.text}`)
    t.match(told.body, { error: { code: String, request_id: String } })
  }
})

t.test('calls to it are none of the workspace', async (t) => {
  await askAs(node, node.keys.admin, 'GET', '/workspaces/acme')
  const page = await node.signIn(node.keys.admin)
  t.match((await page.get('/workspaces/acme/requests')).body, { requests: [] })
})

t.test('every endpoint of the console is managed, or looked at only', async (t) => {
  const served = consoleRoutes(emptyConsoleContext())
    .filter(({ path }) => path.startsWith('/console/api/') && !path.endsWith('*'))
    .map(({ method, path }) => `${method} ${path.replace('/console/api', '')}`)
  const managed = new Set(OPERATIONS.map(({ method, path }) => `${method} ${path.replace('/v1/admin', '')}`))
  const W = '/workspaces/:workspace'
  t.same(
    // A key needs no session.
    served.filter((name) => !managed.has(name) && !/ \/(?:sessions?|sign-in)\b/.test(name)).sort(),
    [
      'GET /endpoints',
      'GET /health',
      'GET /live',
      // The rows of `GET /log`, with what the page shows of them.
      'GET /log-rows',
      'GET /overview',
      'GET /usage',
      `GET ${W}/jobs/:job/result`,
      `GET ${W}/models`,
      `GET ${W}/names`,
      `GET ${W}/requests`,
      `GET ${W}/requests/:id`,
      `GET ${W}/routes/:route/shadow`,
      `GET ${W}/setup`,
      `POST ${W}/live/:session/end`,
      `POST ${W}/playground-key`,
    ].sort(),
  )
})

t.test('the manual has the table', async (t) => {
  const file = new URL('../../docs/management.md', import.meta.url)
  const text = await readFile(file, 'utf8')
  const table = /(?<=<!-- management -->\n\n)[\s\S]*?(?=\n\n<!-- \/management -->)/
  if (process.env.LARKWAY_TEST_WRITE_EXAMPLES === '1')
    await writeFile(
      file,
      text.replace(table, () => managementTable(OPERATIONS)),
    )
  t.equal(table.exec(await readFile(file, 'utf8'))?.[0], managementTable(OPERATIONS))
})
