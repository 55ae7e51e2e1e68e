import { join } from 'node:path'
import t from 'tap'
import type { EdgeRoute } from '../../src/gateway/edge/server.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { startEdge } from '../support/edge.ts'
import { scrape } from '../support/exposition.ts'
import { RawClient } from '../support/raw-client.ts'
import { usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'

const BODY = '{"input":"lark"}'
const TYPED = ['Content-Type: application/json', `Content-Length: ${BODY.length}`]
/** Heads that are refused, by the field at fault: latin1. */
const BAD: readonly (readonly [param: string, lines: readonly string[]])[] = [
  ['X-LK-End-User', [...TYPED, `X-LK-End-User: ${'a'.repeat(129)}`]],
  ['X-LK-End-User', [...TYPED, 'X-LK-End-User: a\xffb']],
  ['X-LK-End-User', [...TYPED, 'X-LK-End-User: \xfc']],
  ['Idempotency-Key', [...TYPED, 'Idempotency-Key: order-\xfc']],
  ['traceparent', [...TYPED, 'traceparent: \xc3\xbc']],
  ['X-LK-Purpose', [...TYPED, 'X-LK-Purpose: caf\xc3\xa9s']],
  ['X-LK-Require', [...TYPED, 'X-LK-Require: \xfc']],
  ['X-LK-Request-ID', [...TYPED, 'X-LK-Request-ID: a\xe9']],
  ['Content-Type', ['Content-Type: application/json\xa0', TYPED[1]!]],
]

t.test('a call with a key is recorded under its workspace, whatever else its head says', async (t) => {
  const node = await startConsoleNode(t, { env: { LARKWAY_USAGE: 'true', LARKWAY_METRICS_PORT: '0' } })
  const ask = async (lines: readonly string[], key?: string, path = '/v1/speech') => {
    const client = await RawClient.connect(node.port)
    const own = key === undefined ? [] : [`Authorization: Bearer ${key}`]
    const body = lines.includes(TYPED[1]!) ? BODY : ''
    const isSocket = path.endsWith('/stream')
    const first = `${isSocket ? 'GET' : 'POST'} ${path} HTTP/1.1`
    await client.send([first, 'Host: a', ...own, ...lines, '', body].join('\r\n'))
    const response = await client.response()
    client.destroy()
    const { error } = JSON.parse(`${response?.body}`) as { error?: { code: string; param: string | null } }
    return { status: response?.status, error, headers: response?.headers ?? {} }
  }
  for (const [param, lines] of BAD) {
    t.equal((await ask(lines)).status, 401, `${param}: without a key it is that`)
    t.equal((await ask(lines, `${node.keys.app}x`)).status, 401, `${param}: with a wrong one, too`)
    const answer = await ask(lines, node.keys.app)
    t.match(answer, { status: 400, error: { code: 'INVALID_REQUEST', param } }, lines.join())
    t.match(answer.headers['x-ratelimit-remaining-requests'], /^\d+$/, 'it took a token')
  }
  t.equal((await ask([])).status, 401)
  t.match(await ask([], node.keys.app), { status: 411, error: { code: 'LENGTH_REQUIRED' } })
  t.equal((await ask([], undefined, '/v1/speech/stream')).status, 401)
  t.match(await ask([], node.keys.app, '/v1/speech/stream'), { status: 400 }, 'no handshake')
  const tried = BAD.length + 2

  const { metrics_port } = node.log.find(({ msg }) => msg === 'listening')!
  const told = await scrape(Number(metrics_port))
  const failed = (code: string) => told.value('larkway_request_failures_total', { code })
  t.equal(failed('INVALID_REQUEST'), BAD.length + 1, 'each is counted once')
  t.equal(failed('UNAUTHENTICATED'), 2 * BAD.length + 2)
  t.equal(failed('LENGTH_REQUIRED'), 1)
  t.equal(node.log.filter(({ workspace, error }) => workspace === 'acme' && error).length, tried)
  const admin = await node.signIn(node.keys.admin)
  await waitUntil(async () => {
    const { requests } = (await admin.get('/workspaces/acme/requests')).body as { requests: unknown[] }
    return requests.length === tried
  })
  await node.signal('SIGTERM')
  const records = await usageRecords(join(node.dataFolder, 'usage-segments'))
  const own = records.filter(({ workspace, key_id }) => workspace === 'acme' && key_id === 'key_app')
  t.equal(own.length, tried, 'and in the ledger')
  t.equal(own.filter(({ status }) => status === 400).length, BAD.length + 1)
})

t.test('who has no token left is told so before the rest of the head is judged', async (t) => {
  const limit = { rate_limit: { requests_per_minute: 1, burst: 2 } }
  const node = await startConsoleNode(t, { config: (config) => ({ ...config, ...limit }) })
  const statuses: number[] = []
  for (let call = 0; call < 3; call++) {
    const headers = { authorization: `Bearer ${node.keys.app}`, 'x-lk-end-user': 'a'.repeat(129) }
    const response = await fetch(`${node.url}/v1/speech`, { method: 'POST', headers, body: BODY })
    await response.arrayBuffer()
    statuses.push(response.status)
  }
  t.same(statuses, [400, 400, 429])
})

t.test('an end user of any script is named in UTF-8, to its first and last byte', async (t) => {
  const seen: (string | undefined)[] = []
  const route: EdgeRoute = {
    method: 'GET',
    path: '/v1/me',
    handle(exchange) {
      seen.push(exchange.headers['x-lk-end-user'])
      exchange.reply({ status: 200, body: '{}' })
    },
  }
  const { port } = await startEdge(t, [route])
  const client = await RawClient.connect(port)
  t.teardown(() => client.destroy())
  const ids = ['李', 'Zoë', 'ärger', 'a李b', '顧客 🎧', 'ann', ' 李 ', '\t李\t']
  for (const id of ids) {
    const head = Buffer.from(
      `GET /v1/me HTTP/1.1\r\nHost: a\r\nX-LK-End-User: ${id}\r\nX-Rest: \u00fc\r\n\r\n`,
    )
    await client.send(head)
    t.equal((await client.response())?.status, 200, id)
  }
  t.same(
    seen,
    ids.map((id) => id.trim()),
  )
})
