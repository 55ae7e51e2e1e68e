import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { type ConsoleNode, startConsoleNode } from '../../support/console-node.ts'
import { axisFaults, WATCH_TEXTS } from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { openTab, signIn, WAIT } from '../console-page.ts'

/** Limit for everything that is loaded until the overview with its charts is seen: only this first view loads uPlot. */
/** From Node 26 on, what is served from sources has its comments; what `npm start` serves has none on any Node. */
const FIRST_LOAD_BYTES_MAX = parseInt(process.versions.node, 10) < 26 ? 100_000 : 110_000
/** Web Vitals: up to 0.1 is good. */
const SHIFT_MAX = 0.02
/** More than one turn of the page's clock. */
const TURN_MS = 6_000

/** Sends a call that is answered, and waits until the console knows. */
async function callOnce({ url, keys }: ConsoleNode): Promise<void> {
  const answer = await fetch(`${url}/v1/speech`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.app}`, 'content-type': 'application/json' },
    body: '{"input":"e"}',
  })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`the call was answered with ${answer.status}`)
}

t.test('the overview is live, light and still', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const browser = await openBrowser(t)
  const { page, complaints } = await openTab(browser)
  await page.addInitScript(WATCH_TEXTS)
  await page.clock.install()
  await signIn(page, `${node.url}/console/acme/overview`, node.keys.admin)
  await page.getByText('Get started').waitFor(WAIT)
  t.match(await page.locator('.overview-steps .overview-done').count(), 3, 'what is done is ticked')
  await callOnce(node)
  await page.locator('.chart canvas').first().waitFor(WAIT)

  await firstLoad(t, page)
  t.same(await axisFaults(page), { charts: 5, faults: [] }, 'all charts have one time axis')
  const chart = page.locator('.chart-place').first()
  t.match(await chart.getAttribute('aria-label'), /^Requests per second, the last hour\. requests: now /)
  await chart.focus()
  await page.keyboard.press('ArrowLeft')
  t.match(await page.locator('.chart-tip').textContent(), /^\d\d:\d\d:\d\drequests/, 'keys read moments')
  await page.getByRole('button', { name: 'Table of Requests' }).click()
  t.equal(await page.locator('.chart-table thead th').count(), 4)

  let polls = 0
  page.on('request', (request) => {
    if (request.url().includes('/console/api/overview')) polls++
  })
  await hide(page, true)
  await page.locator('.overview-live').filter({ hasText: 'Paused' }).waitFor(WAIT)
  await page.clock.runFor(TURN_MS)
  t.equal(polls, 0, 'a hidden page asks for nothing')
  await page.route('**/console/api/overview**', (route) => route.abort())
  await hide(page, false)
  await page.locator('.note-warn').filter({ hasText: 'Can’t reach the server' }).waitFor(WAIT)
  t.ok(polls > 0, 'it asks at once when it is seen again')
  t.match(await page.locator('.overview-live').textContent(), 'Waiting for the server')
  await page.unroute('**/console/api/overview**')
  await page.locator('.overview-live').filter({ hasText: 'Live' }).waitFor(WAIT)
  t.equal(await page.locator('.note-warn').count(), 0, 'and continues by itself')

  for (const name of ['Server errors', 'Client errors']) {
    await page.getByRole('link', { name: new RegExp(`\\d % ${name}$`) }).click()
    await page.getByLabel('Show polls and playground').and(page.locator(':checked')).waitFor(WAIT)
    t.match(page.url(), /requests\?outcome=failed&all=true$/, 'what the playground sends is counted, too')
    await page.goBack()
  }
  await page.locator('.chart canvas').first().waitFor(WAIT)
  await chart.focus()
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('Enter')
  await page.waitForURL(/requests\?tab=log&from=.*&to=.*&playground=true$/)
  t.same(
    complaints.filter((text) => !text.includes('ERR_FAILED')),
    [],
  )
})

/** Loads the page as a first visitor: its bytes on the wire, headers included, and its layout shift. */
async function firstLoad(t: Test, page: Page) {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.clearBrowserCache')
  let bytes = 0
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  await page.reload()
  await page.locator('.chart canvas').first().waitFor(WAIT)
  await page.waitForTimeout(500)
  await session.detach()
  t.ok(bytes > 10_000, `${bytes} bytes were counted`)
  t.ok(bytes < FIRST_LOAD_BYTES_MAX, `the first load is of ${bytes} bytes`)
  const shift = await page.evaluate(`new Promise((resolve) => {
    let sum = 0
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) sum += value
    }).observe({ type: 'layout-shift', buffered: true })
    setTimeout(() => resolve(sum), 300)
  })`)
  t.ok(Number(shift) <= SHIFT_MAX, `the layout shifts by ${shift}`)
}

async function hide(page: Page, hidden: boolean) {
  await page.evaluate(`{
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${hidden} })
    document.dispatchEvent(new Event('visibilitychange'))
  }`)
}
