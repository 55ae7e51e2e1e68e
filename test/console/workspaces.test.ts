import t from 'tap'
import type { ConsoleContext } from '../../src/console/server/context.ts'
import { consoleRoutes } from '../../src/console/server/table.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

let node: ConsoleNode
let operator: Visitor
let admin: Visitor

t.before(async () => {
  node = await startConsoleNode(t)
  operator = await node.signIn(node.keys.operator)
  admin = await node.signIn(node.keys.admin)
})

const withoutId = ({ status, text }: Told) => `${status} ${text.replace(/req_\w+/, 'req')}`
const NOT_FOUND = {
  status: 404,
  body: { error: { code: 'NOT_FOUND', message: 'there is no such workspace' } },
}

interface Line {
  readonly action: string
  readonly target: string
  readonly before: string | null
  readonly after: string | null
  readonly workspace: string | null
}
const auditOf = async (workspace: string) =>
  ((await operator.get('/audit')).body.lines as Line[]).filter((line) => line.workspace === workspace)

t.test('an operator sees every workspace, an admin its own', async (t) => {
  const ids = ({ body }: Told) => (body.workspaces as { id: string }[]).map(({ id }) => id)
  t.same(ids(await operator.get('/workspaces')), ['acme', 'ops', 'other'])
  const own = await admin.get('/workspaces')
  t.same(own.body.workspaces, [
    { id: 'acme', name: 'Acme', plan: null, managed_by: 'file', apps: 1, routes: 1 },
  ])
  const acme = await admin.get('/workspaces/acme')
  t.match(acme.body, {
    id: 'acme',
    name: 'Acme',
    plans: [],
    managed_by: 'file',
    account: { credits_usd: 5 },
    content_shown: false,
    purposes: [{ purpose: 'notes', description: 'taking notes', enabled: true, managed_by: 'file' }],
    apps: [{ id: 'web', fields: { route: 'voice' }, managed_by: 'file' }],
  })
  t.same((await operator.get('/workspaces/acme')).body.plans, ['small'], 'an operator may choose a plan')
})

const FOREIGN: readonly [method: string, path: string, body?: unknown][] = [
  ['GET', ''],
  ['PUT', '', { name: 'mine now' }],
  ['PUT', '', 'no JSON'],
  ['DELETE', ''],
  ['PUT', '/content', { shown: true }],
  ['POST', '/credits', { amount_usd: 1, grant_id: 'a' }],
  ['PUT', '/purposes/x', { description: 'x' }],
  ['DELETE', '/purposes/x'],
  ['PUT', '/apps/x', { route: 'other-voice' }],
  ['DELETE', '/apps/web'],
  ['GET', '/routes'],
  ['GET', '/routes/other-voice'],
  ['DELETE', '/routes/other-voice'],
  ['PUT', '/routes/other-voice/draft', { fields: {}, revision: null }],
  ['DELETE', '/routes/other-voice/draft'],
  ['POST', '/routes/other-voice/publish', { revision: 1 }],
  ['GET', '/routes/other-voice/versions'],
  ['POST', '/routes/other-voice/rollback', { number: 1 }],
  ['POST', '/explain', { endpoint: 'speech', route: 'other-voice' }],
  ['GET', '/models'],
  ['GET', '/providers'],
  ['PUT', '/providers/other-own', { kind: 'sandbox' }],
  ['DELETE', '/providers/other-own'],
  ['POST', '/providers/other-own/check', {}],
]

t.test("another's workspace is not there for an admin, whatever is asked of it and how", async (t) => {
  for (const [method, path, body] of FOREIGN) {
    const answers = new Set<string>()
    for (const workspace of ['other', 'nobody', '../gateway/api', '%00', 'acme%20', 'ACME', '__proto__']) {
      const told = await admin.ask(`/workspaces/${workspace}${path}`, { method, body })
      if (workspace !== '../gateway/api') t.match(told, NOT_FOUND, `${method} ${workspace}${path}`)
      if (workspace !== '../gateway/api') answers.add(withoutId(told))
      const bare = await admin.ask(`/workspaces/${workspace}${path}`, {
        method,
        body,
        headers: { 'x-lk-csrf': undefined },
      })
      if (workspace !== '../gateway/api') answers.add(withoutId(bare))
    }
    t.equal(answers.size, 1, `${method} ${path}: the same bytes for all`)
  }
  const names = ((await operator.get('/workspaces/other')).body.apps as { id: string }[]).map(({ id }) => id)
  t.same(names, ['web'], 'nothing of it was changed')
})

