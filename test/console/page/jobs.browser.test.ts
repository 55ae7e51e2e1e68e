import t from 'tap'
import type { JobAnswer } from '../../../src/console/server/answers/jobs.ts'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { openTab, signIn, WAIT } from '../../support/console-page.ts'
import { withoutServers } from '../../support/servers.ts'

const FIRST = 50
const COUNT = 70

const jobOf = (number: number): JobAnswer => ({
  ...{ id: `job_${number}`, kind: 'transcription', endpoint: '/v1/transcription', mode: 'priority' },
  ...{ app: 'web', key_id: 'key_1', status: 'succeeded', cancel_requested: false, attempts: 1 },
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
