import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import t from 'tap'
import { openBrowser } from '../support/browser.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { openSession } from '../support/console-session.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { axeFaults } from '../support/page-checks.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { openPerson } from './console-person.ts'
import { clipboardOf } from './console-work.ts'

const run = promisify(execFile)

/** From signing in to the answer. */
const CLICKS_MAX = 10

/** Counts what a mouse does, whatever the test calls it. */
async function countClicks(page: Page): Promise<() => Promise<number>> {
  await page.addInitScript(`addEventListener('pointerdown', () => {
    sessionStorage.setItem('clicks', String(Number(sessionStorage.getItem('clicks') ?? 0) + 1))
  }, true)`)
  await page.reload()
  return async () => Number(await page.evaluate("sessionStorage.getItem('clicks')"))
}

t.test(
  'a newcomer comes from signing in to an answer in at most 10 clicks',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const larkway = await startLarkway(t)
    const browser = await openBrowser(t)
    const operator = await openPerson(browser, larkway.url)
    const { page } = operator
    const clicks = await countClicks(page)
    await operator.signIn(larkway.key)
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await operator.go('Workspaces')
    await page.getByRole('link', { name: 'New workspace' }).click()
    await page.getByLabel('Name', { exact: true }).pressSequentially('Acme Corp')
    t.equal(await page.getByLabel('ID', { exact: true }).inputValue(), 'acme-corp', 'the id follows the name')
    for (const step of ['Create workspace', 'Use the sandbox', 'Publish route', 'Create key']) {
      const button = page.getByRole('button', { name: step })
      await button.waitFor()
      t.same(await axeFaults(page), [], `axe: before ${step}`)
      await button.click()
    }
    await page.getByText('Waiting for the first request').waitFor()
    t.same(await axeFaults(page), [], 'axe: with the command')
    await page.getByRole('button', { name: 'Copy curl' }).click()
    const count = await clicks()
    t.comment(`${count} clicks, the sign-in and the copying among them`)
    t.ok(count >= 8, `${count} clicks are counted`)
    t.ok(count <= CLICKS_MAX, `${count} clicks`)

    const command = await clipboardOf(page)
    const folder = await tempFolder(t)
    const answered = async () => {
      const { stdout } = await run('bash', ['-c', command], { cwd: folder }).catch(() => ({ stdout: '' }))
      return stdout.includes('"content":"hello world"')
    }
    t.ok(await waitUntil(answered, 20_000), `the command works as it is printed: ${command}`)
    await page.getByText('Request received').waitFor()
    t.match(await page.getByText('acme-corp.sandbox/morse-1').first().textContent(), /morse-1/)
    await page.getByRole('button', { name: 'Send it from here' }).click()
    await page.getByText('"content": "hello world"').waitFor()

    await page.getByRole('link', { name: 'Go to the overview' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    t.equal(await page.getByText('Get started').count(), 0, 'and the overview does not begin again')
    t.same(operator.complaints.said, [])
  },
)

t.test(
  'a base URL goes with its provider type alone',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const larkway = await startLarkway(t)
    const ask = await signedIn(larkway)
    t.equal((await ask('/console/api/workspaces/fresh', 'PUT', {})).status, 200)
    const { page, signIn } = await openPerson(await openBrowser(t), larkway.url)
    await signIn(larkway.key)
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.goto('/console/fresh/setup')
    const sent: unknown[] = []
    await page.route('**/providers/fresh.*', async (route) => {
      sent.push(route.request().postDataJSON())
      await route.fulfill({
        status: 503,
        json: { error: { code: 'INTERNAL', message: 'no more is needed' } },
      })
    })
    const type = page.getByRole('combobox', { name: 'Provider type' })
    for (const address of ['http://127.0.0.1:9/v1', 'no address']) {
      await type.selectOption('openai-compatible')
      await page.getByLabel('Base URL').fill(address)
      await type.selectOption('openai')
      await page.getByLabel('API key', { exact: true }).fill('sk-of-openai')
      const answered = page.waitForResponse('**/providers/fresh.*')
      await page.getByRole('button', { name: 'Connect' }).click()
      await answered
      t.same(sent.pop(), { kind: 'openai', credential: 'sk-of-openai' }, address)
    }
  },
)

t.test('what is set up is known, also when no request is kept', async (t) => {
  const node = await startConsoleNode(t)
  const operator = await node.signIn(node.keys.operator)
  const setup = async (workspace: string) => (await operator.get(`/workspaces/${workspace}/setup`)).body
  t.match(await setup('acme'), {
    providers: ['acme-own', 'house'],
    route: { name: 'voice', entry: 'acme-own/morse-1', kind: 'sandbox' },
    app: 'web',
    keys: 2,
    called: false,
  })
  const send = (path: string, init: RequestInit) =>
    fetch(node.url + path, { ...init, headers: { authorization: `Bearer ${node.keys.app}` } })
  await send('/v1/chat', { method: 'POST', body: '{}' })
  t.ok(await waitUntil(async () => (await setup('acme')).called === true, 10_000), 'a request was sent')
  t.match(await operator.put('/workspaces/fresh', {}), { status: 200 })
  t.same(await setup('fresh'), { providers: ['house'], route: null, app: null, keys: 0, called: false })
  const admin = await node.signIn(node.keys.admin)
  t.match(await admin.get('/workspaces/other/setup'), { status: 404 }, 'and is no business of others')
})

t.test('a sandbox without an address is there again after a restart', async (t) => {
  const dataFolder = join(await tempFolder(t), 'data')
  const first = await startLarkway(t, { dataFolder })
  const check = await signedIn(first)
  const provider = '/console/api/workspaces/demo/providers/demo.own'
  t.equal((await check(provider, 'PUT', { kind: 'sandbox' })).status, 200)
  t.match(await (await check(`${provider}/check`, 'POST', {})).json(), { ok: true })
  await first.signal('SIGINT')
  const second = await startLarkway(t, { dataFolder, key: first.key })
  const again = await signedIn(second)
  t.match(await (await again(`${provider}/check`, 'POST', {})).json(), { ok: true })
})

async function signedIn({ url, key }: Larkway) {
  const { cookie, csrf } = await openSession(url, key)
  const headers = { cookie, origin: url, 'x-lk-csrf': csrf, 'content-type': 'application/json' }
  return (path: string, method: string, body: object) =>
    fetch(url + path, { method, headers, body: JSON.stringify(body) })
}

t.test('what the playground reads for itself is in no list of requests', async (t) => {
  const node = await startConsoleNode(t)
  const admin = await node.signIn(node.keys.admin)
  const { body } = await admin.post('/workspaces/acme/playground-key', { app: 'web' })
  const me = (key: string) => fetch(`${node.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  t.equal((await me(String(body.key))).status, 200)
  t.equal((await me(node.keys.app)).status, 200)
  const seen = async () =>
    (await admin.get('/workspaces/acme/requests?all=true')).body.requests as readonly { key_id: string }[]
  t.ok(await waitUntil(async () => (await seen()).length > 0, 10_000))
  t.same(
    (await seen()).map(({ key_id: key }) => key),
    ['key_app'],
    'of two, only the one that was sent',
  )
})
