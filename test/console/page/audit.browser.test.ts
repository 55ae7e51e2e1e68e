import t from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleBench } from '../../support/console-bench.ts'
import { withoutServers } from '../../support/servers.ts'
import { openTab, signIn, WAIT } from '../console-page.ts'

t.test('no line is missing after a refresh', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const { larkway, keys, state } = await startConsoleBench(t)
  const by = { via: 'cli', keyId: null, name: 'cli' } as const
  let made = 0
  const change = async (count: number) => {
    for (const end = made + count; made < end; made += 1)
      await state.catalog.note(`${made}`, {
        ...{ by, action: 'app.publish', workspace: 'acme', target: `app/acme/app-${made}` },
        ...{ before: null, after: null, detail: null },
      })
  }
  await change(126)
  const { page } = await openTab(await openBrowser(t))
  await signIn(page, `${larkway.url}/console/acme/audit`, keys.admin)
  const older = page.getByRole('button', { name: 'Show older' })
  const refresh = page.getByRole('button', { name: 'Refresh' })
  await older.click()
  await page.getByText('End of list (126)').waitFor(WAIT)
  await change(20)
  await refresh.click()
  await page.getByText('End of list (146)').waitFor(WAIT)
  await change(120)
  await refresh.click()
  for (let pages = 0; pages < 2; pages += 1) await older.click(WAIT)
  await page.getByText('End of list (266)').waitFor(WAIT)
  const targets = await page.getByRole('table').locator('tbody a').allTextContents()
  t.same(
    targets,
    Array.from({ length: made }, (_, at) => `app/acme/app-${made - 1 - at}`),
  )
})
