import { randomBytes } from 'node:crypto'
import t from 'tap'
import { unseal } from '../../src/contracts/sealing.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { webhookSecretContext } from '../../src/gateway/webhooks/target.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { startWorkspaceApi, workspaceKeys } from './workspace-api.ts'

const DOMAINS = '/audio-url-domains'
const WEBHOOK = '/stt-webhook'

t.test('nodes that share a Redis share the settings', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [keys, secretKeys] = [workspaceKeys(), [randomBytes(32)]]
  const start = () =>
    startWorkspaceApi(t, { keys, secretKeys, state: (log) => createRedisState({ url, log }) })
  const [one, two] = [await start(), await start()]

  t.equal((await two.ask('GET', WEBHOOK)).status, 404)
  await one.ask('PUT', DOMAINS, { body: { domains: ['b.example.com', 'a.example.com'] } })
  t.same((await two.ask('GET', DOMAINS)).body, {
    domains: ['b.example.com', 'a.example.com'],
    max_domains: 20,
  })

  for (let round = 0; round < 10; round += 1) {
    const put = (name: string) => ({ body: { url: `https://${name}.example.com/${round}` } })
    const answers = await Promise.all([
      one.ask('PUT', WEBHOOK, put('one')),
      two.ask('PUT', WEBHOOK, put('two')),
    ])
    const stored = await one.state.settings.webhook('acme')
    const last = answers.find(({ body }) => body.url === stored?.url)
    const other = answers.find((answer) => answer !== last)
    t.same((await two.ask('GET', WEBHOOK)).body, { url: last?.body.url, created_at: last?.body.created_at })
    const context = webhookSecretContext('acme')
    t.equal(unseal(secretKeys, stored?.secret ?? '', context), last?.body.signing_secret)
    t.equal(unseal(secretKeys, stored?.previous?.secret ?? '', context), other?.body.signing_secret)
  }
  t.same((await one.ask('DELETE', WEBHOOK)).body, { deleted: true })
  t.same((await two.ask('DELETE', WEBHOOK)).body, { deleted: false })
})

t.test(
  'without Redis a call is refused, and is served when it is back',
  { skip: withoutServers },
  async (t) => {
    const redis = await startRedis(t, { durable: true })
    const api = await startWorkspaceApi(t, { state: (log) => createRedisState({ url: redis.url, log }) })
    const domains = ['a.example.com']
    await api.ask('PUT', DOMAINS, { body: { domains } })
    await redis.kill()
    for (const [method, path, body] of [
      ['GET', DOMAINS],
      ['PUT', DOMAINS, { domains: ['b.example.com'] }],
      ['GET', WEBHOOK],
      ['PUT', WEBHOOK, { url: 'https://a.example.com/' }],
      ['DELETE', WEBHOOK],
    ] as const) {
      const answer = await api.ask(method, path, { ...(body && { body }) })
      t.match(answer, { status: 503, body: { error: { code: 'DEPENDENCY_UNAVAILABLE', retryable: true } } })
      t.match(answer.headers.get('retry-after'), /^[1-9]/)
      t.notMatch(answer.text, /127\.0\.0\.1|redis|whsec_/i, `${method} ${path}`)
    }
    t.equal(
      (await api.ask('GET', DOMAINS, { key: api.keys.app })).status,
      403,
      'who may not call is told that',
    )
    await redis.restart()
    await waitUntil(async () => (await api.ask('GET', DOMAINS)).status === 200)
    t.same((await api.ask('GET', DOMAINS)).body.domains, domains)
  },
)
