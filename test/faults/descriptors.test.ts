import { readFile, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'

const DESCRIPTORS = 400
const FLOOD = 1_000
const CALLS = 40
/** Clock ticks of /proc in a second. */
const TICKS = 100

/** Seconds of CPU that a process has used. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(' ')
  return (Number(fields[13]) + Number(fields[14])) / TICKS
}

t.test('callers who take every descriptor that they get', { timeout: 120_000 }, async (t) => {
  const node = join(await tempFolder(t), 'node')
  await writeFile(node, `#!/bin/bash\nulimit -n ${DESCRIPTORS}\nexec ${process.execPath} "$@"\n`, {
    mode: 0o755,
  })
  const gateway = await startLarkway(t, { node })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
  const asked = (method: string, path: string, body = '') =>
    new Promise<number>((resolve, reject) => {
      const call = request(gateway.url + path, { method, agent, headers }, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
      })
      call.on('error', reject).end(body)
    })
  const speak = () => asked('POST', '/v1/speech', JSON.stringify({ input: 'sos' }))
  // No provider has a connection yet: it is made when descriptors are scarce.
  t.equal(await asked('GET', '/v1/me'), 200)

  const flood = Array.from({ length: FLOOD }, () => connect(gateway.port, '127.0.0.1').on('error', () => {}))
  t.ok(await waitUntil(() => flood.filter(({ closed }) => closed).length >= FLOOD - DESCRIPTORS / 2, 20_000))
  t.ok(
    await waitUntil(() => gateway.log.some(({ msg }) => String(msg).startsWith('connections are refused'))),
  )
  const beforeSeconds = await cpuSeconds(gateway.pid)
  await sleep(2_000)
  const share = ((await cpuSeconds(gateway.pid)) - beforeSeconds) / 2
  t.ok(share < 0.3, `it rests: ${Math.round(100 * share)} % of a core`)
  const statuses = new Set<number>()
  for (let call = 0; call < CALLS; call++) statuses.add(await speak())
  t.same([...statuses], [200], 'who had a connection before is served, and providers are reached')

  for (const socket of flood) socket.destroy()
  const answers = async () =>
    (await fetch(`${gateway.url}/readyz`, { headers: { connection: 'close' } }).catch(() => null))?.status ===
    200
  t.ok(await waitUntil(answers, 20_000), 'others get connections again')
  t.equal(await speak(), 200)
  t.equal(await gateway.signal('SIGTERM'), 0)
})
