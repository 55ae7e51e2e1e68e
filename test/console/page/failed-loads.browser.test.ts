import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { type ConsoleNode, startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

const AWAY = {
  status: 503,
  json: { error: { code: 'DEPENDENCY_UNAVAILABLE', message: 'the state does not answer' } },
}
const ENTRY = { provider: 'acme-own', model: 'morse-1' }

t.test('what could not be loaded is named', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const admin = await node.signIn(node.keys.admin)
  const route = '/workspaces/acme/routes/acme.chat'
  const { body } = await admin.put(`${route}/draft`, { fields: { entries: [ENTRY] }, revision: null })
  await admin.post(`${route}/publish`, { revision: (body.draft as { revision: number }).revision, note: '' })
  const { page } = await openTab(await openBrowser(t))
  await page.route('**/audio-url-domains', (route) => route.fulfill(AWAY))
  await signIn(page, `${node.url}/console/acme/settings`, node.keys.admin)
  await page.getByText('The allowed audio domains couldn’t be loaded').waitFor(WAIT)
  await t.test('a comparison that fails when it is made again', (t) => compareAgain(t, page, node))
  await t.test('for how long a breaker has been open', (t) => openBreaker(t, page, node))
})

async function compareAgain(t: Test, page: Page, node: ConsoleNode): Promise<void> {
  await page.goto(`${node.url}/console/acme/routes/acme.chat`)
  await heading(page, 'acme.chat')
  const strategy = page.getByRole('combobox', { name: 'Strategy' })
  await strategy.selectOption('weighted')
  await page.getByRole('button', { name: 'Compare with live' }).click()
  const line = page.getByText('No recorded requests to compare with yet.')
  await line.waitFor(WAIT)
  await strategy.selectOption('lowest_latency')
  await page.route('**/impact', (route) => route.fulfill(AWAY))
  await page.getByRole('button', { name: 'Compare again' }).click()
  await page.getByText('Not compared: the state does not answer').waitFor(WAIT)
  t.equal(await line.count(), 1, 'what was known stays')
  await page.unroute('**/impact')
  await page.getByRole('button', { name: 'Compare again' }).click()
  await page.getByText('Not compared').waitFor({ ...WAIT, state: 'detached' })
}

async function openBreaker(t: Test, page: Page, node: ConsoleNode): Promise<void> {
  await page.route('**/console/api/health?*', async (route) => {
    const answer = await route.fetch()
    const since = new Date(Date.now() - 200_000).toISOString()
    const breaker = { ...ENTRY, route: 'acme.chat', state: 'open', since, last_error: null }
    await route.fulfill({ response: answer, json: { ...(await answer.json()), breakers: [breaker] } })
  })
  await page.goto(`${node.url}/console/acme/routes`)
  const row = page.getByRole('row').filter({ hasText: 'acme.chat' })
  await row.getByText('breaker open').waitFor(WAIT)
  t.match(await row.textContent(), /breaker open for 3 min/)
}