// Also those that are yet to come: the order in which an endpoint looks at things is the binder's.
t.test('no endpoint below a workspace tells one that is there from one that is not', async (t) => {
  // No request goes through them.
  const desk = {
    deps: { services: { state: {} }, jobs: {} },
    clock: new VirtualClock(),
  } as unknown as ConsoleContext
  const below = consoleRoutes(desk).filter(({ path }) => path.includes('/:workspace'))
  t.ok(below.length > 40)
  for (const { method, path } of below) {
    const answers = new Set<string>()
    for (const workspace of ['other', 'nobody']) {
      const place = path
        .replace('/console/api', '')
        .replace(':workspace', workspace)
        .replaceAll(/:\w+/g, 'web')
      for (const body of method === 'GET' ? [undefined] : [undefined, {}, '{', 'a'.repeat(300_000)]) {
        const told = await admin.ask(place, { method, body })
        t.equal(told.status, 404, `${method} ${place}`)
        answers.add(withoutId(told))
      }
    }
    t.equal(answers.size, 1, `${method} ${path}`)
  }
})

t.test(
  'what is for operators is refused to an admin of the workspace, before the body is looked at',
  async (t) => {
    const rows: [string, string, unknown][] = [
      ['PUT', '/workspaces/acme', 'no JSON'],
      ['DELETE', '/workspaces/acme', undefined],
      ['POST', '/workspaces/acme/credits', {}],
      ['GET', '/providers', undefined],
      ['PUT', '/providers/house', 'no JSON'],
      ['DELETE', '/providers/house', undefined],
      ['POST', '/providers/house/check', undefined],
    ]
    for (const [method, path, body] of rows) {
      const told = await admin.ask(path, { method, body })
      t.match(told, { status: 403, body: { error: { code: 'PERMISSION_DENIED' } } }, `${method} ${path}`)
    }
  },
)

t.test('an operator makes a workspace, changes it and takes it away', async (t) => {
  const end_users = { hash: true, rate_limit: { requests_per_minute: 3 } }
  const made = await operator.put('/workspaces/neu', {
    end_users,
    name: 'Neu',
    plan: 'small',
    budget_usd_per_month: 4.5,
    trial: { allowance_usd: 2, expires_at: '2090-01-01T00:00:00Z' },
  })
  t.match(made, {
    status: 200,
    body: { id: 'neu', name: 'Neu', plan: 'small', managed_by: 'console', budget_usd_per_month: 4.5 },
  })
  t.match(made.body, { account: { trial_allowance_usd: 2 }, end_users })
  const misspelled = { end_users: { budget: 1 } }
  t.equal((await operator.put('/workspaces/neu', misspelled)).status, 400)
  const changed = await operator.put('/workspaces/neu', { plan: null })
  t.match(
    changed.body,
    { name: 'neu', plan: null, budget_usd_per_month: null, end_users: null },
    'what is left out is taken away',
  )
  t.match(changed.body, { account: { trial_allowance_usd: null } })

  t.equal((await operator.put('/workspaces/neu/purposes/letters', { description: 'x' })).status, 200)
  const refused = await operator.delete('/workspaces/neu')
  t.match(refused, { status: 400, issues: ['the workspace still has the purpose "letters"'] })
  t.equal((await operator.delete('/workspaces/neu/purposes/letters')).status, 200)
  t.match(await operator.delete('/workspaces/neu'), { status: 200, body: { deleted: true } })
  t.match(await operator.get('/workspaces/neu'), NOT_FOUND)
  t.match(await operator.delete('/workspaces/neu'), NOT_FOUND)

  const lines = await auditOf('neu')
  const actions = lines.map(({ action }) => action)
  t.same(actions, [
    'workspace.remove',
    'purpose.remove',
    'purpose.publish',
    'workspace.publish',
    'workspace.publish',
  ])
  const [, , , second, first] = lines
  t.match(first, { target: 'workspace/neu', before: null, after: /^[0-9a-f]{64}$/ })
  t.equal(second?.before, first?.after)
  t.match(lines[0], { before: second?.after, after: null })
})

