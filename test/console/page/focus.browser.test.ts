import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, held, openTab, signIn, WAIT } from '../console-page.ts'

t.test('where the focus is after a dialog', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const { page } = await openTab(await openBrowser(t))
  const hasFocus = (selector: string) => page.locator(`${selector}:focus`).waitFor(WAIT)
  await signIn(page, `${node.url}/console/acme/keys`, node.keys.admin)
  await heading(page, 'Keys')
  const create = page.getByRole('button', { name: 'Create key' })
  await create.click()
  const form = page.getByRole('dialog', { name: 'Create key' })
  await form.getByRole('button', { name: 'Create key' }).click()
  await hasFocus('dialog input[aria-invalid=true]')
  await page.keyboard.press('Escape')
  await form.waitFor({ ...WAIT, state: 'detached' })
  // Back where it was.
  await create.and(page.locator(':focus')).waitFor(WAIT)

  await page.getByRole('link', { name: 'Settings' }).click()
  await heading(page, 'Settings')
  await page.getByLabel('Add domains').fill('cdn.example.org')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('button', { name: 'Remove cdn.example.org' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove domain' }).click()
  await hasFocus('h1')
  t.equal(await page.getByRole('dialog').count(), 0, 'what was pressed is gone: the heading has it')

  // The view comes after the reader moved elsewhere.
  const view = await held(page, '**/views/requests/view.ts')
  const palette = await held(page, '**/palette.ts')
  await page.getByRole('link', { name: 'Requests' }).click()
  await view.asked
  const search = page.getByRole('button', { name: 'Search' })
  await search.click()
  await palette.asked
  view.letGo()
  await heading(page, 'Requests')
  await search.and(page.locator(':focus')).waitFor(WAIT)
  palette.letGo()
  await page
    .getByRole('combobox', { name: /Page, route/ })
    .and(page.locator(':focus'))
    .waitFor(WAIT)
  await page.keyboard.press('Escape')
  await search.and(page.locator(':focus')).waitFor(WAIT)
})

t.test(
  'signing out revokes what the playground has made',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    const { page } = await openTab(await openBrowser(t))
    const watcher = await node.signIn(node.keys.admin)
    const inForce = async () => {
      const { keys } = (await watcher.get('/workspaces/acme/keys?playground=true')).body as unknown as {
        keys: readonly { name: string; revoked_at: string | null }[]
      }
      return keys.filter(({ name, revoked_at }) => name === 'playground' && revoked_at === null).length
    }
    await signIn(page, `${node.url}/console/acme/playground?tab=speech`, node.keys.admin)
    await heading(page, 'Playground')
    await page.getByLabel('Text').fill('e')
    await page.getByRole('button', { name: 'Speak' }).click()
    await page.getByRole('button', { name: 'Transcribe this' }).click()
    await page.getByRole('button', { name: 'Transcribe', exact: true }).click()
    await page.locator('.play-transcript').filter({ hasText: 'e' }).waitFor(WAIT)
    t.equal(await inForce(), 1)
    await page.getByRole('button', { name: 'session and theme' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor(WAIT)
    t.equal(await inForce(), 0)
  },
)

t.test(
  'the heading of a view does not take the focus from whoever types already',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    const { page } = await openTab(await openBrowser(t))
    await signIn(page, `${node.url}/console/workspaces`, node.keys.operator)
    await heading(page, 'Workspaces')
    // In the turn in which the field is there.
    await page.evaluate(`void (window.typing = new Promise((resolve) => {
      new MutationObserver((_, observer) => {
        const field = document.querySelector('.setup input')
        if (field === null) return
        observer.disconnect()
        field.focus()
        resolve()
      }).observe(document.body, { childList: true, subtree: true })
    }))`)
    await page.getByRole('link', { name: 'New workspace' }).first().click()
    await page.evaluate('window.typing')
    // The view gives its heading the focus once it has given the tab its title.
    await page.waitForFunction(`document.title.startsWith('New workspace')`)
    await page.keyboard.type('Acme Corp')
    t.equal(await page.getByLabel('ID', { exact: true }).inputValue(), 'acme-corp')
  },
)
