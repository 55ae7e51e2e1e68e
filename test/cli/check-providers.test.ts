import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { runInProcess, withoutAge } from '../support/cli.ts'
import { secret } from '../support/route-gateway.ts'

const sandbox = await startSandbox()
t.teardown(() => sandbox.close())

/** Refuses every key, as ElevenLabs does. */
const refusing = createServer((_request, response) => {
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end('{"detail":{"status":"invalid_api_key","message":"sk-secret is no key"}}')
})
await new Promise<void>((done) => refusing.listen(0, '127.0.0.1', done))
t.teardown(() => refusing.close())
const refusingUrl = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`

function directory(providers: object, models: readonly (readonly [string, string])[]): string {
  const entries = models.map(([provider, model]) => ({ provider, model, capabilities: ['audio_input'] }))
  const workspaces = { acme: { apps: { web: { route: 'voice' } } } }
  const routes = { voice: { workspace: 'acme', entries } }
  return t.testdir({ 'larkway.yaml': JSON.stringify({ providers, routes, workspaces }) })
}

const byok = { access: 'byok', workspace: 'acme' }
const env = { LIVE: makeKey() }

t.test('each provider is asked, and what that does not prove is said', async (t) => {
  const cwd = directory({ here: { kind: 'openai-compatible', base_url: sandbox.url, ...byok } }, [
    ['here', 'whisper-1'],
    ['here', 'house-blend'],
  ])
  const { code, output } = await runInProcess(['check', '--providers'], { cwd, env })
  t.equal(code, 0)
  t.match(
    output,
    /\nPROVIDER +KIND +ANSWER +IN ROUTES, NOT IN ITS LIST\nhere +openai-compatible +answers, \d+ models +house-blend\n/,
  )
  t.match(
    withoutAge(output),
    /a key without the permission to speak passes here and fails on its first synthesis\.\n$/,
  )
  t.notMatch(await runInProcess(['check'], { cwd, env }), { output: /ANSWER/ })
  const wrong = await runInProcess(['check', '--providers'], { cwd, env: { ...env, PORT: 'x' } })
  t.match(wrong, { code: 1, errors: /^larkway: environment: PORT must be integer\n$/ })
})

t.test('every replica is asked, and named where it does not answer', async (t) => {
  const base_urls = [sandbox.url, 'http://127.0.0.1:1/v1', `${sandbox.url}/v2`]
  const pool = { kind: 'openai-compatible', ...byok }
  const models = [
    ['well', 'whisper-1'],
    ['well', 'house-blend'],
  ] as const
  const well = { ...pool, base_urls: [sandbox.url, sandbox.url.replace('127.0.0.1', 'localhost')] }
  const good = await runInProcess(['check', '--providers'], { cwd: directory({ well }, models), env })
  t.equal(good.code, 0)
  t.match(good.output, /\nwell +openai-compatible +answers, \d+ models +house-blend\n/)

  const cwd = directory({ well: { ...pool, base_urls } }, models)
  const { code, output } = await runInProcess(['check', '--providers'], { cwd, env })
  t.equal(code, 1)
  t.match(
    output,
    /\nwell +openai-compatible +base_urls\[1\]: no connection[^;]*; base_urls\[2\]: 404: there is no/,
  )
})

t.test('a provider that refuses the key or is not there ends with 1', async (t) => {
  const cwd = directory(
    {
      eleven: { kind: 'elevenlabs', base_url: refusingUrl, api_key: secret('LIVE'), ...byok },
      gone: { kind: 'openai-compatible', base_url: 'http://127.0.0.1:1/v1', ...byok },
      astray: { kind: 'openai-compatible', base_url: `${sandbox.url}/v2`, ...byok },
    },
    [['eleven', 'scribe_v2']],
  )
  const { code, output } = await runInProcess(['check', '--providers'], { cwd, env })
  t.equal(code, 1)
  t.match(output, /\neleven +elevenlabs +401: the provider refused the credential/)
  t.match(output, /\ngone +openai-compatible +no connection/)
  t.match(output, /\nastray +openai-compatible +404: there is no list of models at its base_url/)
  t.notMatch(output, /sk-secret/)
  t.notMatch(output, env.LIVE)
})
