import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { heading, openTab, signIn, WAIT } from '../console-page.ts'

/** Runs in the page: its microphone hears nothing. */
function openMicrophone(): void {
  const stream = () => new AudioContext().createMediaStreamDestination().stream
  navigator.mediaDevices.getUserMedia = async () => stream()
}

t.test('leaving what cannot be had again', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const { page } = await openTab(await openBrowser(t))
  const asked: string[] = []
  page.on('dialog', async (dialog) => {
    asked.push(dialog.message())
    await dialog.dismiss()
  })
  await signIn(page, `${node.url}/console/acme/audit`, node.keys.admin)
  const shown = page.getByRole('dialog')
  const backIsAsked = async (question: string) => {
    const place = page.url()
    await Promise.all([page.waitForEvent('dialog', WAIT), page.goBack()])
    await page.waitForURL(place, WAIT)
    t.same(asked.splice(0), [question])
    t.equal(await shown.getByRole('checkbox').isChecked(), false, 'it is still shown')
    await shown.getByRole('checkbox').check()
    await shown.getByRole('button', { name: 'Done' }).click()
    await shown.waitFor({ ...WAIT, state: 'detached' })
    await page.goBack()
    await heading(page, 'Audit')
    t.same(asked.splice(0), [], 'what is stored may go')
  }

  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('button', { name: 'Create key' }).click()
  await shown.getByLabel('Name').fill('mine')
  await shown.getByLabel('App').selectOption('web')
  await shown.getByRole('button', { name: 'Create key' }).click()
  await shown.getByText('I have stored the key').waitFor(WAIT)
  await backIsAsked('The key is shown only once. Leave anyway?')

  const url = 'https://hooks.example.com/larkway'
  const webhook = { url, created_at: '2026-01-01T00:00:00.000Z' }
  await page.route('**/workspaces/acme/webhook', (route) =>
    route.request().method() === 'PUT'
      ? route.fulfill({ json: { webhook, signing_secret: 'whsec_canary' } })
      : route.fallback(),
  )
  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('button', { name: 'Create webhook' }).click()
  await shown.getByLabel('URL').fill(url)
  await shown.getByRole('button', { name: 'Create webhook' }).click()
  await shown.getByText('whsec_canary').waitFor(WAIT)
  await backIsAsked('The secret is shown only once. Leave anyway?')

  await page.evaluate(openMicrophone)
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByRole('button', { name: 'Record' }).click()
  const stop = page.getByRole('button', { name: 'Stop' })
  await stop.waitFor(WAIT)
  await Promise.all([page.waitForEvent('dialog', WAIT), page.getByRole('link', { name: 'Keys' }).click()])
  t.same(asked.splice(0), ['Leave and drop the recording?'])
  await stop.click()
  await stop.waitFor({ ...WAIT, state: 'detached' })
})
