import type { CDPSession, Page } from 'playwright-core'
import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleBench } from '../../support/console-bench.ts'
import { requestRecord } from '../../support/console-record.ts'
import { withoutServers } from '../../support/servers.ts'
import { held, openTab, signIn, WAIT } from '../console-page.ts'

/** As many as come in 30 minutes at 25 a second, as fast as the page takes them. */
const TURNS = 180
const PER_TURN = 250
const TURN_MS = 5_000
/** The first turns fill the list. */
const WARM = 20
/** Turns at the beginning, and at the end, that are compared. */
const COMPARED = 40
const ROWS_MAX = 300

/** CPU seconds of the main thread, and nodes of the page, as Chromium counts them. */
async function measure(session: CDPSession) {
  await session.send('HeapProfiler.collectGarbage')
  const { metrics } = await session.send('Performance.getMetrics')
  const value = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? 0
  return { busySeconds: value('TaskDuration'), nodes: value('Nodes') }
}

const rows = (page: Page) => page.locator('tbody tr')

t.test(
  'half an hour of live requests leaves the page as it was',
  { skip: withoutServers, timeout: 300_000 },
  async (t) => {
    const { larkway, keys, state } = await startConsoleBench(t)
    const startMs = Date.now() - TURNS * TURN_MS
    let sent = 0
    const send = async (turn: number) => {
      const records = Array.from({ length: PER_TURN }, (_, at) => {
        sent += 1
        const status = at % 3 === 0 ? 502 : 200
        const atMs = startMs + turn * TURN_MS + at * (TURN_MS / PER_TURN)
        return requestRecord('acme', {
          recordId: `rec_${sent}`,
          atMs,
          status,
          error: status < 400 ? null : 'UPSTREAM_ERROR',
        })
      })
      await state.console.requests.add(`turn ${turn}`, records)
    }
    const browser = await openBrowser(t)
    const { page, complaints } = await openTab(browser)
    await page.clock.install()
    await send(0)
    await signIn(page, `${larkway.url}/console/acme/requests`, keys.admin)
    await rows(page).first().waitFor(WAIT)
    t.equal(await rows(page).count(), 50)
    const session = await page.context().newCDPSession(page)
    // Time of other processes does not count.
    await session.send('Performance.enable', { timeDomain: 'threadTicks' })

    const marks: Awaited<ReturnType<typeof measure>>[] = []
    for (let turn = 1; turn <= TURNS; turn += 1) {
      await send(turn)
      const answered = page.waitForResponse((response) => response.url().includes('/requests?after='))
      await page.clock.runFor(TURN_MS)
      await (await answered).finished()
      if ([WARM, WARM + COMPARED, TURNS - COMPARED, TURNS].includes(turn)) {
        await page.locator(`a[href$="/rec_${sent}"]`).waitFor(WAIT)
        marks.push(await measure(session))
      }
    }
    t.equal(await rows(page).count(), ROWS_MAX)
    const [begin, afterFirst, beforeLast, end] = marks
    const first = afterFirst!.busySeconds - begin!.busySeconds
    const last = end!.busySeconds - beforeLast!.busySeconds
    const spans = `${first.toFixed(2)} s busy, then ${last.toFixed(2)} s, in ${COMPARED} turns each`
    t.comment(`${begin!.nodes} nodes, then ${end!.nodes}; ${spans}`)
    t.ok(end!.nodes < begin!.nodes * 1.1, 'no more nodes than at the beginning')
    t.ok(last < first * 1.3, 'and no more work')

    await page.evaluate('scrollTo(0, 2000)')
    await send(TURNS + 1)
    await page.clock.runFor(TURN_MS)
    await page.getByRole('button', { name: `+${PER_TURN} newer` }).click()
    await page.locator(`a[href$="/rec_${sent}"]`).waitFor(WAIT)
    t.equal(await rows(page).count(), ROWS_MAX)
    for (let pages = 0; pages < 3; pages += 1) {
      const answered = page.waitForResponse((response) => response.url().includes('before='))
      await page.getByRole('button', { name: 'Load older' }).click()
      await (await answered).finished()
    }
    await page.getByRole('button', { name: '+147 newer' }).waitFor(WAIT)
    t.equal(await rows(page).count(), ROWS_MAX, 'older pages take the place of the newest rows')
    t.same(complaints, [])
  },
)

t.test(
  'older rows that come late, or not, are not those of another filter',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const { larkway, keys, state } = await startConsoleBench(t)
    const records = Array.from({ length: 130 }, (_, at) => {
      const isFailed = at % 10 === 3
      const over = isFailed ? { status: 502, error: 'UPSTREAM_ERROR' as const } : {}
      return requestRecord('acme', { atMs: Date.now() - at * 1_000, ...over })
    })
    await state.console.requests.add('all', records)
    const { page } = await openTab(await openBrowser(t))
    await signIn(page, `${larkway.url}/console/acme/requests`, keys.admin)
    await page.getByRole('button', { name: 'Live', pressed: true }).click()
    const outcome = page.getByLabel('Outcome')
    const older = page.getByRole('button', { name: 'Load older' })
    const url = /\/requests\?.*before=/
    for (const isLost of [false, true]) {
      await outcome.selectOption({ label: 'All outcomes' })
      await page.getByText('50 shown.').waitFor(WAIT)
      const [asked, going] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      await page.route(url, async (route) => {
        asked.resolve()
        await going.promise
        await (isLost ? route.fulfill({ status: 503, json: {} }) : route.continue())
      })
      const answered = page.waitForResponse(url)
      await older.click()
      await asked.promise
      const failed = await held(page, '**/requests?*outcome=failed*')
      await outcome.selectOption({ label: 'Failed' })
      await failed.asked
      going.resolve()
      await (await answered).finished()
      failed.letGo()
      await page.getByText('13 shown.').waitFor(WAIT)
      t.equal(await rows(page).count(), 13)
      t.equal(await rows(page).filter({ hasText: 'UPSTREAM_ERROR' }).count(), 13)
      t.equal(await page.getByRole('main').getByRole('alert').count(), 0, 'no error of the other list')
      await page.unrouteAll()
    }
  },
)
