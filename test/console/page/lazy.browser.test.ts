import type { Browser } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { type ConsoleNode, startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, held, openTab, signIn, WAIT } from '../console-page.ts'
import { setScene } from '../console-scene.ts'

t.test('parts of the page', { skip: withoutServers, timeout: 240_000 }, async (t) => {
  const node = await startConsoleNode(t)
  await setScene(node)
  const browser = await openBrowser(t)
  await t.test('are loaded when they are opened, and say when they cannot be', (t) =>
    whenOpened(t, node, browser),
  )
  await t.test('a view while the session is asked for, and charts while their data are', () =>
    aheadOfData(node, browser),
  )
})

async function whenOpened(t: Test, node: ConsoleNode, browser: Browser): Promise<void> {
  const { page } = await openTab(browser)
  const loaded: string[] = []
  page.on('request', (request) => void loaded.push(new URL(request.url()).pathname))
  const timesLoaded = (name: string) => loaded.filter((path) => path.endsWith(`/${name}`)).length
  await signIn(page, `${node.url}/console/acme/routes/acme.voice`, node.keys.admin)
  await heading(page, 'acme.voice')
  const entry = page.getByRole('article', { name: 'Entry 1' })
  const settings = entry.getByRole('button', { name: 'Settings' })
  const pinned = entry.getByLabel('Pinned')
  await settings.waitFor(WAIT)
  for (const name of ['entry-form.ts', 'history.ts', 'route-list.ts', 'keys/view.ts'])
    t.equal(timesLoaded(name), 0, `${name} is not asked for before it is opened`)

  await settings.click()
  await pinned.waitFor(WAIT)
  await settings.click()
  await pinned.waitFor({ ...WAIT, state: 'detached' })
  await settings.click()
  t.ok(await pinned.isVisible(), 'what was opened before is there at once')
  t.equal(timesLoaded('entry-form.ts'), 1)

  await page.route('**/{routes/history,keys/view}.ts', (route) => route.abort())
  await page.getByRole('tab', { name: 'History' }).click()
  const failed = page.getByRole('alert')
  await failed.filter({ hasText: 'The history couldn’t be loaded' }).waitFor(WAIT)
  await page.getByRole('link', { name: 'Keys' }).click()
  await failed.filter({ hasText: 'The page "Keys" couldn’t be loaded' }).waitFor(WAIT)
  t.match(await failed.textContent(), /Can’t reach the server/)

  await page.unroute('**/{routes/history,keys/view}.ts')
  await failed.getByRole('button', { name: 'Try again' }).click()
  await heading(page, 'Keys')
  t.equal(await failed.count(), 0)
}

async function aheadOfData(node: ConsoleNode, browser: Browser): Promise<void> {
  const { page } = await openTab(browser)
  await signIn(page, `${node.url}/console/acme/sessions`, node.keys.admin)
  await heading(page, 'Sessions')
  const session = await held(page, '**/console/api/session')
  const figures = await held(page, '**/console/api/overview?**')
  const [view, plot] = ['overview/view.ts', 'vendor/uplot.js'].map((name) =>
    page.waitForRequest(`**/${name}`, WAIT),
  )
  await page.goto(`${node.url}/console/acme/overview`)
  await Promise.all([session.asked, view])
  session.letGo()
  await Promise.all([figures.asked, plot])
  figures.letGo()
  await page.locator('.chart-place canvas').first().waitFor(WAIT)
}
