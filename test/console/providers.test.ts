import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { waitUntil } from '../support/wait-until.ts'

const SECRET = 'sk-live-0123456789abcdef'
const OWN = '/workspaces/acme/providers'

let node: ConsoleNode
let operator: Visitor
let admin: Visitor
/** Requests to providers, newest last. */
const asked: string[] = []
let upstream: string

t.before(async () => {
  node = await startConsoleNode(t)
  operator = await node.signIn(node.keys.operator)
  admin = await node.signIn(node.keys.admin)
  upstream = await startUpstream(t)
})

/** A list of models in OpenAI's format, for one credential. */
async function startUpstream(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    asked.push(request.headers.authorization ?? '')
    const isRight = request.headers.authorization === `Bearer ${SECRET}`
    response.writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' })
    response.end(isRight ? '{"data":[{"id":"one"},{"id":"two"}]}' : `{"error":{"message":"no ${SECRET}"}}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

/** Asserts that an answer does not hold the credential. */
function withoutSecret(t: Test, told: Told): Told {
  t.notOk(told.text.includes(SECRET) || told.text.includes('sealed'), 'no secret')
  return told
}

t.test('a workspace has providers of its own, and sees nothing of the others', async (t) => {
  const { providers, kinds } = (await admin.get(OWN)).body as {
    providers: object[]
    kinds: { kind: string }[]
  }
  t.same(providers, [
    {
      name: 'acme-own',
      kind: 'sandbox',
      access: 'byok',
      workspace: 'acme',
      base_url: null,
      credential: 'none',
      managed_by: 'file',
      facts: {},
    },
  ])
  t.ok(kinds.some(({ kind }) => kind === 'deepgram'))
  t.match(
    (await operator.get(OWN)).body.providers,
    [{ base_url: `${node.sandboxOrigin}/v1` }],
    'an operator sees the address',
  )
  const platform = (await operator.get('/providers')).body.providers
  t.match(platform, [
    { name: 'house', access: 'platform', workspace: null, facts: { price: { per_hour_usd: 1 } } },
  ])
})

t.test('a credential is kept sealed, stays when none is given, and is never shown', async (t) => {
  const path = `${OWN}/acme.dg`
  const made = withoutSecret(t, await admin.put(path, { kind: 'deepgram', credential: ` ${SECRET} ` }))
  t.match(made, {
    status: 200,
    body: { name: 'acme.dg', kind: 'deepgram', credential: 'stored', base_url: null, managed_by: 'console' },
  })
  withoutSecret(t, await operator.get(OWN))
  withoutSecret(t, await operator.get('/audit'))
  const priced = withoutSecret(t, await admin.put(path, { kind: 'deepgram', price: { per_hour_usd: 3 } }))
  t.match(priced.body, { credential: 'stored', facts: { price: { per_hour_usd: 3 } } })

  const other = await admin.put(path, { kind: 'elevenlabs' })
  t.match(
    other,
    { status: 400, issues: ['/api_key: is missing: the kind "elevenlabs" needs one'] },
    'a credential is of one kind',
  )
  t.match(await admin.delete(path), { status: 200, body: { deleted: true } })
  t.match(await admin.delete(path), {
    status: 404,
    body: { error: { message: 'there is no such provider' } },
  })
})

t.test('a provider is asked with its credential, and says what is wrong in our words', async (t) => {
  const path = `${OWN}/acme.compatible`
  const body = { kind: 'openai-compatible', credential: SECRET, base_url: upstream }
  t.match(await operator.put(path, body), { status: 200, body: { base_url: upstream, credential: 'stored' } })
  const good = await admin.post(`${path}/check`)
  t.match(good, { status: 200, body: { ok: true, models: ['one', 'two'], trouble: null } })
  t.equal(asked.at(-1), `Bearer ${SECRET}`)

  const kept = await admin.put(path, { kind: 'openai-compatible', price: { per_hour_usd: 1 } })
  t.match(kept, { status: 200, body: { base_url: null, credential: 'stored' } })
  t.match(
    (await operator.get(OWN)).body.providers,
    [{}, { name: 'acme.compatible', base_url: upstream }],
    'an admin leaves the address as it is',
  )
  const rotated = await operator.put(path, { kind: 'openai-compatible', credential: SECRET })
  t.match(rotated, { status: 200, body: { base_url: upstream } }, 'so does an operator who gives none')
  const withOwn = { kind: 'deepgram', credential: SECRET, base_url: upstream }
  t.match(await operator.put(`${OWN}/acme.eu`, withOwn), { body: { base_url: upstream } })
  const cleared = await operator.put(`${OWN}/acme.eu`, { kind: 'deepgram', base_url: null })
  t.match(cleared, { status: 200, body: { base_url: null } }, 'null brings the own one back')
  t.equal((await operator.delete(`${OWN}/acme.eu`)).status, 200)
  t.match((await admin.post(`${path}/check`)).body, { ok: true })

  await admin.put(path, { kind: 'openai-compatible', credential: 'sk-wrong' })
  const bad = withoutSecret(t, await admin.post(`${path}/check`))
  t.match(bad, { status: 200, body: { ok: false, models: [], trouble: /^401: / } })
  t.equal(asked.at(-1), 'Bearer sk-wrong')
  t.equal((await admin.post(`${OWN}/other-own/check`)).status, 404)
  t.match((await admin.post(`${OWN}/acme-own/check`)).body, { ok: true }, 'one of the file, too')
  t.equal((await admin.delete(path)).status, 200)
})

t.test('a provider of several servers shows how each of them is', async (t) => {
  const path = `${OWN}/acme.pooled`
  const base_urls = [upstream, 'http://127.0.0.1:1/v1']
  const health = { path: '/health', interval_ms: 100, unhealthy_after: 1 }
  const body = { kind: 'openai-compatible', credential: SECRET, base_urls, health }
  for (const address of [{ base_urls }, { health }]) {
    const told = await admin.put(path, { ...body, base_urls: undefined, health: undefined, ...address })
    const [param] = Object.keys(address)
    t.match(told, { status: 403, body: { error: { code: 'PERMISSION_DENIED', param } } })
  }
  t.match(await operator.put(path, body), { status: 200, body: { base_urls, health, base_url: null } })
  const shown = async (visitor: Visitor) =>
    ((await visitor.get(OWN)).body.providers as { name: string; replicas?: { up: boolean }[] }[]).find(
      ({ name }) => name === 'acme.pooled',
    )!
  const isSeen = async () => (await shown(operator)).replicas?.[1]?.up === false
  t.ok(await waitUntil(isSeen), 'its probes fail')
  t.match((await shown(operator)).replicas, [
    { up: true, calls: 0, ejections: 0, trouble: null },
    { up: false, trouble: /./ },
  ])
  const one = await shown(admin)
  t.equal(one.replicas?.length, 2)
  t.notMatch(JSON.stringify(one), /127\.0\.0\.1|health/, 'addresses are for operators')

  const kept = await admin.put(path, { kind: 'openai-compatible', price: { per_hour_usd: 1 } })
  t.equal(kept.status, 200)
  t.match(await shown(operator), { base_urls, health, facts: { price: { per_hour_usd: 1 } } })
  const single = { kind: 'openai-compatible', base_url: upstream }
  t.match(await operator.put(path, single), { status: 200, body: { base_url: upstream } })
  t.equal((await shown(operator)).replicas, undefined)
  t.match(await operator.put(path, { ...body, base_url: upstream }), {
    status: 400,
    issues: ['/base_urls: must be left out beside base_url'],
  })
  t.equal((await admin.delete(path)).status, 200)
})

t.test('addresses are for operators, and references for the file', async (t) => {
  const put = (body: object, name = 'acme.x') => admin.put(`${OWN}/${name}`, body)
  for (const base_url of [upstream, 'http://169.254.169.254/latest', ''])
    t.match(await put({ kind: 'openai', credential: SECRET, base_url }), {
      status: 403,
      body: { error: { code: 'PERMISSION_DENIED', param: 'base_url' } },
    })
  t.match(await put({ kind: 'openai-compatible', credential: SECRET }), {
    status: 400,
    issues: ['/base_url: is missing: the kind "openai-compatible" has no address of its own'],
  })
  for (const credential of [
    `\${HOME}`,
    'file:/etc/passwd',
    'sealed:sealed1.00000000.aaaa',
    'two words',
    'ü',
    '',
  ]) {
    const told = await put({ kind: 'openai', credential })
    t.match(told, { status: 400, body: { error: { param: 'credential' } } }, credential)
    t.notOk(credential.length > 2 && told.text.includes(credential), 'what was sent is not said again')
  }
  t.equal((await put({ kind: 'openai', credential: SECRET, api_key: `\${HOME}` })).status, 400)
  t.equal((await put({ kind: 'openai', credential: SECRET, access: 'platform' })).status, 400)
  t.equal((await put({ kind: 'openai', credential: SECRET, workspace: 'other' })).status, 400)
  t.match(await put({ kind: 'telepathy', credential: SECRET }), {
    status: 400,
    issues: [/there is no kind "telepathy"/],
  })
  t.match(await put({ kind: 'deepgram', credential: SECRET, limits: { voice_pattern: '(a+)+$' } }), {
    status: 400,
    issues: ['/limits/voice_pattern: only an operator may set this'],
  })
  for (const name of ['x', 'other.x', 'house', 'acme.a.b', 'acme.'])
    t.match(
      await put({ kind: 'openai', credential: SECRET }, name),
      { status: 400, body: { error: { param: 'name' } } },
      name,
    )
  t.match(await put({ kind: 'sandbox' }, 'acme-own'), {
    status: 400,
    issues: [/managed by the configuration file/],
  })
  t.match(await admin.delete(`${OWN}/acme-own`), {
    status: 400,
    issues: [/managed by the configuration file/],
  })
})

t.test('a provider that routes are built of cannot be taken away', async (t) => {
  await admin.put(`${OWN}/acme.used`, { kind: 'deepgram', credential: SECRET })
  const fields = { entries: [{ provider: 'acme.used', model: 'nova-3' }] }
  const route = '/workspaces/acme/routes/acme.using'
  const saved = await admin.put(`${route}/draft`, { fields, revision: null })
  t.equal(
    (await admin.post(`${route}/publish`, { revision: (saved.body.draft as { revision: number }).revision }))
      .status,
    200,
  )
  t.match(await admin.delete(`${OWN}/acme.used`), {
    status: 400,
    issues: ['/routes/acme.using/entries/0/provider: there is no provider "acme.used"'],
  })
  const models = (await admin.get('/workspaces/acme/models')).body.providers as {
    name: string
    open: boolean
    models: { model: string; capabilities: string[] }[]
  }[]
  t.same(models.map(({ name }) => name).sort(), ['acme-own', 'acme.used', 'house'])
  t.match(
    models.find(({ name }) => name === 'acme.used'),
    { kind: 'deepgram', access: 'byok', open: true },
  )
  t.ok(
    models
      .find(({ name }) => name === 'acme.used')
      ?.models.some((one) => one.model === 'nova-3' && one.capabilities.includes('audio_input')),
  )
  t.equal(models.find(({ name }) => name === 'house')?.open, false)
  t.equal((await admin.delete(route)).status, 200)
  t.equal((await admin.delete(`${OWN}/acme.used`)).status, 200)
})

t.test('providers of the platform are made by operators, for every workspace', async (t) => {
  const body = {
    kind: 'sandbox',
    base_url: `${node.sandboxOrigin}/v1`,
    capabilities: ['audio_input'],
    price: { per_hour_usd: 2 },
  }
  t.match(await operator.put('/providers/a.b', body), { status: 400, body: { error: { param: 'name' } } })
  t.match(await operator.put('/providers/shared', body), {
    status: 200,
    body: { access: 'platform', workspace: null },
  })
  const names = async (visitor: Visitor) =>
    ((await visitor.get('/workspaces/acme/models')).body.providers as { name: string }[]).map(
      ({ name }) => name,
    )
  t.ok((await names(admin)).includes('shared'))
  t.match((await operator.post('/providers/shared/check')).body, { ok: true })
  t.notOk(((await admin.get(OWN)).body.providers as { name: string }[]).some(({ name }) => name === 'shared'))
  t.equal((await operator.delete('/providers/shared')).status, 200)
  t.notOk((await names(admin)).includes('shared'))
})
