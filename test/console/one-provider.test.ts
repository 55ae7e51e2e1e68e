import t from 'tap'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'

let node: ConsoleNode
let operator: Visitor
let admin: Visitor

t.before(async () => {
  node = await startConsoleNode(t, {
    config: (config) => ({
      ...config,
      routes: {
        ...(config.routes as object),
        both: {
          workspace: 'acme',
          entries: [
            { provider: 'house', model: 'morse-1' },
            { provider: 'house', model: 'morse-1', purposes: ['notes'] },
            { provider: 'acme-own', model: 'morse-1' },
          ],
        },
        hidden: { workspace: 'acme', published: false, entries: [{ provider: 'house', model: 'morse-1' }] },
      },
    }),
  })
  operator = await node.signIn(node.keys.operator)
  admin = await node.signIn(node.keys.admin)
})

const without = ({ text, status, headers }: Told) =>
  `${status} ${text.replaceAll(headers.get('x-lk-request-id') ?? '-', 'ID')}`
const routesIn = ({ body }: Told) =>
  (body.used_by as readonly { workspace: string; route: string }[]).map(
    (one) => `${one.workspace}/${one.route}`,
  )

t.test(
  'a workspace sees its own providers and those of the platform, and its own routes alone',
  async (t) => {
    const own = await admin.get('/workspaces/acme/providers/acme-own')
    t.same(own.body, {
      name: 'acme-own',
      kind: 'sandbox',
      access: 'byok',
      workspace: 'acme',
      credential: 'none',
      managed_by: 'file',
      used_by: [
        { workspace: 'acme', route: 'both', models: ['morse-1'], others: 2, apps: [] },
        { workspace: 'acme', route: 'voice', models: ['morse-1'], others: 0, apps: ['web'] },
      ],
      used_by_total: 2,
    })
    const shared = await admin.get('/workspaces/acme/providers/house')
    t.match(shared.body, { access: 'platform', workspace: null, credential: null, managed_by: null })
    t.same(routesIn(shared), ['acme/both'], 'not those of others, and none without an app')
    t.notMatch(shared.text, /ops|base_url/)
  },
)

t.test('another workspace and its providers do not exist', async (t) => {
  const unknown = await admin.get('/workspaces/acme/providers/nothing')
  t.equal(unknown.status, 404)
  t.equal(without(await admin.get('/workspaces/acme/providers/other-own')), without(unknown))
  t.equal(
    without(await admin.get('/workspaces/other/providers/other-own')),
    without(await admin.get('/workspaces/nowhere/providers/other-own')),
  )
  t.equal((await admin.get('/providers/house')).status, 403)
  t.equal((await admin.get('/providers/nothing')).status, 403)
})

t.test('an operator sees every one, with the routes of all', async (t) => {
  t.same(routesIn(await operator.get('/providers/house')), ['acme/both', 'ops/ops-voice'])
  t.match((await operator.get('/providers/other-own')).body, { workspace: 'other', credential: 'none' })
  t.equal((await operator.get('/providers/nothing')).status, 404)
  t.match((await operator.get('/workspaces/acme/providers/house')).body, { credential: 'none' })
  const byKey = await fetch(`${node.url}/v1/admin/workspaces/acme/providers/acme-own`, {
    headers: { authorization: `Bearer ${node.keys.admin}` },
  })
  t.same(await byKey.json(), (await admin.get('/workspaces/acme/providers/acme-own')).body)
})

t.test('what was saved and does not fit is found, too', async (t) => {
  const put = await admin.put('/workspaces/acme/providers/acme.dg', { kind: 'deepgram', credential: 'k' })
  t.equal(put.status, 200)
  const made = await operator.get('/providers/acme.dg')
  t.match(made.body, { credential: 'stored', managed_by: 'console', used_by: [], used_by_total: 0 })
  t.notMatch(made.text, /sealed/)
})
