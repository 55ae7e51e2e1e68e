import t from 'tap'
import { SAVE_AFTER_MS } from '../../../src/console/page/views/routes/editing.ts'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

t.test('text of an entry that cannot be read', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const admin = await node.signIn(node.keys.admin)
  const fields = { entries: [{ provider: 'acme-own', model: 'morse-1', limits: { max_audio_seconds: 60 } }] }
  await admin.put('/workspaces/acme/routes/acme.mine/draft', { fields, revision: null })
  const { page } = await openTab(await openBrowser(t))
  await signIn(page, `${node.url}/console/acme/routes/acme.mine`, node.keys.admin)
  await heading(page, 'acme.mine')
  const settings = page.getByRole('button', { name: /^Settings of entry 1/ })
  const count = page.getByRole('article').getByText(/^\d errors?$/)
  const publish = page.getByRole('button', { name: 'Publish…' })
  await settings.click()

  await t.test('stays while a name of it is edited', async (t) => {
    const others = page.getByLabel('Other facts (JSON)')
    const whole = await others.inputValue()
    t.match(whole, /"limits"/)
    const broken = whole.replace('limits', 'limit')
    await others.fill(broken)
    await page.getByText('Unknown, or set by a field above: limit.').waitFor(WAIT)
    await count.waitFor(WAIT)
    t.equal(await others.inputValue(), broken, 'what was typed')
    await others.fill(whole)
    await count.waitFor({ ...WAIT, state: 'detached' })
    const unknown = '{"limit": {"max_audio_seconds": 7200}}'
    await others.fill(unknown)
    await count.waitFor(WAIT)
    t.equal(await others.inputValue(), unknown)
    await others.fill('')
    await count.waitFor({ ...WAIT, state: 'detached' })
  })

  await t.test('is there when the settings are opened again', async (t) => {
    const weight = page.getByLabel('Weight')
    await weight.fill('0')
    await count.waitFor(WAIT)
    await settings.click()
    await weight.waitFor({ ...WAIT, state: 'hidden' })
    t.equal(await publish.isEnabled(), false)
    await settings.click()
    t.equal(await weight.inputValue(), '0')
    t.equal(await weight.getAttribute('aria-invalid'), 'true')
    await weight.fill('2')
    await count.waitFor({ ...WAIT, state: 'detached' })
    t.equal(await publish.isEnabled(), true)
  })

  await t.test('is saved once when it is published just before it would have been saved', async (t) => {
    await page.getByText('Saved').first().waitFor(WAIT)
    await page.clock.install()
    // A busy machine has no time for frames.
    await page.evaluate(() => Object.assign(globalThis, { requestAnimationFrame: () => 0 }))
    const saves: number[] = []
    const place = '**/routes/acme.mine/draft'
    await page.route(place, async (route) => {
      const answer = await route.fetch()
      saves.push(answer.status())
      await route.fulfill({ response: answer })
    })
    await page.getByLabel('Weight').fill('3')
    await page.clock.runFor(SAVE_AFTER_MS - 20)
    t.same(saves, [])
    await publish.click()
    await page.clock.runFor(200)
    await page.getByRole('dialog').getByLabel('Note').waitFor(WAIT)
    t.same(saves, [200])
  })
})
