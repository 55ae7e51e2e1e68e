import { execFileSync } from 'node:child_process'
import t from 'tap'
import { startMeteredNode } from '../support/metered-node.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Longest file that a process may write, bytes; a longer one fails as on a full disk. */
function limitFiles(pid: number, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`])
}

function hasLimits(): boolean {
  try {
    limitFiles(process.pid, 'unlimited')
    return true
  } catch {
    return false
  }
}

const skip = hasLimits() ? false : 'prlimit cannot set the limits of a process here'

t.test('a node whose disk is full says so, and is well again when it has room', { skip }, async (t) => {
  const node = await startMeteredNode(t)
  const ready = async () => {
    const response = await fetch(`${node.url}/readyz`)
    return { status: response.status, body: await response.json() }
  }
  const isWell = async () => (await ready()).status === 200
  const said = (msg: string) => node.log.filter((line) => line.msg === msg)
  const [full, well] = ['the state cannot be written', 'the state can be written again']
  t.ok(await waitUntil(isWell))

  // Calls find room in files that are long enough already; an idle node finds it out as well.
  limitFiles(node.pid, 4_096)
  t.ok(await waitUntil(async () => !(await isWell()), 30_000))
  // SQLite calls it full if a write crosses the limit, and failed if one begins behind it.
  const { status, body } = await ready()
  t.equal(status, 503)
  t.match(body, { status: 'unavailable', reason: /^disk_(?:full|failed)$/ })
  t.equal((await node.scrape()).value('larkway_state_up'), 0)
  t.equal((await fetch(`${node.url}/healthz`)).status, 200, 'a restart would mend nothing')
  for (let looks = 0; looks < 20; looks += 1) await ready()
  t.ok(await waitUntil(() => said(full).length > 0), 'the log comes a moment later')

  // Little room is not enough: the next calls would fill it.
  limitFiles(node.pid, 1_000_000)
  t.notOk(await waitUntil(isWell, 2_500))
  t.same(said(well), [])

  limitFiles(node.pid, 'unlimited')
  t.ok(await waitUntil(isWell, 30_000))
  t.same(await ready(), { status: 200, body: { status: 'ready', degraded: false } })
  t.equal((await node.scrape()).value('larkway_state_up'), 1)
  t.ok(await waitUntil(() => said(well).length > 0))
  t.match(said(full), [{ level: 'error', reason: /^(?:the disk is full|disk I\/O error)$/ }], 'one line')
  t.equal(said(full).length + said(well).length, 2)
  await node.serveTraffic()
})
