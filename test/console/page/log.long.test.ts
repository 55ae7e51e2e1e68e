import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { RequestAnswer, RequestsAnswer } from '../../../src/console/server/answers/requests.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import type { UsageLake } from '../../../src/usage/lake.ts'
import { openBrowser } from '../../support/browser.ts'
import { usageRecord } from '../../support/chat-usage.ts'
import { type ConsoleNode, startConsoleNode } from '../../support/console-node.ts'
import { axeFaults, overflowOf } from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { lakeOf, putRecords } from '../../support/usage-lake.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { openPerson, type Person } from '../console-person.ts'

const NOW_MS = Date.now()
const COUNT = 130
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const LOG = '/console/acme/requests?tab=log'
const CAPTION = 'Request log'

const RECORDS = Array.from({ length: COUNT }, (_, at) => {
  const isFailed = at % 10 === 3
  const endedAt = NOW_MS - at * 60_000
  return usageRecord({
    record_id: `use_${String(at).padStart(3, '0')}`,
    request_id: `order-${at}`,
    app: at % 2 === 0 ? 'web' : 'batch',
    key_id: 'key_app',
    ended_at: endedAt,
    started_at: endedAt - 500,
    trace_id: at === 7 ? TRACE : null,
    total_ms: 100 + at,
    ...(isFailed
      ? {
          ...{ status: 502, outcome: 'error', error_code: 'UPSTREAM_ERROR', attempts: 2, cost_usd: 0 },
          attempt_reasons: 'openai/gpt-4o-mini=it is overloaded,groq/llama=the server failed',
        }
      : {}),
  })
})

const FOREIGN = usageRecord({
  ...{
    record_id: 'use_foreign',
    request_id: 'order-7',
    workspace: 'other',
    app: 'web',
    key_id: 'key_foreignAdmin',
  },
  ...{ ended_at: NOW_MS - 90_000, total_ms: 800, body_ms: 100, upstream_ms: 600, first_ms: null },
})

const rows = (page: Page) => page.getByRole('table', { name: CAPTION }).locator('tbody tr')
const shown = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor()

async function open(person: Person, path = LOG): Promise<Page> {
  await person.page.goto(path)
  await person.page.getByRole('main').getByRole('heading', { level: 1 }).waitFor()
  return person.page
}

t.test('the request log in a browser', { skip: withoutServers, timeout: 280_000 }, async (t) => {
  const config = (same: object) => ({
    ...same,
    console: { trace_url: 'https://traces.example.com/trace/{trace_id}' },
  })
  const node = await startConsoleNode(t, { config, env: { LARKWAY_USAGE: 'true' } })
  const lake = lakeOf(await createFileObjects(node.dataFolder))
  await putRecords(lake, [...RECORDS, FOREIGN], 'seg_1')
  const browser: Browser = await openBrowser(t)
  const person = await openPerson(browser, node.url)
  await person.signIn(node.keys.admin)
  await person.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await t.test('filters are chips, and in the address', (t) => filter(t, person))
  await t.test('older rows that come late do not replace those of another filter', (t) => late(t, person))
  await t.test('Live and the log have the same filters', (t) => agreed(t, person, node))
  await t.test('an id leads to its request, and that to its trace', (t) => search(t, person))
  await t.test('who has skipped to the content stays in the same log', (t) => skipped(t, person))
  await t.test('keys go through list and details', (t) => keys(t, person))
  await t.test('back finds the rows and the place', (t) => back(t, person))
  await t.test('the list is exported', (t) => exported(t, person))
  await t.test('legible, still and without overflow', (t) => quality(t, person))
  await t.test('operators look at all workspaces', (t) => platform(t, person, node.keys.operator))
  await t.test('attempts of what is still among the newest have bars', (t) => bars(t, person, node, lake))
  await t.test('what is new comes with a refresh, and to whoever comes back', (t) => fresh(t, person, lake))
  const { said, failed } = person.complaints
  t.same(said, [], 'the page does not complain')
  // A request that is not among the newest is asked for there first.
  t.same(new Set(failed), new Set(['404 /console/api/workspaces/acme/requests/order-7']))
})

