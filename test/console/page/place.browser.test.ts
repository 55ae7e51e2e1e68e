import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'
import { setScene } from '../console-scene.ts'

const LOW = { viewport: { width: 1280, height: 320 } }

t.test(
  'the place is kept: scrolled, chosen, and edited',
  { skip: withoutServers, timeout: 180_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    const operator = await setScene(node)
    const browser = await openBrowser(t)
    const { page } = await openTab(browser, LOW)
    const scrolled = async () => Number(await page.evaluate('scrollY'))
    await signIn(page, `${node.url}/console/acme/requests`, node.keys.operator)
    await heading(page, 'Requests')

    await t.test('Back goes to where one was', async (t) => {
      await page.locator('table a').nth(5).waitFor(WAIT)
      await page.evaluate('scrollTo(0, 200)')
      // A row that is half out of sight is scrolled to before it is clicked.
      await page.locator('table a').nth(5).scrollIntoViewIfNeeded()
      const place = await scrolled()
      t.ok(place >= 150, `at ${place}`)
      await page.locator('table a').nth(5).click()
      await page.locator('.page-parent').waitFor(WAIT)
      await waitUntil(async () => (await scrolled()) === 0)
      await page.goBack()
      t.ok(await waitUntil(async () => (await scrolled()) === place), `${place}, at ${await scrolled()}`)
      await page.reload()
      t.ok(await waitUntil(async () => (await scrolled()) === place), 'and so does a reload')
    })

    await t.test('Back finds the list that was loaded, before anything is loaded again', async (t) => {
      const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
      const before = await rows.count()
      await page.locator('table a').first().click()
      await page.locator('.page-parent').waitFor(WAIT)
      await page.route('**/acme/requests?*', (route) => route.abort())
      await page.goBack()
      await page.getByText('Showing the last known data').waitFor(WAIT)
      t.ok((await rows.count()) >= before, 'as many rows as before')
      await page.unroute('**/acme/requests?*')
    })

    await t.test('who is refused for the rate is told when it is tried again, and it is', async (t) => {
      const refusal = {
        status: 429,
        headers: { 'retry-after': '2' },
        json: { error: { code: 'RATE_LIMITED', message: 'too many requests' } },
      }
      let asked = 0
      await page.route('**/acme/requests?*', (route) => {
        asked += 1
        return asked === 1 ? route.fulfill(refusal) : route.continue()
      })
      await page.reload()
      await page.getByText('Too many requests. Retrying in 2 s…').waitFor(WAIT)
      t.equal(asked, 1, 'and not before')
      await page.locator('table a').nth(5).waitFor(WAIT)
      await page.unroute('**/acme/requests?*')
    })

    await t.test('a tab is in the address', async (t) => {
      await page.goto(`${node.url}/console/acme/routes/acme.voice`)
      await page.getByRole('tab', { name: 'History' }).click()
      t.match(page.url(), /\?tab=history$/)
      await page.reload()
      await page.getByRole('tab', { name: 'History', selected: true }).waitFor(WAIT)
      await page.getByRole('tab', { name: 'Entries' }).click()
      t.notMatch(page.url(), 'tab=')
    })

    await t.test('an edit outlives the session, and an hour without a line', async (t) => {
      const sampled = page.getByRole('combobox', { name: 'Strategy' })
      const draftOf = async () => {
        const { draft } = (await operator.get('/workspaces/acme/routes/acme.voice')).body as {
          draft: { fields: { strategy?: string } } | null
        }
        return draft?.fields.strategy ?? 'priority'
      }
      await page.route('**/draft', (route) => route.abort())
      await sampled.selectOption('weighted')
      await page.getByText('Unsaved changes').waitFor(WAIT)
      await page.unroute('**/draft')
      t.ok(
        await waitUntil(async () => (await draftOf()) === 'weighted', 20_000),
        'it is saved once the line is back',
      )

      await page.context().clearCookies()
      await sampled.selectOption('lowest_cost')
      await page.getByText('Your session has expired. Sign in').waitFor(WAIT)
      await page.locator('input[name=key]').fill(node.keys.operator)
      await page.keyboard.press('Enter')
      await page.getByText('Your session has expired. Sign in').waitFor({ ...WAIT, state: 'detached' })
      t.equal(await sampled.inputValue(), 'lowest_cost', 'what was chosen is still there')
      t.ok(await waitUntil(async () => (await draftOf()) === 'lowest_cost', 20_000), 'and is saved')
    })

    await t.test(
      'a view of the platform keeps the workspace, and one that is not there is not shown',
      async (t) => {
        const kept = () => page.evaluate("sessionStorage.getItem('lk-workspace')")
        const isKept = (id: string) => waitUntil(async () => (await kept()) === id)
        const atHand = () => page.getByRole('combobox', { name: 'Workspace' }).inputValue()
        await page.goto(`${node.url}/console/other/overview`)
        await heading(page, 'Overview')
        t.ok(await isKept('other'), 'once it is known to be there')
        await page.goto(`${node.url}/console/audit`)
        await heading(page, 'Audit')
        await page.reload()
        await heading(page, 'Audit')
        t.equal(await atHand(), 'other')
        await page.goto(`${node.url}/console/nowhere/overview`)
        await heading(page, 'Page not found')
        t.same([await atHand(), await kept()], ['other', 'other'])

        await operator.put('/workspaces/gone', {})
        await page.goto(`${node.url}/console/gone/overview`)
        await heading(page, 'Overview')
        t.ok(await isKept('gone'))
        await page.goto(`${node.url}/console/workspaces/gone`)
        await page.getByRole('button', { name: 'Delete workspace' }).click()
        const dialog = page.getByRole('dialog')
        await dialog.getByRole('textbox').fill('gone')
        await dialog.getByRole('button', { name: 'Delete workspace' }).click()
        await heading(page, 'Workspaces')
        t.same([await atHand(), await kept()], ['ops', null], 'what was deleted leads nowhere')
      },
    )
  },
)
