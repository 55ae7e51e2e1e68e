import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { axeFaults, overflowOf } from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { openPerson } from '../console-person.ts'
import { setScene } from '../console-scene.ts'

/** Nodes write down what they saw every 5 s, and pages ask for it as often. */
const SEEN = { timeout: 30_000 }
const PHONE = { width: 375, height: 812 }

t.test(
  'which provider fails, since when, and whom it hits: seen at once, told in full by one click',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    await setScene(node)
    const { page, complaints, signIn, go } = await openPerson(await openBrowser(t), node.url)
    const clicks: string[] = []
    await page.exposeFunction('clicked', (text: string) => void clicks.push(text))
    await page.evaluate(
      "addEventListener('click', ({ target }) => clicked(target.textContent.slice(0, 40)), true)",
    )
    await signIn(node.keys.operator)
    await go('Overview')
    clicks.length = 0

    await page.getByRole('navigation').getByRole('link', { name: 'Overview', exact: true }).last().click()
    await page.getByRole('heading', { level: 1, name: 'Platform overview' }).waitFor()
    const trouble = page.getByRole('region', { name: 'Provider problems' })
    await trouble.getByText(/Affects \d/).waitFor(SEEN)
    const seen = (await trouble.textContent()) ?? ''
    t.match(seen, /acme\.weak is (down|degraded)/, 'which')
    t.match(seen, /since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/, 'since when')
    t.match(seen, /\d+(\.\d)? % of \d+ calls? failed in 5 minutes/)
    t.match(seen, /Last error: .*(500|503)/, 'in words')
    t.match(
      seen,
      /Affects 2 routes \(acme\.broken, acme\.voice\) and 2 apps \(acme\/lab, acme\/phone\)/,
      'whom',
    )
    t.match(seen, /No fallback: acme\.broken/)
    t.equal(clicks.length, 1, 'the answer is one view away')
    t.same(await axeFaults(page), [])

    await trouble.getByRole('link', { name: 'acme.weak' }).click()
    await page.getByRole('heading', { level: 1, name: 'acme.weak' }).waitFor()
    const main = page.getByRole('main')
    const used = main.getByRole('table', { name: 'Used by' })
    await used.waitFor(SEEN)
    t.match(await main.textContent(), /(Down|Degraded) since \d{4}-/)
    t.match(await used.textContent(), /acme\.broken.*lab.*none.*acme\.voice.*phone.*1 other entry/)
    t.match(await main.getByRole('table', { name: 'Models, last 5 minutes' }).textContent(), /morse-1/)
    t.equal(clicks.length, 2)
    await main.getByText('Usage isn’t recorded: set LARKWAY_USAGE=true').waitFor(SEEN)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      t.same(await axeFaults(page), [], colorScheme)
    }
    await page.setViewportSize(PHONE)
    t.equal(await overflowOf(page), 0, 'a phone has it in full')

    await page.setViewportSize({ width: 1280, height: 900 })
    await page.goto(`${node.url}/console/acme/providers`)
    await page.getByRole('link', { name: 'acme.ears' }).click()
    await page.getByRole('heading', { level: 1, name: 'acme.ears' }).waitFor()
    await main.locator('.badge', { hasText: /^Up$/ }).first().waitFor(SEEN)
    await page.getByRole('button', { name: 'Check credential' }).click()
    await page.getByRole('dialog', { name: 'Check acme.ears' }).getByText('Connected.').waitFor(SEEN)
    t.same(complaints.said, [])
    t.same(complaints.failed, [])
  },
)
