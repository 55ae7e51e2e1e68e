import type { BrowserContextOptions } from 'playwright-core'
import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

const PHONE: BrowserContextOptions = { viewport: { width: 375, height: 812 }, isMobile: true, hasTouch: true }

t.test('signing in, finding the way, and out', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const browser = await openBrowser(t)
  const { page, complaints, asked } = await openTab(browser)

  await page.goto(`${node.url}/console/acme/audit?from=a-link`)
  await page.locator('input[name=key]:focus').waitFor(WAIT)
  await page.keyboard.press('Enter')
  t.match(await page.locator('.field-error').textContent(), 'Enter an API key')
  for (const [key, said] of [
    ['lk_live_wrong', /isn’t valid/],
    [node.keys.app, /scope/],
  ] as const) {
    await page.locator('input[name=key]').fill(key)
    await page.keyboard.press('Enter')
    await page.locator('.field-error').filter({ hasText: said }).waitFor(WAIT)
  }
  await page.locator('input[name=key]').fill(node.keys.admin)
  await page.keyboard.press('Enter')
  await heading(page, 'Audit')
  t.match(page.url(), '/console/acme/audit?from=a-link', 'the link leads on')
  t.equal(await page.getByText('Platform', { exact: true }).count(), 0, 'an admin has no platform')

  await page.getByRole('link', { name: 'Keys' }).click()
  await heading(page, 'Keys')
  await page.locator('h1:focus').waitFor(WAIT)
  await page.goBack()
  await heading(page, 'Audit')

  for (const path of ['workspaces', 'acme/nowhere', 'other/overview']) {
    await page.goto(`${node.url}/console/${path}`)
    await heading(page, 'Page not found')
  }
  await page.locator('.account').click()
  await page.getByText('Dark').click()
  t.equal(
    await page.evaluate('getComputedStyle(document.documentElement).backgroundColor'),
    'rgb(17, 19, 22)',
  )
  await page.reload()
  await heading(page, 'Page not found')
  t.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark', 'the theme is kept')

  await page.locator('.account').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.locator('input[name=key]').waitFor(WAIT)
  await page.goto(`${node.url}/console/acme/overview`)
  await page.locator('input[name=key]').waitFor(WAIT)
  t.same(complaints, [])
  t.same([...asked], [node.url], 'no other origin was asked')
})

t.test('a phone shows every view within its width', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const browser = await openBrowser(t)
  const { page, complaints } = await openTab(browser, PHONE)
  await signIn(page, `${node.url}/console`, node.keys.operator)
  await heading(page, 'Overview')
  t.match(page.url(), '/console/ops/overview', 'the own workspace comes first')

  await page.getByRole('button', { name: 'Open the menu' }).click()
  await page.keyboard.press('Escape')
  const navigation = page.locator('#navigation')
  await navigation.waitFor({ ...WAIT, state: 'hidden' })
  await page.getByRole('button', { name: 'Open the menu' }).click()
  await page.getByRole('combobox', { name: 'Workspace' }).selectOption('acme')
  await page.waitForURL('**/console/acme/overview', WAIT)
  await navigation.waitFor({ ...WAIT, state: 'hidden' })

  const links = (await page
    .locator('#navigation a[href^="/console"]')
    .evaluateAll((all) => all.map((link) => link.getAttribute('href')))) as string[]
  t.equal(links.length, 20)
  for (const link of links) {
    await page.goto(`${node.url}${link}`)
    await page.locator('h1').waitFor(WAIT)
    await page.locator('.skeleton').waitFor({ ...WAIT, state: 'detached' })
    const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    t.equal(over, 0, `${link} is as wide as the phone`)
    t.equal(await page.locator('.error-state').count(), 0, `${link} has no fault`)
  }
  t.same(complaints, [])
})