t.test('a workspace that is made again has no settings of the one before', async (t) => {
  const path = '/workspaces/again'
  const make = async () => {
    const made = await operator.put(path, { name: 'Again' })
    const domains = await operator.get(`${path}/audio-url-domains`)
    const webhook = await operator.get(`${path}/webhook`)
    return [made.body.content_shown, domains.body.domains, webhook.body]
  }
  const fresh = await make()
  t.match(fresh, [false, []])
  await operator.put(`${path}/content`, { shown: true })
  await operator.put(`${path}/audio-url-domains`, { domains: ['first.example.com'] })
  const webhook = await operator.put(`${path}/webhook`, { url: 'https://first.example.com/jobs' })
  t.equal(webhook.status, 200)
  t.equal((await operator.delete(path)).status, 200)
  t.same(await make(), fresh)
  t.equal((await operator.delete(path)).status, 200)
})

t.test('a workspace that is not as documented is not made', async (t) => {
  const rows: [string, unknown, RegExp][] = [
    ['neu', { plan: 'large' }, /there is no plan "large"/],
    ['neu', { plan: 7 }, /plan/],
    ['neu', { nam: 'x' }, /^`nam` is not a field of this request$/],
    ['neu', { keys: [] }, /^`keys` is not a field of this request$/],
    ['neu', { budget_usd_per_month: -1 }, /budget_usd_per_month/],
    ['neu', { trial: { allowance_usd: 1 } }, /trial/],
    ['-x', {}, /1 to 40/],
    ['a'.repeat(41), {}, /1 to 40/],
    ['a%20b', {}, /1 to 40/],
    ['acme', { name: 'x' }, /managed by the configuration file/],
  ]
  for (const [id, body, message] of rows) {
    const told = await operator.put(`/workspaces/${id}`, body)
    t.equal(told.status, 400, id)
    t.match((told.body.error as { message: string }).message, message)
  }
  t.match(await operator.delete('/workspaces/acme'), {
    status: 400,
    issues: [/managed by the configuration file/],
  })
})

t.test('purposes and apps are added to a workspace of the file, and name what prevents them', async (t) => {
  const purpose = await admin.put('/workspaces/acme/purposes/letters', {
    description: 'writing',
    enabled: false,
  })
  t.match(purpose.body.purposes, [
    { purpose: 'letters', description: 'writing', enabled: false, managed_by: 'console' },
    { purpose: 'notes' },
  ])
  const app = await admin.put('/workspaces/acme/apps/mobile', {
    route: 'voice',
    purposes: { letters: 'voice' },
  })
  t.match(app, {
    status: 200,
    body: {
      apps: [
        { id: 'mobile', fields: { route: 'voice', purposes: { letters: 'voice' } }, managed_by: 'console' },
        { id: 'web' },
      ],
    },
  })

  t.match(await admin.delete('/workspaces/acme/purposes/letters'), {
    status: 400,
    issues: ['/workspaces/acme/apps/mobile/purposes/letters: the workspace declares no such purpose'],
  })
  const key = await admin.post('/workspaces/acme/keys', { name: 'phone', app: 'mobile' })
  t.equal(key.status, 201)
  t.match(await admin.delete('/workspaces/acme/apps/mobile'), {
    status: 400,
    issues: [/^the key "phone" \(key_\w+\) belongs to it: revoke it first$/],
  })
  t.equal((await admin.delete(`/workspaces/acme/keys/${key.body.id}`)).status, 200)
  t.equal((await admin.delete('/workspaces/acme/apps/mobile')).status, 200)
  t.equal((await admin.delete('/workspaces/acme/purposes/letters')).status, 200)
  t.match(await admin.delete('/workspaces/acme/purposes/letters'), {
    status: 404,
    body: { error: { message: 'there is no such purpose' } },
  })
  t.match(await admin.delete('/workspaces/acme/apps/mobile'), {
    status: 404,
    body: { error: { message: 'there is no such app' } },
  })
  for (const path of ['purposes/notes', 'apps/web'])
    t.match(
      await admin.delete(`/workspaces/acme/${path}`),
      { status: 400, issues: [/managed by the configuration file/] },
      path,
    )
})

