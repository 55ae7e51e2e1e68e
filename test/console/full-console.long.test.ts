import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { openBrowser } from '../support/browser.ts'
import {
  findByKeyboard,
  openView,
  readTrouble,
  shownOn,
  viewsOf,
  WATCH_READY,
  weighed,
} from '../support/console-views.ts'
import { FAILING, fillConsole, fullConfiguration } from '../support/full-console.ts'
import { startLarkway } from '../support/larkway.ts'
import { axeFaults } from '../support/page-checks.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { openPerson } from './console-person.ts'

const SIZE = { records: 200_000, keys: 1_000, routes: 100 }
/** Views that have little to show however much there is, and forms of others that add nothing to these. */
const SMALL = new RegExp(
  '^(live|playground|settings|sessions|setup|overview, (day|month)|usage by key, day|usage by app, week|log, 5xx' +
    '|keys, last page|platform: (overview|live|audit|sessions|providers|one|usage by workspace).*)$',
)
/** Bytes of the page, its scripts and its styles. */
const SHELL_BYTES = 100_000
/** Bytes of the whole first load, with data. */
const ALL_BYTES = 100_000
const FAILURES = 40
/** A page of a list, its head, and what it sums up to. */
const ROWS = 110

t.test(
  'every view has its data with many calls, keys and routes, is light, and breaks no rule of axe',
  { skip: withoutServers, timeout: 600_000 },
  async (t) => {
    const dataFolder = await tempFolder(t)
    const facts = await fillConsole(dataFolder, SIZE)
    const [healthy, failing] = [await startSandbox(), await startSandbox()]
    t.teardown(() => Promise.all([healthy.close(), failing.close()]))
    const node = await startLarkway(t, {
      dataFolder,
      config: fullConfiguration(facts, { healthy: healthy.url, failing: failing.url }),
      env: { LARKWAY_USAGE: 'true', LARKWAY_JOBS: '0' },
    })
    const person = await openPerson(await openBrowser(t), node.url)
    const { page, complaints } = person
    await page.addInitScript(WATCH_READY)
    await person.signIn(facts.operator)
    await page.getByRole('heading', { level: 1, name: /overview/i }).waitFor()
    const found = await page.evaluate<{ records: readonly { record_id: string }[] }>(
      `fetch('/console/api/log?workspace=acme&id=${facts.requestId}').then((answer) => answer.json())`,
    )
    const recordId = found.records[0]?.record_id ?? ''
    t.match(recordId, /^use_/)

    await t.test('views', async (t) => {
      for (const { name, path } of viewsOf({ ...facts, provider: FAILING, recordId })) {
        if (SMALL.test(name)) continue
        let ms = 0
        const sizes = await weighed(page, async () => {
          ms = await openView(page, path)
        })
        const shown = await shownOn(page)
        t.comment(`${name}: ${ms} ms, ${sizes.shell} bytes of ${sizes.all}, ${shown.rows} rows`)
        t.same(shown.troubles, [], `${name}: nothing is missing`)
        t.ok(sizes.shell > 1_000 && sizes.shell < SHELL_BYTES, `${name}: ${sizes.shell} bytes`)
        t.ok(sizes.all < ALL_BYTES, `${name}: ${sizes.all} bytes with its data`)
        t.ok(shown.rows <= ROWS, `${name}: ${shown.rows} rows`)
        t.same(await axeFaults(page), [], `axe: ${name}`)
      }
    })
    await openView(page, '/acme/keys')
    t.comment(`search: ${await findByKeyboard(page, facts.keyName)} ms`)

    await t.test('which provider fails, since when, and whom it hits', async (t) => {
      const call = () =>
        fetch(`${node.url}/v1/speech`, {
          method: 'POST',
          headers: { authorization: `Bearer ${facts.callers[0]}`, 'content-type': 'application/json' },
          body: '{"input":"e"}',
        })
      t.equal((await call()).status, 200)
      await failing.close()
      t.ok(await waitUntil(async () => (await call()).status >= 500, 10_000, 200))
      // Beside the calls of five minutes that went well.
      for (let count = 0; count < FAILURES; count += 1) await call()
      // Nodes write down what they saw every 5 s.
      await sleep(6_000)
      const seen = await readTrouble(page, FAILING)
      t.comment(`${seen.milliseconds} ms: ${seen.text}`)
      t.ok(seen.isWhole, seen.text)
      t.match(seen.text, /app-000/)
    })
    t.same(complaints.said, [], 'no view complains')
    t.same([...complaints.origins], [node.url], 'and none asks another origin')
  },
)
