import t, { type Test } from 'tap'
import { openBrowser } from '../support/browser.ts'
import type { ConsoleNode, Told } from '../support/console-node.ts'
import { consoleKeys, openSandbox, startConsoleNode } from '../support/console-node.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { openPerson } from './console-person.ts'
import { draftRoute, makeApp, makeKey, publishRoute, SOON_MS, transcribe } from './console-work.ts'
import { startIssuer, Wanderer } from './oidc-issuer.ts'
import { arrivalOf, CALLBACK, configure, consoleFields, SECRET_ENV, START } from './single-sign-on.ts'

const ROUTES = '/workspaces/acme/routes'
const entry = { provider: 'acme-own', model: 'morse-1' }
const revisionOf = ({ body }: Told) => (body.draft as { revision: number }).revision

async function startTwo(t: Test): Promise<[ConsoleNode, ConsoleNode]> {
  const { url } = await startRedis(t)
  const env = { ...SECRET_ENV, REDIS_URL: url, LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64') }
  const shared = { env, keys: consoleKeys(), sandboxOrigin: await openSandbox(t) }
  return Promise.all([startConsoleNode(t, shared), startConsoleNode(t, shared)])
}

t.test(
  'a session is one on every node, and each sees at once what the other has changed',
  { skip: withoutServers },
  async (t) => {
    const [one, other] = await startTwo(t)
    const here = await one.signIn(one.keys.admin)
    const there = { cookie: here.cookie, 'x-lk-csrf': here.csrf, 'content-type': 'application/json' }
    const askThere = (method: string, path: string, body?: unknown) =>
      other.ask(path, { method, body, headers: there })

    const credential = 'sk-0123456789abcdef'
    t.equal(
      (await here.put('/workspaces/acme/providers/acme.dg', { kind: 'deepgram', credential })).status,
      200,
    )
    t.match((await askThere('GET', '/workspaces/acme/providers')).body.providers, [
      {},
      { name: 'acme.dg', credential: 'stored' },
    ])
    const fields = { entries: [{ provider: 'acme.dg', model: 'nova-3' }] }
    const drafted = await askThere('PUT', `${ROUTES}/acme.voice/draft`, { fields, revision: null })
    t.match(drafted.body.draft, { issues: [] })
    const published = await here.post(`${ROUTES}/acme.voice/publish`, { revision: revisionOf(drafted) })
    t.match(published.body, { published: { number: 1 } })
    t.match((await askThere('PUT', '/workspaces/acme/apps/mobile', { route: 'acme.voice' })).body, {
      apps: [{ id: 'mobile' }, {}],
    })
    t.match(await here.delete(`${ROUTES}/acme.voice`), {
      status: 400,
      issues: [/there is no route "acme.voice"/],
    })

    const made = await here.post('/workspaces/acme/keys', { name: 'new', app: 'mobile', scopes: ['admin'] })
    const newcomer = await one.signIn(String(made.body.key))
    const headers = { cookie: newcomer.cookie }
    t.equal(
      (await other.ask('/session', { headers })).status,
      200,
      'also with a key that is as new as its app',
    )
    const another = await here.post('/workspaces/acme/keys', {
      name: 'newer',
      app: 'mobile',
      scopes: ['admin'],
    })
    t.ok(await other.signIn(String(another.body.key)), 'and signs in where it was not made')

    t.match(await askThere('DELETE', '/session'), { status: 200 })
    t.equal((await here.get('/session')).status, 401)
  },
)

t.test(
  'editors on two nodes do not hinder one another, and nothing invalid comes of it',
  { skip: withoutServers },
  async (t) => {
    const [one, other] = await startTwo(t)
    const editors = await Promise.all([one, other, one, other].map((node) => node.signIn(node.keys.admin)))
    const rounds = Array.from({ length: 3 }, (_, round) => round)
    for (const round of rounds) {
      const told = await Promise.all(
        editors.map(async (editor, index) => {
          const path = `${ROUTES}/acme.r${index}`
          const drafted = await editor.put(`${path}/draft`, {
            fields: { entries: Array(round + 1).fill(entry) },
            revision: null,
          })
          return editor.post(`${path}/publish`, { revision: revisionOf(drafted) })
        }),
      )
      t.same(
        told.map(({ status, text }) => [status, status === 200 ? '' : text]),
        editors.map(() => [200, '']),
      )
    }
    // One takes a route away while the other has an app lead to it: only one of them can.
    const [first, second] = editors
    for (const round of rounds) {
      const path = `${ROUTES}/acme.r${round}`
      const [app, removed] = await Promise.all([
        first!.put('/workspaces/acme/apps/racer', { route: `acme.r${round}` }),
        second!.delete(path),
      ])
      t.same([app.status, removed.status].sort(), [200, 400], `round ${round}`)
      const exists = (await first!.get(path)).status === 200
      t.equal(exists, app.status === 200)
      if (app.status === 200) await first!.delete('/workspaces/acme/apps/racer')
    }
  },
)

t.test(
  'a node whose file does not fit the newest catalog says so, and is told of no conflict that cannot be solved',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const env = { ...SECRET_ENV, REDIS_URL: url, LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64') }
    const shared = { env, keys: consoleKeys(), sandboxOrigin: await openSandbox(t) }
    const [whole, other] = await Promise.all([
      startConsoleNode(t, shared),
      startConsoleNode(t, { ...shared, config: (config) => ({ ...config, plans: {} }) }),
    ])
    const [here, there] = [await whole.signIn(shared.keys.operator), await other.signIn(shared.keys.operator)]
    t.equal((await there.put('/workspaces/fresh', {})).status, 200)
    t.equal((await here.put('/workspaces/fresh', { plan: 'small' })).status, 200)

    const path = '/workspaces/acme/purposes/later'
    t.match(await there.put(path, {}), {
      status: 503,
      body: { error: { code: 'DEPENDENCY_UNAVAILABLE', message: /cannot serve the newest catalog/ } },
    })
    t.equal((await here.put(path, {})).status, 200, 'the other one can')
    t.equal((await here.put('/workspaces/fresh', {})).status, 200)
    t.equal((await there.put('/workspaces/acme/purposes/last', {})).status, 200, 'and this one again')
  },
)

t.test(
  'a sign-in at the issuer continues at any node, once, and its session is one on all',
  { skip: withoutServers },
  async (t) => {
    const [one, other] = await startTwo(t)
    const issuer = await startIssuer(t)
    issuer.register(one.url)
    Object.assign(issuer.people, { ada: { email: 'ada@example.com', groups: ['gateway-operators'] } })
    issuer.person = 'ada'
    // Both are reached under one address, as behind a balancer.
    for (const node of [one, other])
      await configure(node, consoleFields(one.url, issuer), ({ oidc }) => oidc !== null)
    const browser = new Wanderer()
    const callback = await browser.follow(`${one.url}${START}`, CALLBACK)
    const [flow = ''] = browser.names(one.url)
    browser.take(other.url, flow, browser.cookie(one.url, flow) ?? '')
    const there = callback.replace(one.url, other.url)
    t.equal((await browser.visit(there)).headers.get('location'), '/console')
    const ada = arrivalOf(other.url, browser, there)
    const here = { cookie: ada.cookie }
    t.match(await one.ask('/session', { headers: here }), {
      status: 200,
      body: { person: { subject: 'ada' } },
    })
    t.equal((await browser.visit(callback)).headers.get('location'), '/console?sign_in=refused')
    await ada.ask('/session')
    t.equal((await ada.ask('/session', 'DELETE')).status, 200)
    t.equal((await one.ask('/session', { headers: here })).status, 401)
  },
)

t.test(
  'what an admin publishes on one node is served by another',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const [here, there] = await startTwo(t)
    const browser = await openBrowser(t)
    const [admin, other] = [await openPerson(browser, here.url), await openPerson(browser, there.url)]
    for (const person of [admin, other]) {
      await person.signIn(here.keys.admin)
      await person.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      t.match(person.page.url(), '/console/acme/overview')
    }
    t.equal(
      await admin.page.getByRole('navigation').getByText('Platform').count(),
      0,
      'an admin sees no platform',
    )
    await admin.page.goto('/console/workspaces')
    await admin.page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor()

    await draftRoute(admin, { workspace: 'acme', name: 'shared', entry: 'acme-own/morse-1' })
    const version = await publishRoute(admin, 'acme.shared', 'No app yet')
    await makeApp(admin, 'desk', 'acme.shared')
    const { key } = await makeKey(admin, 'two-nodes', 'desk')
    const begunMs = performance.now()
    const isServed = async () => (await transcribe(there, key)).version === version
    t.ok(
      await waitUntil(isServed, SOON_MS),
      `the other node serves it after ${Math.round(performance.now() - begunMs)} ms`,
    )
    await other.go('Routes')
    const row = other.row('Routes', 'acme.shared')
    await row.getByTitle(version).waitFor()
    t.pass('and its page shows it')
    for (const { complaints } of [admin, other]) t.same([...complaints.said, ...complaints.failed], [])
  },
)
