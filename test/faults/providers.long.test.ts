import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startDemoProcess } from '../support/demo-route.ts'
import { startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { type Watched, watchTenants } from '../support/tenant-watch.ts'
import { filledWav } from '../support/wav.ts'

const SIZES = 45

/** Two workspaces, each with a provider of its own name at the same address, so that they share its connections. */
function twoTenants(origin: string, keys: Readonly<Record<'A' | 'B', string>>): object {
  const tenants = ['A', 'B'] as const
  const of = <Value>(make: (tenant: 'A' | 'B') => Value) =>
    Object.fromEntries(tenants.map((name) => [name, make(name)]))
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 10_000 },
    providers: of((name) => ({
      kind: 'openai-compatible',
      access: 'byok',
      workspace: name,
      base_url: `${origin}/${name}`,
    })),
    routes: of((name) => ({
      workspace: name,
      entries: [{ provider: name, model: 'large-v3', price: { per_hour_usd: 0 } }],
    })),
    workspaces: of((name) => ({
      apps: { web: { route: name } },
      keys: [{ id: `key_${name}`, app: 'web', sha256: hashKey(keys[name]) }],
    })),
  }
}

for (const memory of ['64', '8']) {
  t.test(`a provider that answers before it has read: ${memory} MiB`, { timeout: 200_000 }, async (t) => {
    const watched: Watched = { requests: 0, foreign: [] }
    const tenantOf = (head: string) => /POST \/(\w)\//.exec(head)?.[1]?.charCodeAt(0) ?? 0
    const upstream = createServer((socket) => watchTenants(socket, watched, tenantOf, [...Buffer.from('AB')]))
    upstream.listen(0, '127.0.0.1')
    await once(upstream, 'listening')
    t.teardown(() => upstream.close())
    const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
    const keys = { A: makeKey(), B: makeKey() }
    const gateway = await startLarkway(t, {
      config: twoTenants(origin, keys),
      env: { LARKWAY_MEMORY_MIB: memory },
    })

    const statuses = new Set<number>()
    for (let index = 0; index < SIZES; index += 1) {
      const bytes = 1_000 + Math.round(14_000_000 * (index / (SIZES - 1)) ** 2)
      const post = async (tenant: 'A' | 'B') => {
        const body = filledWav(bytes, tenant.charCodeAt(0))
        const headers = { authorization: `Bearer ${keys[tenant]}`, 'content-type': 'audio/wav' }
        const response = await fetch(`${gateway.url}/v1/transcription`, { method: 'POST', headers, body })
        statuses.add(response.status)
        await response.arrayBuffer()
      }
      await Promise.all([post('A'), post('B')])
    }
    await sleep(300)
    t.same(watched.foreign, [], 'no byte of one request reached another')
    const answers = [...statuses].join(', ')
    t.ok(
      watched.requests >= 2 * SIZES,
      `${watched.requests} requests reached the provider; answers: ${answers}`,
    )
    t.notOk(statuses.has(500), `answers: ${answers}`)
  })
}

t.test('an answer a minute after the last chunk, behind backpressure', { timeout: 180_000 }, async (t) => {
  // Less memory than the body needs: it goes to the store, and the sender is paused while the store is behind.
  const env = { LARKWAY_MEMORY_MIB: '16' }
  const gateway = await startDemoProcess(t, { entries: [{ delay_ms: 60_000 }], env })
  const wav = filledWav(24_000_000, 1)
  const head =
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
    `Content-Type: audio/wav\r\nContent-Length: ${wav.length}\r\n\r\n`

  const stays = await RawClient.connect(gateway.port)
  await stays.send(head, wav)
  const leaves = await RawClient.connect(gateway.port)
  await leaves.send(head, wav)
  const answer = stays.response({ timeoutMs: 120_000 })

  await sleep(20_000)
  leaves.destroy()
  const left = () => gateway.log.some(({ status }) => status === 499)
  for (let waited = 0; waited < 10_000 && !left(); waited += 200) await sleep(200)
  t.ok(left(), 'the one that left was noticed while the provider worked')

  const response = await answer
  t.equal(response?.status, 200, 'the one that stayed has its answer')
  t.match(response?.body.toString(), /"status":"succeeded"/)
  await stays.send('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await stays.response())?.status, 200, 'and its connection goes on')
  stays.destroy()
})
