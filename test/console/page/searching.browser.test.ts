import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { WorkspaceSummary } from '../../../src/console/server/answers/workspaces.ts'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode, type Visitor } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

/** More than are seen at a glance, so that there is something to search. */
const MANY = 12

t.test('a field that searches a list', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  await setUp(await node.signIn(node.keys.admin))
  const { page } = await openTab(await openBrowser(t))
  await signIn(page, `${node.url}/console/acme/keys`, node.keys.admin)
  await t.test('keeps the focus, and stays when it is cleared', (t) => keepsFocus(t, page))
  await t.test('follows the address', (t) => followsAddress(t, page))
  await t.test('says that no app matches', (t) => noneMatches(t, page))
  await t.test('follows the address on the audit log', (t) => followsOnAudit(t, page))
  await t.test('hides no route whose name is taken', (t) => namesTaken(t, page))
})

t.test('workspaces are found among many, page by page', { skip: withoutServers }, async (t) => {
  const node = await startConsoleNode(t)
  const { page } = await openTab(await openBrowser(t))
  const workspaces = Array.from({ length: 120 }, (_, at): WorkspaceSummary => {
    const id = `tenant-${String(at).padStart(3, '0')}`
    return { id, name: at === 60 ? 'Sixty' : id, plan: null, apps: 1, routes: 1, managed_by: 'console' }
  })
  await page.route('**/console/api/workspaces', (route) => route.fulfill({ json: { workspaces } }))
  await signIn(page, `${node.url}/console/workspaces?sort=name`, node.keys.operator)
  const rows = rowsOf(page, 'Workspaces')
  await hasRows(t, rows, 50)
  await page.getByRole('button', { name: 'Next' }).click()
  await page.getByText('51–100 of 120').waitFor(WAIT)
  await page.getByLabel('Search workspaces').fill('sixty')
  await hasRows(t, rows, 1)
  t.match(await rows.first().textContent(), /Sixtytenant-060/)
  await page.getByLabel('Search workspaces').fill('nobody')
  await page.getByText('No matching workspaces').waitFor(WAIT)
})

async function setUp(admin: Visitor): Promise<void> {
  const fields = { entries: [{ provider: 'acme-own', model: 'morse-1' }] }
  const route = '/workspaces/acme/routes/acme.many'
  const { body } = await admin.put(`${route}/draft`, { fields, revision: null })
  await admin.post(`${route}/publish`, { revision: (body.draft as { revision: number }).revision, note: '' })
  for (let at = 0; at < MANY; at += 1) {
    await admin.put(`/workspaces/acme/apps/app-${at}`, { route: 'acme.many' })
    await admin.post('/workspaces/acme/keys', { name: `key-${at}`, app: 'web' })
  }
}

const rowsOf = (page: Page, caption: string) => page.getByRole('table', { name: caption }).locator('tbody tr')

async function hasRows(t: Test, rows: Locator, count: number): Promise<void> {
  t.ok(
    await waitUntil(async () => (await rows.count()) === count),
    `${count} rows, not ${await rows.count()}`,
  )
}

/** The field was not drawn anew: what is typed next goes into it. */
async function keepsFocus(t: Test, page: Page): Promise<void> {
  await heading(page, 'Keys')
  const field = page.getByLabel('Search keys')
  await field.click()
  await page.keyboard.type('key-3')
  await hasRows(t, rowsOf(page, 'Keys'), 1)
  for (let at = 0; at < 'key-3'.length; at += 1) await page.keyboard.press('Backspace')
  await page.waitForURL('**/keys', WAIT)
  await rowsOf(page, 'Keys')
    .nth(MANY - 1)
    .waitFor(WAIT)
  await page.keyboard.type('key-5')
  await hasRows(t, rowsOf(page, 'Keys'), 1)
  t.equal(await field.inputValue(), 'key-5')
}

async function followsAddress(t: Test, page: Page): Promise<void> {
  const field = page.getByLabel('Search keys')
  await page.getByRole('navigation').getByRole('link', { name: 'Keys', exact: true }).click()
  await rowsOf(page, 'Keys')
    .nth(MANY - 1)
    .waitFor(WAIT)
  t.equal(await field.inputValue(), '')
  await page.goBack()
  await hasRows(t, rowsOf(page, 'Keys'), 1)
  t.equal(await field.inputValue(), 'key-5')
}

async function noneMatches(t: Test, page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Apps' }).click()
  await heading(page, 'Apps and purposes')
  const field = page.getByLabel('Search apps')
  await field.click()
  await page.keyboard.type('app-1')
  await hasRows(t, rowsOf(page, 'Apps'), 3)
  await page.keyboard.type('1x')
  await page.getByText('No matching apps').waitFor(WAIT)
  t.equal(await field.inputValue(), 'app-11x')
  t.equal(await rowsOf(page, 'Apps').count(), 0)
}

async function followsOnAudit(t: Test, page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Audit' }).click()
  await heading(page, 'Audit')
  const field = page.getByLabel('Action or target')
  await field.fill('nothing-like-it')
  await page.getByText('No matching changes').waitFor(WAIT)
  await page.getByRole('link', { name: 'Audit' }).click()
  await rowsOf(page, 'Changes, newest first').first().waitFor(WAIT)
  t.equal(await field.inputValue(), '')
}

/** A draft of that name would have been one of the published route. */
async function namesTaken(t: Test, page: Page): Promise<void> {
  const { origin } = new URL(page.url())
  await page.goto(`${origin}/console/acme/routes?q=nothing-like-it`)
  await page.getByText('No matching routes').waitFor(WAIT)
  const drafts: string[] = []
  page.on('request', (request) => {
    if (request.method() === 'PUT') drafts.push(new URL(request.url()).pathname)
  })
  await page.getByRole('button', { name: 'Create route' }).click()
  const form = page.getByRole('dialog', { name: 'Create route' })
  await form.getByLabel('Name').fill('many')
  await form.getByRole('radio').first().check()
  await form.getByRole('button', { name: 'Create draft' }).click()
  await form.getByText('"acme.many" already exists.').waitFor(WAIT)
  t.same(drafts, [])
  await form.getByLabel('Name').fill('free')
  await form.getByRole('button', { name: 'Create draft' }).click()
  await heading(page, 'acme.free')
  t.same(drafts, ['/console/api/workspaces/acme/routes/acme.free/draft'])
}