t.test('a workspace reads back all that a purpose and an app were given', async (t) => {
  const fields = {
    description: 'doctors',
    enabled: true,
    require: { region: ['eu', 'ch'], retention: { days: 3 }, training: 'never' },
  }
  const purposesOf = ({ body }: Told) => (body.purposes as { purpose: string }[]).slice(0, 1)
  const saved = await admin.put('/workspaces/acme/purposes/health', fields)
  const read = { purpose: 'health', ...fields, managed_by: 'console' }
  t.same(purposesOf(saved), [read])
  t.same(purposesOf(await admin.get('/workspaces/acme')), [read])
  const bound = { route: 'voice', capability_routes: { text: 'voice' }, purposes: { health: 'voice' } }
  const app = { ...bound, limits: { max_audio_bytes: 1_000 } }
  const apps = (await admin.put('/workspaces/acme/apps/clinic', app)).body.apps as { fields: object }[]
  t.same(apps[0]?.fields, app)

  const without = await admin.put('/workspaces/acme/purposes/health', { description: 'doctors' })
  t.same(purposesOf(without), [
    { purpose: 'health', description: 'doctors', enabled: true, managed_by: 'console' },
  ])
  for (const path of ['apps/clinic', 'purposes/health'])
    t.equal((await admin.delete(`/workspaces/acme/${path}`)).status, 200)
})

t.test("issues tell an admin nothing of what is others'", async (t) => {
  const app = (route: string) => admin.put('/workspaces/acme/apps/spy', { route })
  for (const route of ['other-voice', 'ops-voice', 'nothing']) {
    t.same((await app(route)).issues, [`/route: there is no route "${route}"`])
  }
  t.match((await operator.put('/workspaces/acme/apps/spy', { route: 'other-voice' })).issues, [
    /belongs to another workspace/,
  ])
  t.match((await admin.put('/workspaces/acme/apps/%20', { route: 'voice' })).issues, [
    /must be named with 1 to 64 letters/,
  ])
  t.equal((await admin.put('/workspaces/acme/apps/spy', { route: 'voice', model: 'x' })).status, 400)
})

t.test('content is shown when an admin of the workspace says so, and credits are booked once', async (t) => {
  t.match((await admin.put('/workspaces/acme/content', { shown: true })).body, { content_shown: true })
  t.match((await admin.put('/workspaces/acme/content', { shown: false })).body, { content_shown: false })
  for (const _ of [1, 2]) {
    const told = await operator.post('/workspaces/acme/credits', { amount_usd: 2.5, grant_id: 'gift' })
    t.match(told, { status: 200, body: { account: { credits_usd: 7.5 } } })
  }
})

t.test('where the platform has promised otherwise, only an operator has content shown', async (t) => {
  const promised = { console: { content_switch: 'operator' } }
  const own = await startConsoleNode(t, { config: (config) => ({ ...config, ...promised }) })
  const [admin, operator] = [await own.signIn(own.keys.admin), await own.signIn(own.keys.operator)]
  const refused = await admin.put('/workspaces/acme/content', { shown: true })
  t.match(refused, { status: 403, body: { error: { code: 'PERMISSION_DENIED' } } })
  t.match((await operator.put('/workspaces/acme/content', { shown: true })).body, { content_shown: true })
  t.match((await admin.put('/workspaces/acme/content', { shown: false })).body, { content_shown: false })
})

t.test('no name holds what turns a text around', async (t) => {
  const own = await startConsoleNode(t)
  const operator = await own.signIn(own.keys.operator)
  for (const unseen of ['\u202e', '\u2066', '\u200f', '\u0007']) {
    const name = `acme${unseen}nimda`
    const workspace = await operator.put('/workspaces/turned', { name })
    t.match(workspace, { status: 400, body: { error: { param: 'name' } } })
    const key = await operator.post('/workspaces/acme/keys', { name, app: 'web' })
    t.match(key, { status: 400, body: { error: { param: 'name' } } })
  }
  t.equal(
    (await operator.put('/workspaces/turned', { name: 'أكمي' })).status,
    200,
    'letters may run either way',
  )
})