async function filter(t: Test, person: Person): Promise<void> {
  const page = await open(person, '/console/acme/requests')
  await page.getByRole('tab', { name: 'Log' }).click()
  await shown(page, `50 of ${COUNT} shown.`)
  t.match(page.url(), /tab=log/)
  await page.getByLabel('Outcome').selectOption({ label: 'Failed' })
  await shown(page, '13 of 13 shown. End of list.')
  await page.getByRole('button', { name: 'Filter', exact: true }).click()
  await page.getByLabel('Filter by').selectOption({ label: 'Duration at least' })
  await page.getByLabel('Duration at least', { exact: true }).fill('soon')
  await page.getByRole('button', { name: 'Add' }).click()
  await shown(page, 'Enter a whole number of milliseconds.')
  await page.getByLabel('Duration at least', { exact: true }).fill('150')
  await page.getByRole('button', { name: 'Add' }).click()
  await shown(page, '8 shown. End of list.')
  const button = page.getByRole('button', { name: 'Filter', exact: true })
  const isFocused = () => button.evaluate((one) => one === document.activeElement)
  t.ok(await isFocused(), 'the focus is not lost with the fields')
  t.match(page.url(), /outcome=error.*min_ms=150/)
  await page.reload()
  await shown(page, '8 shown. End of list.')
  await page.getByRole('button', { name: 'Remove filter Duration at least 150 ms' }).click()
  await shown(page, '13 of 13 shown.')
  t.ok(await isFocused(), 'nor with the filter')
  t.notMatch(page.url(), /min_ms/)
  await open(person, `${LOG}&model=nothing`)
  await shown(page, 'No matching requests')
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await shown(page, `50 of ${COUNT} shown.`)
}

async function late(t: Test, person: Person): Promise<void> {
  const page = await open(person)
  await shown(page, `50 of ${COUNT} shown.`)
  const gate = Promise.withResolvers<void>()
  const older = /\/console\/api\/log-rows\?.*after=/
  await page.route(older, async (route) => {
    await gate.promise
    await route.continue()
  })
  const answered = page.waitForResponse(older)
  await page.getByRole('button', { name: 'Load older' }).click()
  await page.getByLabel('Outcome').selectOption({ label: 'Succeeded' })
  await shown(page, '50 of 117 shown.')
  gate.resolve()
  await (await answered).finished()
  await page.getByRole('button', { name: 'Load older', disabled: false }).waitFor()
  await page.unroute(older)
  await shown(page, '50 of 117 shown.')
  await page.getByRole('button', { name: 'Load older' }).click()
  await shown(page, '100 of 117 shown.')
  t.equal(await rows(page).filter({ hasText: 'UPSTREAM_ERROR' }).count(), 0)
}

async function agreed(t: Test, person: Person, { keys }: ConsoleNode): Promise<void> {
  const page = await open(person, '/console/acme/requests?key=key_admin&all=true')
  await page.getByRole('tab', { name: 'Log' }).click()
  await page.getByRole('button', { name: 'Remove filter Key: key_admin' }).waitFor()
  t.ok(await page.getByLabel('Show playground').isChecked())
  await page.getByLabel('Show playground').uncheck()
  await page.getByRole('button', { name: 'Filter', exact: true }).click()
  await page.getByLabel('Filter by').selectOption({ label: 'Key' })
  await page.getByLabel('Key', { exact: true }).selectOption('key_app')
  await shown(page, `50 of ${COUNT} shown.`)
  t.match(page.url(), /requests\?tab=log&key_id=key_app$/)
  await page.getByRole('tab', { name: 'Live' }).click()
  t.equal(await page.getByLabel('Key', { exact: true }).inputValue(), 'key_app')
  t.notOk(await page.getByLabel('Show polls and playground').isChecked())

  const answer = await page.request.get('/v1/me', { headers: { authorization: `Bearer ${keys.app}` } })
  t.equal(answer.status(), 200)
  await open(person, '/console/acme/requests?app=web&key=key_app&all=true')
  await page.getByRole('link', { name: 'Older requests are in the log' }).click()
  await shown(page, '50 of 65 shown.')
  t.match(page.url(), /requests\?app=web&key_id=key_app&playground=true&tab=log$/)
}

