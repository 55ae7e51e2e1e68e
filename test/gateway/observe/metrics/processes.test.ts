import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t from 'tap'
import { childEnvironment } from '../../../support/child-environment.ts'
import { larkway } from '../../../support/cli.ts'
import { type Exposition, scrape } from '../../../support/exposition.ts'
import { startWorker, UNUSED_STORE } from '../../../support/larkway.ts'
import { programOf } from '../../../support/program.ts'
import { startRedis } from '../../../support/redis-server.ts'
import { freePort } from '../../../support/scratch.ts'
import { withoutServers } from '../../../support/servers.ts'
import { waitUntil } from '../../../support/wait-until.ts'

t.test('a worker tells what it does', { skip: withoutServers, timeout: 60_000 }, async (t) => {
  const { url } = await startRedis(t)
  const worker = await startWorker(t, { env: { ...UNUSED_STORE, REDIS_URL: url, LARKWAY_METRICS_PORT: '0' } })
  const port = Number(worker.log.find(({ msg }) => msg === 'working')?.metrics_port)
  const { value } = await scrape(port)
  t.equal(value('larkway_jobs_running'), 0)
  t.equal(value('larkway_state_up'), 1)
  t.equal(value('larkway_requests_in_flight'), undefined, 'it has no door')
})

t.test('each of several processes has a port', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const { url } = await startRedis(t)
  const first = await freePort()
  const program = await programOf('cli.ts')
  const child = spawn(process.execPath, [...program.args, 'serve', '--processes', '2'], {
    env: childEnvironment({
      ...program.env,
      PORT: '0',
      HOST: '127.0.0.1',
      LARKWAY_METRICS_PORT: String(first),
      LARKWAY_DATA: t.testdir(),
      LARKWAY_DRAIN_SECONDS: '0',
      REDIS_URL: url,
      ...UNUSED_STORE,
    }),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const listening: number[] = []
  createInterface(child.stdout).on('line', (line) => {
    const { msg, metrics_port } = line.startsWith('{') ? JSON.parse(line) : { msg: '', metrics_port: 0 }
    if (msg === 'listening') listening.push(metrics_port)
  })
  t.ok(await waitUntil(() => listening.length === 2, 60_000))
  t.same(listening, [first, first + 1])
  const told: Exposition[] = await Promise.all(listening.map(scrape))
  const starts = told.map(({ value }) => value('process_start_time_seconds'))
  t.ok(starts.every((seconds) => seconds !== undefined))
  t.same(
    told.map(({ value }) => value('larkway_requests_in_flight')),
    [0, 0],
  )
})

t.test('ports that there are not are refused', async (t) => {
  const env = { REDIS_URL: 'redis://127.0.0.1:1', ...UNUSED_STORE, LARKWAY_METRICS_PORT: '65534' }
  t.match(await larkway(['serve', '--processes', '3'], { env }), {
    code: 1,
    errors: /3 processes need as many ports from LARKWAY_METRICS_PORT on/,
  })
})
