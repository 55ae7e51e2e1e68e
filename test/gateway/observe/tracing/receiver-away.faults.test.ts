import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { Pool } from 'undici'
import { type DemoProcess, startDemoProcess } from '../../../support/demo-route.ts'
import { type Manner, startOtlpReceiver } from '../../../support/otlp-receiver.ts'
import { startUpstream } from '../../../support/upstream/upstream.ts'
import { waitUntil } from '../../../support/wait-until.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'
const REQUESTS = LONG ? 20_000 : 1_600
const AT_ONCE = 16
/** Of a heap that has room for a full queue and not for all spans, since V8 collects late what it has room for. */
const SMALL_HEAP = '--max-old-space-size=64 --max-semi-space-size=2'
/** What the process may grow by from a quarter of the requests on; it is some 3 MiB. */
const GROWTH_MAX_MIB = 32
/** A process that has nothing left to do waits so long for its receiver, and some for whatever else. */
const STOP_MS_MAX = 9_000

async function residentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

/** A port at which nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** A gateway whose calls leave nothing in the state, so that no disk is waited for. */
async function open(t: Test, env: Readonly<Record<string, string>>): Promise<DemoProcess> {
  const { url } = await startUpstream(t)
  const sandbox = { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: url }
  return startDemoProcess(t, { upstreamUrl: url, env, config: { providers: { sandbox } } })
}

/** Half of them calls, which have the most spans, half of them looks at the account. @returns statuses and counts */
async function load(gateway: DemoProcess, count: number): Promise<Map<number, number>> {
  const pool = new Pool(gateway.url, { connections: AT_ONCE, pipelining: 1 })
  const statuses = new Map<number, number>()
  const headers = { ...gateway.authorization, 'content-type': 'application/json' }
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] })
  let left = count
  const ask = async () => {
    for (; left > 0; ) {
      left -= 1
      const call = left % 2 === 0
      const answer = call
        ? await pool.request({ method: 'POST', path: '/v1/chat', headers, body })
        : await pool.request({ method: 'GET', path: '/v1/me', headers })
      await answer.body.dump()
      statuses.set(answer.statusCode, (statuses.get(answer.statusCode) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
  await pool.close()
  return statuses
}

/** Every request is answered, memory stays, spans that are lost are told of, and the process ends in its time. */
async function assertUnharmed(t: Test, endpoint: string, reasons: RegExp, requests: number): Promise<void> {
  const small = { NODE_OPTIONS: SMALL_HEAP, OTEL_BSP_SCHEDULE_DELAY: '50' }
  const env = { ...small, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }
  const gateway = await open(t, env)
  const quarter = requests / 4
  t.same([...(await load(gateway, quarter))], [[200, quarter]])
  const beforeMiB = await residentMiB(gateway.pid)
  t.same([...(await load(gateway, requests - quarter))], [[200, requests - quarter]])
  const grownMiB = (await residentMiB(gateway.pid)) - beforeMiB
  t.ok(grownMiB < GROWTH_MAX_MIB, `grown by ${Math.round(grownMiB)} MiB in ${requests - quarter} requests`)
  const startMs = performance.now()
  t.equal(await gateway.signal('SIGTERM'), 0)
  const stopMs = performance.now() - startMs
  t.ok(stopMs < STOP_MS_MAX, `stopped in ${Math.round(stopMs)} ms`)
  await waitUntil(() => gateway.log.at(-1)?.msg === 'stopped')
  const told = gateway.log.filter(({ msg }) => msg === 'spans were lost')
  t.ok(told.length > 0 && told.length < 5, `${told.length} lines about it`)
  t.ok(told.every(({ reason, spans }) => reasons.test(String(reason)) && Number(spans) > 0))
  const lost = told.reduce((sum, { spans }) => sum + Number(spans), 0)
  // Of a call: itself, admit, body, attempt and settle; of a look at the account: itself and admit.
  t.equal(lost, (requests / 2) * (5 + 2), 'every one of them')
  t.comment(`${lost} spans lost, grown by ${grownMiB.toFixed(1)} MiB, stopped in ${stopMs.toFixed(0)} ms`)
  t.same(
    gateway.log.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
  )
}

const OURS = 'the queue is full|not taken before the end'

t.test('a receiver that is away', { timeout: 300_000 }, async (t) => {
  const port = await closedPort()
  await assertUnharmed(t, `http://127.0.0.1:${port}`, new RegExp(`^(${OURS}|the receiver .*)$`), REQUESTS)
})

t.test('one that refuses, fails, or hangs', { timeout: 600_000 }, async (t) => {
  const rows: [Manner, RegExp][] = [
    [400, new RegExp(`^(${OURS}|the receiver answers 400)$`)],
    [503, new RegExp(`^(${OURS}|the receiver .*)$`)],
    ['hang', new RegExp(`^(${OURS}|the receiver does not answer)$`)],
  ]
  for (const [manner, reasons] of rows) {
    const receiver = await startOtlpReceiver(t)
    receiver.behave(manner)
    // Memory is held to its bound at length above; for these a part is enough to fill the queue.
    await assertUnharmed(t, receiver.url, reasons, LONG ? REQUESTS : REQUESTS / 2)
    t.ok(receiver.requests.length > 0)
  }
})

t.test('what is left is sent when the process stops', async (t) => {
  const receiver = await startOtlpReceiver(t)
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: '600000' }
  const gateway = await open(t, env)
  await load(gateway, 40)
  t.equal(receiver.requests.length, 0)
  t.equal(await gateway.signal('SIGTERM'), 0)
  t.equal(receiver.spans.filter(({ kind }) => kind === 'SERVER').length, 40)
  t.equal(receiver.spans.filter(({ kind }) => kind === 'CLIENT').length, 20)
})