async function search(t: Test, person: Person): Promise<void> {
  const page = await open(person)
  await page.getByLabel('Request, trace, job or session ID').fill(`  ${TRACE} `)
  await shown(page, '1 shown. End of list.')
  await rows(page).getByRole('link').click()
  await page.getByRole('heading', { name: 'Details' }).waitFor()
  const link = page.getByRole('link', { name: TRACE })
  t.same(
    [await link.getAttribute('href'), await link.getAttribute('rel')],
    [`https://traces.example.com/trace/${TRACE}`, 'noopener noreferrer'],
  )
  // A request that is no longer among the newest is found here, by any link to it.
  await open(person, '/console/acme/requests/order-7')
  await page.getByRole('heading', { name: 'Details' }).waitFor()
  await shown(page, 'order-7')
  await open(person, '/console/acme/requests/log/use_003')
  for (const text of ['Why it failed', 'every eligible provider failed', 'it is overloaded', 'groq/llama'])
    await shown(page, text)
}

async function skipped(t: Test, person: Person): Promise<void> {
  const page = await open(person)
  await shown(page, `50 of ${COUNT} shown.`)
  await page.getByRole('link', { name: 'Skip to content' }).focus()
  await page.keyboard.press('Enter')
  await page.waitForURL(/#main$/)
  const field = page.getByLabel('Request, trace, job or session ID')
  await field.pressSequentially('order')
  await page.waitForURL(/id=order$/)
  await page.keyboard.type('-7')
  await page.waitForURL(/id=order-7$/)
  t.equal(await field.inputValue(), 'order-7', 'the field keeps the focus')
  await shown(page, '1 shown. End of list.')
  await page.goBack()
  await shown(page, `50 of ${COUNT} shown.`)
}

async function keys(t: Test, person: Person): Promise<void> {
  const page = await open(person, `${LOG}&outcome=error`)
  await shown(page, '13 of 13 shown.')
  for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key)
  await page.keyboard.press('Enter')
  await page.waitForURL(/log\/use_013/)
  await page.getByRole('button', { name: 'Older request (J)' }).and(page.locator(':enabled')).waitFor()
  await page.keyboard.press('j')
  await page.waitForURL(/log\/use_023/)
  await page.getByRole('button', { name: 'Newer request (K)' }).and(page.locator(':enabled')).waitFor()
  await page.keyboard.press('k')
  await page.waitForURL(/log\/use_013/)
  await page.goBack()
  await shown(page, '13 of 13 shown.')
  t.match(page.url(), /requests\?tab=log&outcome=error$/, 'back leads to the list')
}

async function back(t: Test, person: Person): Promise<void> {
  const page = await open(person)
  await page.getByRole('button', { name: 'Load older' }).click()
  await shown(page, `100 of ${COUNT} shown.`)
  const row = rows(page).nth(80)
  await row.scrollIntoViewIfNeeded()
  const top = (await page.evaluate('scrollY')) as number
  t.ok(top > 500)
  await row.getByRole('link').click()
  await page.getByRole('heading', { name: 'Details' }).waitFor()
  await page.goBack()
  await shown(page, `100 of ${COUNT} shown.`)
  await page.waitForFunction(`Math.abs(scrollY - ${top}) < 5`)
}

async function exported(t: Test, person: Person): Promise<void> {
  const page = await open(person, `${LOG}&outcome=error`)
  await shown(page, '13 of 13 shown.')
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'CSV' }).click(),
  ])
  t.match(download.suggestedFilename(), /^requests-.*\.csv$/)
  const chunks: Buffer[] = []
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer)
  t.equal(Buffer.concat(chunks).toString().trim().split('\r\n').length, 14)
}

async function platform(t: Test, { page }: Person, key: string): Promise<void> {
  await page.context().clearCookies()
  await page.goto('/console/requests')
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Platform requests' }).waitFor()
  await shown(page, `50 of ${COUNT + 1} shown.`)
  await page.getByRole('button', { name: 'Filter', exact: true }).click()
  await page.getByLabel('Workspace', { exact: true }).last().selectOption('other')
  await shown(page, '1 of 1 shown. End of list.')
  t.match(page.url(), /\/console\/requests\?workspace=other$/)
  await rows(page).getByRole('link').click()
  await page.getByRole('heading', { name: 'Where the time went' }).waitFor()
  t.match(page.url(), /\/console\/requests\/log\/use_foreign\?workspace=other$/)
  await page.getByRole('definition').getByRole('link', { name: 'other' }).waitFor()
  t.notOk(
    await page.getByRole('heading', { name: 'Same request ID' }).isVisible(),
    'ids are one workspace’s own',
  )
  await look(t, page, 'one record of another workspace')
  await page.getByRole('link', { name: 'Requests', exact: true }).last().click()
  await shown(page, '1 of 1 shown.')
  await page.getByLabel('Request, trace, job or session ID').fill('order-7')
  await page.getByRole('button', { name: 'Remove filter Workspace: other' }).click()
  await shown(page, '2 shown. End of list.')
  await look(t, page, 'the log of all')
  const allTime = page.getByRole('button', { name: 'Show all time' })
  await page.goto('/console/ops/requests?tab=log')
  await allTime.click()
  await page.waitForURL(/range=all/)
  await shown(page, 'No requests in this time')
  await allTime.waitFor({ state: 'detached' })
}

