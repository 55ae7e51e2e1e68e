import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { usageRecord } from '../../support/chat-usage.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import {
  axeFaults,
  axisFaults,
  namelessParts,
  overflowOf,
  tabFaults,
  WATCH_TEXTS,
} from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { openPerson } from '../console-person.ts'
import { putUsage, usageMonth } from '../usage-month.ts'

const DAY_MS = 86_400_000
const WIDE = { width: 1280, height: 900 }
const PHONE = { width: 375, height: 812 }

/** Checks of the view that is open. */
async function hold(t: Test, page: Page, what: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    t.same(await axeFaults(page), [], `axe: ${what}, ${colorScheme}`)
  }
  t.same(await namelessParts(page), [], `${what}: all parts have names`)
  await page.setViewportSize(PHONE)
  t.equal(await overflowOf(page), 0, `${what} is not wider than a phone`)
  await page.setViewportSize(WIDE)
}

/** A date is typed in parts, and each part makes another date. */
async function typedDates(t: Test, page: Page): Promise<void> {
  const fields = [page.getByLabel('From'), page.getByLabel('To', { exact: true })]
  const values = () => Promise.all(fields.map((field) => field.inputValue()))
  await page.goto('/console/acme/usage?from=2026-11-10&to=2026-11-23&by=key_id')
  await fields[1]?.focus()
  const entries = await page.evaluate('history.length')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.type('0')
  await page.keyboard.type('2')
  await page.getByText('From is after To.').waitFor()
  t.same(await values(), ['2026-11-10', '2026-11-02'])
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.type('12')
  await page.waitForURL(/from=2026-11-10&to=2026-11-13/)
  t.same(await values(), ['2026-11-10', '2026-11-12'])
  t.equal(await page.evaluate('history.length'), entries, 'back does not go through what was typed')

  const asked: string[] = []
  const note = (request: { url(): string }) =>
    void (/api\/audit/.test(request.url()) && asked.push(request.url()))
  await page.goto('/console/acme/audit')
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor()
  page.on('request', note)
  await fields[0]?.focus()
  await page.keyboard.type('01052026')
  await page.waitForURL(/from=2026-01-05/)
  await page.locator('[aria-busy]').waitFor({ state: 'detached' })
  page.off('request', note)
  t.equal(asked.length, 1, 'asked once the year is whole')
}

