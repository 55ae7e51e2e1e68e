import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { larkway } from '../support/cli.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

/** So soon a node knows what became of a key. */
const SOON_MS = 5_000

async function statusOf({ url }: Gateway, key: string): Promise<number> {
  const response = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  await response.arrayBuffer()
  return response.status
}

async function become(t: Test, node: Gateway, key: string, status: number, what: string): Promise<void> {
  const startedAtMs = performance.now()
  const did = await waitUntil(async () => (await statusOf(node, key)) === status, SOON_MS)
  t.ok(did, `${what} (after ${Math.round(performance.now() - startedAtMs)} ms)`)
}

/** A key of the demo, and all the commands with the environment of a node. */
async function createdFor(t: Test, env: Record<string, string>) {
  const run = (...args: string[]) => larkway(args, { cwd: t.testdirName, env })
  const { code, output, errors } = await run('key', 'create', '--workspace', 'demo', '--app', 'demo')
  t.same({ code, errors }, { code: 0, errors: '' })
  const [, key = '', id = ''] = /^key {2}(\S+)\nid {3}(\S+)\n$/.exec(output) ?? []
  return { run, key, id }
}

t.test('beside a running server: a key serves soon after it is created, and is soon refused', async (t) => {
  t.testdir()
  const node = await startGateway(t)
  const { run, key, id } = await createdFor(t, { LARKWAY_DATA: node.dataFolder })
  await become(t, node, key, 200, 'created')
  const me = await fetch(`${node.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
  t.match(await me.json(), {
    workspace: { id: 'demo' },
    app: { id: 'demo' },
    key: { id, prefix: key.slice(0, 12) },
  })

  const speech = await fetch(`${node.url}/v1/speech`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ input: 'hello' }),
  })
  t.equal(speech.status, 200, 'it speaks')
  await speech.arrayBuffer()

  t.match(await run('key', 'revoke', id), { code: 0 })
  await become(t, node, key, 401, 'revoked')
  t.equal(await statusOf(node, node.key), 200, 'the key of the demo goes on')
  t.match(await run('key', 'list'), { code: 0, output: / revoked / })
})

t.test('beside a running server: credits are there with the next call', async (t) => {
  t.testdir()
  const node = await startGateway(t)
  const env = { LARKWAY_DATA: node.dataFolder }
  const add = ['credits', 'add', '--workspace', 'demo', '--usd', '2.5']
  t.match(await larkway(add, { cwd: t.testdirName, env }), { code: 0, output: /\ncredits {2}2\.50 USD\n$/ })
  const seen = await waitUntil(async () => {
    const me = await fetch(`${node.url}/v1/me`, { headers: { authorization: `Bearer ${node.key}` } })
    const { billing } = (await me.json()) as { billing: { credits_usd: number | null } }
    return billing.credits_usd === 2.5
  })
  t.ok(seen, 'the server has the same file')
})

t.test('a key that ends ends by itself', async (t) => {
  t.testdir()
  const node = await startGateway(t)
  const run = (...args: string[]) =>
    larkway(args, { cwd: t.testdirName, env: { LARKWAY_DATA: node.dataFolder } })
  const expires = new Date(Date.now() + 10_000).toISOString()
  const { output } = await run('key', 'create', '--workspace', 'demo', '--app', 'demo', '--expires', expires)
  const key = /^key +(\S+)$/m.exec(output)?.[1] ?? ''
  await become(t, node, key, 200, 'created')
  await sleep(Math.max(0, Date.parse(expires) - Date.now()))
  t.equal(await statusOf(node, key), 401)
})

t.test('keys outlive the server', async (t) => {
  const folder = t.testdir()
  const first = await startGateway(t, { dataFolder: folder })
  const { key } = await createdFor(t, { LARKWAY_DATA: folder })
  await become(t, first, key, 200, 'created')
  t.equal(await first.signal('SIGTERM'), 0)
  const second = await startGateway(t, { dataFolder: folder })
  t.equal(await statusOf(second, key), 200, 'known with the first request')
})

t.test('two nodes that share a Redis', { skip: withoutServers }, async (t) => {
  t.testdir()
  const { url } = await startRedis(t)
  const env = { REDIS_URL: url }
  const key = makeKey()
  const nodes = await Promise.all([startGateway(t, { env, key }), startGateway(t, { env, key })])
  const made = await createdFor(t, env)
  await Promise.all(nodes.map((node, index) => become(t, node, made.key, 200, `created, node ${index}`)))
  t.match(await made.run('key', 'revoke', made.id), { code: 0 })
  await Promise.all(nodes.map((node, index) => become(t, node, made.key, 401, `revoked, node ${index}`)))
})

t.test('a Redis that goes away takes no key with it', { skip: withoutServers }, async (t) => {
  t.testdir()
  const redis = await startRedis(t, { durable: true })
  const node = await startGateway(t, { env: { REDIS_URL: redis.url } })
  const { run, key, id } = await createdFor(t, { REDIS_URL: redis.url })
  await become(t, node, key, 200, 'created')
  await redis.kill()
  await sleep(4_000)
  t.equal(await statusOf(node, key), 200, 'the last known keys hold')
  t.match(await run('key', 'revoke', id), { code: 1, errors: /^larkway: Redis does not answer/ })
  await redis.restart()
  t.ok(await waitUntil(async () => (await run('key', 'revoke', id)).code === 0, 20_000))
  await become(t, node, key, 401, 'revoked')
  const said = () => node.log.map(({ msg }) => String(msg)).filter((msg) => msg.startsWith('stored keys'))
  await waitUntil(() => said().length > 1)
  t.same(said(), ['stored keys cannot be read; the last known ones hold', 'stored keys can be read again'])
})