/** Comes last: what is called here comes into the log by itself, too. */
async function bars(t: Test, { page }: Person, { url, keys }: ConsoleNode, lake: UsageLake): Promise<void> {
  const answer = await fetch(`${url}/v1/speech`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys.app}`,
      'content-type': 'application/json',
      'x-lk-request-id': 'order-new',
    },
    body: '{"input":"e"}',
  })
  await answer.arrayBuffer()
  t.equal(answer.status, 200)
  const found = async (): Promise<RequestAnswer | undefined> => {
    const told = await page.request.get('/console/api/workspaces/acme/requests?request_id=order-new')
    return ((await told.json()) as RequestsAnswer).requests[0]
  }
  await waitUntil(async () => (await found()) !== undefined)
  const { at, attempts } = (await found())!
  const [one] = attempts
  const record = usageRecord({
    ...{ record_id: 'use_new', request_id: 'order-new', app: 'web', key_id: 'key_app' },
    ...{ started_at: Date.parse(at) - 5, ended_at: Date.parse(at) + 20, total_ms: 25 },
    attempt_reasons: `${one?.provider}/${one?.model}=ok`,
  })
  await putRecords(lake, [record], 'seg_2')
  await page.goto('/console/requests/log/use_new')
  const bar = page.getByRole('listitem').filter({ hasText: `${one?.provider}/${one?.model}` })
  await bar.locator('.attempt-fill').waitFor()
  t.match(await bar.textContent(), /\d ms/)
  await page.goto('/console/requests/log/use_003')
  await shown(page, 'groq/llama')
  const old = page.getByRole('listitem').filter({ hasText: 'groq/llama' })
  t.equal(await old.locator('.attempt-fill').count(), 0, 'of others only the reasons are known')
}

async function fresh(t: Test, person: Person, lake: UsageLake): Promise<void> {
  const page = await open(person, `${LOG}&outcome=canceled`)
  const put = async (name: string) => {
    const atMs = Date.now() - 1_000
    const record = usageRecord({
      ...{ record_id: `use_${name}`, request_id: `order-${name}`, outcome: 'canceled', status: 499 },
      ...{ app: 'web', key_id: 'key_app', started_at: atMs - 5, ended_at: atMs, total_ms: 5 },
    })
    await putRecords(lake, [record], `seg_${name}`)
  }
  await shown(page, 'No matching requests')
  await page.getByRole('tab', { name: 'Live' }).click()
  await put('3')
  await page.getByRole('tab', { name: 'Log' }).click()
  await rows(page).nth(0).waitFor()
  await put('4')
  await page.getByRole('button', { name: 'Refresh' }).click()
  await rows(page).nth(1).waitFor()
  t.equal(await rows(page).count(), 2)
}

async function look(t: Test, page: Page, what: string): Promise<void> {
  t.equal(await overflowOf(page), 0, what)
  t.same(await axeFaults(page), [], what)
}

async function quality(t: Test, person: Person): Promise<void> {
  const views = [
    LOG,
    `${LOG}&app=web&min_ms=120&model=${'m'.repeat(80)}`,
    '/console/acme/requests/log/use_003?tab=log',
  ]
  for (const colorScheme of ['light', 'dark'] as const)
    for (const size of [
      { width: 1280, height: 800 },
      { width: 375, height: 812 },
    ])
      for (const view of views) {
        const { page } = person
        await page.setViewportSize(size)
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        await open(person, view)
        await page.locator('.skeleton').waitFor({ state: 'detached' })
        t.equal(await overflowOf(page), 0, `${view} at ${size.width}`)
        t.same(await axeFaults(page), [], `${view}, ${colorScheme}, ${size.width}`)
      }
}
