import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { type ConsoleNode, startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

interface Tabs {
  readonly node: ConsoleNode
  readonly first: Page
  readonly second: Page
  readonly context: BrowserContext
}

const enterKey = async (page: Page, key: string) => {
  await page.getByLabel('API key').fill(key)
  await page.keyboard.press('Enter')
  await overlay(page).waitFor({ ...WAIT, state: 'detached' })
}
const overlay = (page: Page) => page.getByRole('dialog', { name: 'Sign in' })
const refresh = (page: Page) => page.getByRole('button', { name: 'Refresh' })
/** A browser without a screen never hides a tab. */
const look = (page: Page) => page.evaluate('document.dispatchEvent(new Event("visibilitychange"))')

/** The session ends, and both tabs are told so. */
async function expire({ context, first, second }: Tabs): Promise<void> {
  await context.clearCookies()
  for (const page of [first, second]) {
    await refresh(page).click()
    await overlay(page).waitFor(WAIT)
  }
}

t.test('a session ends, and another begins', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const { page: first } = await openTab(await openBrowser(t))
  const context = first.context()
  await signIn(first, `${node.url}/console/acme/audit`, node.keys.admin)
  await heading(first, 'Audit')
  const second = await context.newPage()
  await second.goto(first.url())
  await heading(second, 'Audit')
  const tabs: Tabs = { node, first, second, context }
  await t.test('in two tabs, both of which can change things afterwards', (t) => inBoth(t, tabs))
  await t.test('in another tab, and this one continues once it is seen', (t) => inAnother(t, tabs))
  await t.test('as another person, and this one is over', (t) => forAnother(t, tabs))
  await t.test('signing out asks first where something is not saved', (t) => unsaved(t, tabs))
})

async function inBoth(t: Test, tabs: Tabs): Promise<void> {
  const { node, first, second } = tabs
  await expire(tabs)
  for (const page of [first, second]) {
    await enterKey(page, node.keys.admin)
    await refresh(page).and(page.locator(':focus')).waitFor(WAIT)
    t.equal(await page.title(), 'Audit · Larkway')
  }
  await createKey(first)
  await first.getByText('lk_live_').first().waitFor(WAIT)
  t.equal(await first.getByRole('alert').count(), 0)
  await first.goto(second.url())
  await heading(first, 'Audit')
}

async function createKey(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('button', { name: 'Create key' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name').fill('mine')
  await form.getByLabel('App').selectOption('web')
  await form.getByRole('button', { name: 'Create key' }).click()
}

async function inAnother(t: Test, tabs: Tabs): Promise<void> {
  const { node, first, second } = tabs
  await expire(tabs)
  await enterKey(second, node.keys.admin)
  await look(first)
  await overlay(first).waitFor({ ...WAIT, state: 'detached' })
  t.equal(await first.title(), 'Audit · Larkway')
}

async function forAnother(t: Test, { node, first, second }: Tabs): Promise<void> {
  await second.getByRole('button', { name: 'session and theme' }).click()
  await second.getByRole('button', { name: 'Sign out' }).click()
  await enterKey(second, node.keys.operator)
  await heading(second, 'Overview')
  await createKey(first)
  await overlay(first).waitFor(WAIT)
  const answer = first.waitForResponse('**/console/api/session')
  await look(first)
  t.equal((await answer).status(), 200)
  t.equal(await overlay(first).count(), 1, 'it is not the session of whom the page is for')
}

async function unsaved(t: Test, { node, second }: Tabs): Promise<void> {
  const operator = await node.signIn(node.keys.operator)
  const fields = { workspace: 'acme', entries: [{ provider: 'acme-own', model: 'morse-1' }] }
  await operator.put('/workspaces/acme/routes/acme.mine/draft', { revision: null, fields })
  await second.goto(`${node.url}/console/acme/routes/acme.mine`)
  await second.route('**/routes/acme.mine/draft', (route) => route.abort())
  await second.getByLabel('Strategy').selectOption('weighted')
  await second.getByText('Unsaved changes.').waitFor(WAIT)

  const asked: string[] = []
  let answers = false
  second.on('dialog', async (dialog) => {
    asked.push(dialog.message())
    await (answers ? dialog.accept() : dialog.dismiss())
  })
  const ended: string[] = []
  second.on('request', (request) => {
    if (request.method() === 'DELETE') ended.push(request.url())
  })
  const leave = async () => {
    await second.getByRole('button', { name: 'session and theme' }).click()
    await second.getByRole('button', { name: 'Sign out' }).click()
  }
  await leave()
  t.same(asked, ['You have unsaved changes. Leave anyway?'])
  t.equal(await second.getByLabel('Strategy').inputValue(), 'weighted')
  t.same(ended, [], 'the session continues')
  await second.keyboard.press('Escape')
  answers = true
  await leave()
  await second.getByLabel('API key').waitFor(WAIT)
  t.equal(asked.length, 2, 'it is asked once')
  t.match(second.url(), /\/console$/)
}
