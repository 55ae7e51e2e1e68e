import t from 'tap'
import type { JobAnswer } from '../../../src/console/server/answers/jobs.ts'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { withoutServers } from '../../support/servers.ts'
import { openTab, signIn, WAIT } from '../console-page.ts'

const FIRST = 50
const COUNT = 70

const jobOf = (number: number): JobAnswer => ({
  ...{ id: `job_${number}`, kind: 'transcription', endpoint: '/v1/transcription', mode: 'priority' },
  ...{ app: 'web', key_id: 'key_1', status: 'succeeded', cancel_requested: false, attempts: 1, parts: null },
  ...{ created_at: '2026-01-01T00:00:00.000Z', started_at: '2026-01-01T00:00:01.000Z' },
  ...{ completed_at: '2026-01-01T00:00:02.000Z', expires_at: null, error: null },
  ...{ policy_version_id: null, can_retry: false, has_result: true },
})

t.test('the jobs that are shown stay while more are loaded', { skip: withoutServers }, async (t) => {
  const node = await startConsoleNode(t)
  const { page } = await openTab(await openBrowser(t))
  const more = Promise.withResolvers<void>()
  await page.route('**/workspaces/acme/jobs?*', async (route) => {
    const limit = Number(new URL(route.request().url()).searchParams.get('limit'))
    if (limit > FIRST) await more.promise
    await route.fulfill({
      json: { jobs: Array.from({ length: Math.min(limit, COUNT) }, (_, at) => jobOf(at)) },
    })
  })
  await signIn(page, `${node.url}/console/acme/jobs`, node.keys.admin)
  const rows = page.locator('tbody tr')
  await rows.nth(FIRST - 1).waitFor(WAIT)
  const asked = page.waitForRequest(/limit=200/, WAIT)
  await page.getByRole('button', { name: 'Show more' }).click()
  await asked
  t.equal(await rows.count(), FIRST)
  more.resolve()
  await rows.nth(COUNT - 1).waitFor(WAIT)
  await page.getByText('End of list.').waitFor(WAIT)
})

t.test('a job in parts tells how far it is, and what has heard each', { skip: withoutServers }, async (t) => {
  const node = await startConsoleNode(t)
  const { page } = await openTab(await openBrowser(t))
  const one = { ...jobOf(1), key_name: null, request_id: 'req_1', history: [], runs: [] }
  const parts = [0, 1, 2].map((index) => ({
    ...{ start: index * 600, end: index * 600 + 600, provider: 'ears', model: 'whisper-1' },
    ...{ cost_usd: 0.06, attempts: index + 1, ends_in_silence: index !== 1 },
  }))
  let ended = false
  await page.route('**/workspaces/acme/jobs/tj_1', (route) => {
    const running = {
      status: 'processing',
      completed_at: null,
      has_result: false,
      parts: { done: 1, total: 3 },
    }
    return route.fulfill({ json: ended ? one : { ...one, ...running } })
  })
  await page.route('**/workspaces/acme/jobs/tj_1/result', (route) =>
    route.fulfill({ json: { content: 'one two', parts } }),
  )
  await page.route('**/api/workspaces/acme', async (route) => {
    const about = (await (await route.fetch()).json()) as object
    await route.fulfill({ json: { ...about, content_shown: true } })
  })
  await signIn(page, `${node.url}/console/acme/jobs/tj_1`, node.keys.admin)
  await page.getByText('1 of 3 parts are heard').waitFor(WAIT)
  ended = true
  await page.getByRole('button', { name: 'Show result' }).click()
  const rows = page.locator('tbody tr')
  await rows.nth(2).waitFor(WAIT)
  t.match(await rows.nth(1).innerText(), /00:10:00.*00:20:00.*ears · whisper-1.*2.*\$0\.06.*within sound/s)
  t.match(await rows.nth(2).innerText(), /the end/)
})