t.test(
  'usage by anything, and an overview of a month',
  { skip: withoutServers, timeout: 280_000 },
  async (t) => {
    const node = await startConsoleNode(t, { env: { LARKWAY_USAGE: 'true' } })
    const work = { app: 'phone', model: 'morse-1', provider: 'house', ended_at: Date.now() - 3 * DAY_MS }
    const records = [
      ...usageMonth(Date.now(), { perHour: 2 }),
      ...['ok', 'ok', 'error'].map((outcome, at) =>
        usageRecord({
          ...work,
          record_id: `use_job_${at}`,
          kind: 'job',
          job_id: `tj_${at}`,
          status: null,
          outcome,
        }),
      ),
      ...[0, 1, 2].map((at) =>
        usageRecord({
          ...work,
          record_id: `use_cut_${at}`,
          outcome: 'error',
          error_code: at === 0 ? null : 'UPSTREAM_ERROR',
        }),
      ),
      usageRecord({
        ...work,
        record_id: 'use_live',
        kind: 'session',
        session_id: 'live_1',
        audio_seconds: 90_000,
      }),
    ]
    await putUsage(node.dataFolder, records)
    const browser = await openBrowser(t)
    const { page, complaints, signIn, go, row } = await openPerson(browser, node.url)
    await page.addInitScript(WATCH_TEXTS)
    await signIn(node.keys.operator)
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.goto('/console/acme/overview')
    await go('Usage')
    const main = page.getByRole('main')
    await row('Usage by model', 'nova-3').waitFor()
    t.match(await row('Usage by model', 'Total').textContent(), /Total100 %\$/)
    t.equal(await main.locator('.bars-svg g').count(), 30, 'a bar for each day')
    await hold(t, page, 'usage')
    t.same(await tabFaults(page), [])

    await row('Usage by model', 'nova-3').getByRole('link').click()
    await row('Usage by app', 'phone').waitFor()
    t.match(page.url(), /range=30d&by=app&model=nova-3/)
    const fromMs = (Math.floor(Date.now() / DAY_MS) - 29) * DAY_MS
    const own = records.filter(
      ({ workspace, model, ended_at }) => workspace === 'acme' && model === 'nova-3' && ended_at >= fromMs,
    )
    t.match(
      await main.getByRole('link', { name: /^Calls/ }).textContent(),
      new RegExp(`Calls${own.length}( |$)`),
    )
    await page.getByLabel('Group by').selectOption('API key')
    await row('Usage by API key', 'admin').waitFor()
    await main.getByRole('link', { name: /Errors/ }).click()
    await page.waitForURL(/show=errors/)
    const address = page.url()
    await page.reload()
    await row('Usage by API key', 'admin').waitFor()
    t.equal(page.url(), address)
    await page.goBack()
    await page.waitForURL((url) => !url.search.includes('show=errors'))
    await page.getByRole('link', { name: /Model: nova-3/ }).click()
    await row('Usage by API key', 'app').waitFor()

    await page.getByText('Custom dates').click()
    await page.getByLabel('From').fill('2026-01-05')
    await page.waitForURL(/from=2026-01-05&to=/)
    await typedDates(t, page)
    await page.goto('/console/acme/usage?by=key_id')
    await page.getByRole('link', { name: '30 days' }).click()
    await row('Usage by API key', 'app').waitFor()

    const chart = main.locator('.bars-place')
    await chart.focus()
    await page.keyboard.press('Home')
    t.match(await main.locator('.bars-tip').textContent(), /Total\$/)
    await page.keyboard.press('End')
    // The last whole day: that of now may have nothing yet.
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Enter')
    await page.waitForURL(/from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d/)
    const bars = main.locator('.bars-svg g')
    await bars.nth(24).waitFor({ state: 'detached' })
    await bars.nth(23).waitFor({ state: 'attached' })
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      main.getByRole('link', { name: 'Download CSV' }).click(),
    ])
    t.match(download.suggestedFilename(), /^usage-.*\.csv$/)

    await main.getByRole('link', { name: 'View requests' }).click()
    await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor()
    await main.getByRole('tab', { name: 'Log', selected: true }).waitFor()
    await main.locator('table').first().waitFor()
    t.match(page.url(), /from=\d{4}-.*&to=\d{4}-/, 'of the same time')

    await page.goto('/console/usage')
    await row('Usage by workspace', 'other').waitFor()
    await hold(t, page, 'platform usage')
    await main.getByRole('link', { name: 'View requests' }).click()
    await page.getByRole('heading', { level: 1, name: 'Platform requests' }).waitFor()
    await row('Request log', 'other').first().waitFor()

    await page.goto('/console/acme/overview')
    await main.getByRole('link', { name: '30 days' }).click()
    await main.locator('canvas').first().waitFor()
    await row('Errors by code', 'UPSTREAM_ERROR502').waitFor()
    t.match(await main.locator('.overview-numbers').textContent(), /p50; p95\s.*, p99\s/)
    for (const [name, status] of [
      ['Server errors', '5xx'],
      ['Client errors', '4xx'],
      ['Broken off', '2xx'],
    ] as const) {
      const link = main.locator('.overview-numbers').getByRole('link', { name: new RegExp(`\\d % ${name}$`) })
      t.match(await link.getAttribute('href'), new RegExp(`kind=call&outcome=error&status=${status}$`))
    }
    t.match(await main.locator('.chart-legend', { hasText: 'p50' }).first().textContent(), /^p50latest\d/)
    const figures = (await main.locator('.overview-numbers').textContent()) ?? ''
    for (const [name, beside] of [
      ['Server errors', '5xx'],
      ['Broken off', 'after 200'],
    ]) {
      const [failed] = new RegExp(`(?<=${beside}: )\\d+`).exec(figures) ?? []
      await main.getByRole('link', { name: new RegExp(`\\d % ${name}$`) }).click()
      await main.getByText(new RegExp(` of ${failed} shown`)).waitFor()
      await page.goBack()
      await main.locator('canvas').first().waitFor()
    }
    const kinds = 'Calls, jobs and live sessions'
    t.match(await row(kinds, 'Jobs').textContent(), /^Jobs31 failed in the log of jobs33 %/)
    t.match(await row(kinds, 'Live sessions').textContent(), /^Live sessions100 %1\.5 min/)
    await main.getByRole('img', { name: /^Jobs and live sessions per day: 4 in all/ }).waitFor()
    await hold(t, page, 'overview of a month')
    await row(kinds, 'Jobs').getByRole('link', { name: '1 failed in the log of jobs' }).click()
    await main.getByText('1 of 1 shown.').waitFor()
    t.match(
      page.url(),
      /acme\/requests\?tab=log&from=20.*T00%3A00%3A00.000Z&to=20.*&playground=true&kind=job&outcome=error$/,
    )
    await page.goBack()
    await row(kinds, 'Live sessions').getByRole('link', { name: 'Live sessions' }).click()
    await row('Usage by app', 'phone').waitFor()
    t.match(page.url(), /usage\?range=30d&by=app&show=calls&kind=session$/)
    await page.goBack()
    for (const [code, status, filters] of [
      ['UPSTREAM_ERROR', '200', 'error_code=UPSTREAM_ERROR&status=200'],
      ['unknown', '200', 'error_code=%7Enone&status=200'],
    ]) {
      const of = row('Errors by code', `${code}${status}`)
      const counted = await of.getByRole('cell').nth(1).textContent()
      await of.getByRole('link').click()
      await row('Usage by provider', 'Total').waitFor()
      t.match(page.url(), new RegExp(`${filters}$`))
      t.equal(await main.getByRole('link', { name: /^Calls/ }).textContent(), `Calls${counted}`)
      await page.goBack()
      await row('Errors by code', 'UPSTREAM_ERROR502').waitFor()
    }

    for (const range of ['30d', '7d', '24h']) {
      await page.goto(`/console/acme/overview?range=${range}`)
      await main.locator('canvas').nth(1).waitFor()
      const { charts, faults } = await axisFaults(page)
      t.ok(charts >= 4, `${range}: ${charts} charts`)
      t.same(faults, [], `${range}: all have one time axis`)
    }
    for (const view of ['usage', 'overview?range=30d']) {
      await page.goto(`/console/acme/${view}`)
      const refresh = main.getByRole('button', { name: 'Refresh', disabled: false })
      await refresh.waitFor()
      await Promise.all([page.waitForResponse(/\/console\/api\/usage\?/), refresh.click()])
    }

    await page.goto('/console/acme/providers/house')
    await main.getByRole('img', { name: /^Cost per day/ }).waitFor()
    await hold(t, page, 'a provider')
    t.same(complaints.said, [])
    t.same(complaints.failed, [])
  },
)

t.test(
  'without a ledger the pages say how to have one',
  { skip: withoutServers, timeout: 60_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    const { page, signIn } = await openPerson(await openBrowser(t), node.url)
    await signIn(node.keys.admin)
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    for (const view of ['usage', 'overview?range=7d']) {
      await page.goto(`/console/acme/${view}`)
      await page.getByText('Usage isn’t recorded').waitFor()
      t.match(await page.getByRole('main').textContent(), /LARKWAY_USAGE=true/)
    }
  },
)
