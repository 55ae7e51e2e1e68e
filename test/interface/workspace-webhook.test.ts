import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { unseal } from '../../src/contracts/sealing.ts'
import { readSecretKeys } from '../../src/contracts/secrets.ts'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { webhookSecretContext } from '../../src/gateway/webhooks/target.ts'
import { startGateway } from '../support/gateway.ts'
import { tempFolder } from '../support/scratch.ts'
import { startWorkspaceApi, workspaceKeys } from './workspace-api.ts'

const PATH = '/stt-webhook'
const HOOK = 'https://hooks.example.com/stt'
const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/
const DAY_MS = 24 * 60 * 60 * 1000

t.test('a webhook is set, read and removed, and its secret is shown once', async (t) => {
  const api = await startWorkspaceApi(t)
  const none = await api.ask('GET', PATH)
  t.match(none, { status: 404, body: { error: { code: 'NOT_FOUND', retryable: false } } })

  const beforeMs = Date.now()
  const set = await api.ask('PUT', PATH, { body: { url: HOOK } })
  t.equal(set.status, 200)
  t.same(Object.keys(set.body), ['url', 'signing_secret', 'created_at'])
  t.equal(set.body.url, HOOK)
  t.match(set.body.signing_secret, SECRET)
  t.equal(Buffer.from(String(set.body.signing_secret).slice(6), 'base64').length, 32)
  t.match(set.body.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const createdAtMs = Date.parse(String(set.body.created_at))
  t.ok(createdAtMs >= beforeMs && createdAtMs <= Date.now())
  t.equal(set.headers.get('cache-control'), 'no-store')

  const got = await api.ask('GET', PATH)
  t.same([got.status, got.body], [200, { url: HOOK, created_at: set.body.created_at }])
  const theirs = await api.ask('GET', PATH, { key: api.keys.foreignAdmin, workspace: 'other' })
  t.equal(theirs.status, 404, 'of its own workspace only')

  for (const deleted of [true, false, false]) {
    const removed = await api.ask('DELETE', PATH)
    t.same([removed.status, removed.body], [200, { deleted }])
    t.equal((await api.ask('GET', PATH)).status, 404)
  }
})

t.test('setting it again makes a new secret, and the one before signs beside it for a day', async (t) => {
  const secretKeys = [randomBytes(32)]
  const api = await startWorkspaceApi(t, { secretKeys })
  const put = async (url: string) => (await api.ask('PUT', PATH, { body: { url } })).body
  const [first, second] = [await put(HOOK), await put(HOOK)]
  t.not(second.signing_secret, first.signing_secret)
  const opened = (sealed = '') => unseal(secretKeys, sealed, webhookSecretContext('acme'))
  const stored = await api.state.settings.webhook('acme')
  t.equal(opened(stored?.secret), second.signing_secret)
  t.equal(opened(stored?.previous?.secret), first.signing_secret)
  const leftMs = (stored?.previous?.untilMs ?? 0) - Date.now()
  t.ok(leftMs > DAY_MS - 60_000 && leftMs <= DAY_MS + 1_000, `for ${leftMs} ms`)

  const third = await put('https://other.example.com/')
  t.same((await api.ask('GET', PATH)).body, {
    url: 'https://other.example.com/',
    created_at: third.created_at,
  })
  const rotated = await api.state.settings.webhook('acme')
  t.equal(opened(rotated?.secret), third.signing_secret)
  t.equal(opened(rotated?.previous?.secret), second.signing_secret)
})

t.test('keys are replaced: old secrets stay readable, new ones are sealed with the first', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const [old, fresh] = [randomBytes(32), randomBytes(32)]
  const keys = workspaceKeys()
  const state = {
    state: (log: Parameters<typeof openEmbeddedState>[0]['log']) => openEmbeddedState({ file, log }),
    keys,
  }
  const before = await startWorkspaceApi(t, { ...state, secretKeys: [old] })
  const first = await before.ask('PUT', PATH, { body: { url: HOOK } })
  const after = await startWorkspaceApi(t, { ...state, secretKeys: [fresh, old] })
  const second = await after.ask('PUT', PATH, { body: { url: HOOK } })
  const stored = await after.state.settings.webhook('acme')
  const context = webhookSecretContext('acme')
  t.equal(unseal([fresh], stored?.secret ?? '', context), second.body.signing_secret)
  t.equal(unseal([fresh, old], stored?.previous?.secret ?? '', context), first.body.signing_secret)
  t.equal(unseal([fresh], stored?.previous?.secret ?? '', context), null)
  t.equal(
    unseal([fresh, old], stored?.secret ?? '', webhookSecretContext('other')),
    null,
    'another workspace',
  )
})

t.test('neither the state nor the log holds a secret, or a part of one', async (t) => {
  const folder = await tempFolder(t)
  const api = await startWorkspaceApi(t, {
    state: (log) => openEmbeddedState({ file: join(folder, 'state.sqlite'), log }),
  })
  const secrets: string[] = []
  for (let round = 0; round < 20; round += 1) {
    for (const [key, workspace] of [
      [api.keys.admin, 'acme'],
      [api.keys.foreignAdmin, 'other'],
    ] as const) {
      const url = `https://canary.example.com/${round}`
      const { body } = await api.ask('PUT', PATH, { key, workspace, body: { url } })
      secrets.push(String(body.signing_secret))
      await api.ask('GET', PATH, { key, workspace })
    }
  }
  await api.ask('DELETE', PATH)
  const bytes = Buffer.concat([await bytesIn(folder), Buffer.from(api.log.join(''))])
  t.ok(bytes.includes('canary.example.com/19'), 'what was stored is where the search is')
  t.notOk(bytes.includes('whsec_'))
  const parts = secrets.flatMap((secret) => {
    const raw = Buffer.from(secret.slice(6), 'base64')
    const texts = (['base64', 'base64url', 'hex'] as const).map((as) => Buffer.from(raw.toString(as)))
    return [...piecesOf(raw, 8), ...texts.flatMap((text) => piecesOf(text, 10))]
  })
  t.equal(firstIn(bytes, parts), null, 'eight bytes of a secret, or ten characters of one')
  t.equal(parts.length, 40 * (25 + 35 + 34 + 55))
  const some = parts.at(-1)!
  t.equal(firstIn(Buffer.concat([bytes, some]), parts), some, 'one at the very end would be found')
})

/** Every stretch of so many bytes. */
function piecesOf(bytes: Buffer, length: number): Buffer[] {
  return Array.from({ length: bytes.length - length + 1 }, (_, start) =>
    bytes.subarray(start, start + length),
  )
}

/** The first of the parts, each of four bytes or more, that stands in the bytes: one pass looks for all of them. */
function firstIn(bytes: Buffer, parts: readonly Buffer[]): Buffer | null {
  const byHead = new Map<number, Buffer[]>()
  for (const part of parts) {
    const head = part.readUInt32LE()
    byHead.set(head, [...(byHead.get(head) ?? []), part])
  }
  for (let at = 0; at + 4 <= bytes.length; at += 1) {
    const like = byHead.get(bytes.readUInt32LE(at))
    const found = like?.find((part) => part.equals(bytes.subarray(at, at + part.length)))
    if (found !== undefined) return found
  }
  return null
}

t.test('of two that come at once one is there in the end, whole, and the other beside it', async (t) => {
  const secretKeys = [randomBytes(32)]
  const api = await startWorkspaceApi(t, { secretKeys })
  const context = webhookSecretContext('acme')
  for (let round = 0; round < 20; round += 1) {
    const urls = ['one', 'two'].map((name) => `https://${name}.example.com/${round}`)
    const answers = await Promise.all(urls.map((url) => api.ask('PUT', PATH, { body: { url } })))
    const stored = await api.state.settings.webhook('acme')
    const last = answers.find(({ body }) => body.url === stored?.url)
    const other = answers.find((answer) => answer !== last)
    t.equal(unseal(secretKeys, stored?.secret ?? '', context), last?.body.signing_secret)
    t.equal(Date.parse(String(last?.body.created_at)), stored?.createdAtMs)
    t.equal(unseal(secretKeys, stored?.previous?.secret ?? '', context), other?.body.signing_secret)
  }
})

/** As sent → as kept. */
const TAKEN: readonly (readonly [string, string])[] = [
  ['https://hooks.example.com', 'https://hooks.example.com/'],
  ['HTTPS://Hooks.Example.COM/Path?q=1', 'https://hooks.example.com/Path?q=1'],
  ['https://hooks.example.com:8443/a', 'https://hooks.example.com:8443/a'],
  ['https://hooks.example.com:443/', 'https://hooks.example.com/'],
  ['https://bücher.example/ü', 'https://xn--bcher-kva.example/%C3%BC'],
  ['https://8.8.8.8/', 'https://8.8.8.8/'],
  ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  [`https://a.example/${'x'.repeat(2_030)}`, `https://a.example/${'x'.repeat(2_030)}`],
]
const REFUSED: readonly (readonly [url: unknown, message: RegExp])[] = [
  [undefined, /must be given/],
  [null, /must be a string/],
  [1, /must be a string/],
  [['https://a.example'], /must be a string/],
  ['', /must not be empty/],
  ['/hook', /absolute/],
  ['//a.example/hook', /absolute/],
  ['a.example/hook', /absolute/],
  ['https:', /absolute/],
  ['https://', /absolute/],
  ['https:///a.example', /absolute/],
  ['https:a.example', /absolute/],
  ['https:\\\\a.example', /absolute/],
  ['https://a.example/\\', /absolute/],
  [' https://a.example/', /absolute/],
  ['https://a.exa\tmple/', /absolute/],
  ['https://a.example/a b', /absolute/],
  ['https://a.example/\r\nX: y', /absolute/],
  ['https://a.example/\u0000', /absolute/],
  ['https://a.example:65536/', /absolute/],
  ['ftp://a.example/', /absolute/],
  ['javascript:alert(1)', /absolute/],
  ['http://a.example/', /https:\/\//],
  ['http://127.0.0.1/', /https:\/\//],
  ['http://localhost:3000/', /https:\/\//],
  ['https://user:password@a.example/', /credentials/],
  ['https://user@a.example/', /credentials/],
  ['https://a.example/#', /fragment/],
  ['https://a.example/#part', /fragment/],
  ['https://localhost/', /public host/],
  ['https://LOCALHOST./', /public host/],
  ['https://a.localhost/', /public host/],
  ['https://%6cocalhost/', /public host/],
  ['https://hooks/', /public host/],
  ['https://a.example./', /public host/],
  ['https://a..example/', /public host/],
  ['https://*.a.example/', /public host/],
  ['https://a_b.example/', /public host/],
  ['https://-a.example/', /public host/],
  [`https://${'a'.repeat(64)}.example/`, /public host/],
  ['https://0.0.0.0/', /public host/],
  ['https://10.1.2.3/', /public host/],
  ['https://100.64.0.1/', /public host/],
  ['https://127.0.0.1/', /public host/],
  ['https://127.1/', /public host/],
  ['https://0x7f000001/', /public host/],
  ['https://2130706433/', /public host/],
  ['https://0177.0.0.1/', /public host/],
  ['https://１２７.0.0.1/', /public host/],
  ['https://169.254.169.254/', /public host/],
  ['https://172.16.0.1/', /public host/],
  ['https://172.31.255.255/', /public host/],
  ['https://192.168.0.1/', /public host/],
  ['https://224.0.0.1/', /public host/],
  ['https://255.255.255.255/', /public host/],
  ['https://[::]/', /public host/],
  ['https://[::1]/', /public host/],
  ['https://[::127.0.0.1]/', /public host/],
  ['https://[::ffff:127.0.0.1]/', /public host/],
  ['https://[::ffff:a00:1]/', /public host/],
  ['https://[64:ff9b::a00:1]/', /public host/],
  ['https://[fd00::1]/', /public host/],
  ['https://[fe80::1]/', /public host/],
  ['https://[ff02::1]/', /public host/],
  [`https://a.example/${'x'.repeat(2_031)}`, /at most 2048/],
  [`https://a.example/${'ü'.repeat(400)}`, /at most 2048/],
]

t.test('which URLs are taken', async (t) => {
  const api = await startWorkspaceApi(t)
  for (const [sent, url] of TAKEN) {
    const { status, body } = await api.ask('PUT', PATH, { body: { url: sent } })
    t.same([status, body.url], [200, url], sent.slice(0, 80))
  }
  const kept = (await api.ask('GET', PATH)).body
  for (const [url, message] of REFUSED) {
    const answer = await api.ask('PUT', PATH, { body: { url } })
    const error = { code: 'INVALID_REQUEST', param: 'url', message }
    t.match(answer, { status: 400, body: { error } }, JSON.stringify(url)?.slice(0, 80))
  }
  t.same((await api.ask('GET', PATH)).body, kept, 'a refusal changes nothing')
  const refused = await api.ask('PUT', PATH, { body: { url: 'https://user:canary@a.example/' } })
  t.notMatch(refused.text + api.log.join(''), 'canary', 'what was sent is not repeated')
})

t.test('for development http at this machine is taken, too', async (t) => {
  const api = await startWorkspaceApi(t, { insecure: true })
  const put = async (url: string) => (await api.ask('PUT', PATH, { body: { url } })).status
  for (const url of [
    'http://127.0.0.1/',
    'http://127.0.0.1:3000/a?b=c',
    'http://localhost',
    'http://localhost:80/a',
    HOOK,
  ])
    t.equal(await put(url), 200, url)
  for (const url of [
    ...['http://a.example/', 'http://127.0.0.2/', 'http://10.0.0.1/', 'http://[::1]/', 'http://a.localhost/'],
    ...['http://user@localhost/', 'http://localhost/#', 'https://localhost/', 'https://127.0.0.1/'],
  ]) {
    t.equal(await put(url), 400, url)
  }
})

t.test('a node keeps what was set through a restart, sealed with its own key', async (t) => {
  const dataFolder = await tempFolder(t)
  const key = makeKey()
  const start = (env: Record<string, string> = {}) => startGateway(t, { dataFolder, key, env })
  const ask = async (url: string, method: string, body?: object) => {
    const response = await fetch(`${url}/workspace/demo${PATH}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const development = { url: 'http://127.0.0.1:3000/' }
  const before = await start()
  t.equal((await ask(before.url, 'PUT', development)).status, 400)
  const set = await ask(before.url, 'PUT', { url: HOOK })
  t.match(set, { status: 200, body: { url: HOOK, signing_secret: SECRET } })
  await before.signal('SIGTERM')

  const after = await start({ LARKWAY_INSECURE_WEBHOOKS: 'true' })
  t.same((await ask(after.url, 'GET')).body, { url: HOOK, created_at: set.body.created_at })
  t.equal((await ask(after.url, 'PUT', development)).status, 200)
  await after.signal('SIGTERM')
  const bytes = await bytesIn(dataFolder)
  t.ok(bytes.includes('127.0.0.1:3000'))
  t.notOk(bytes.includes('whsec_'))
  t.notOk(bytes.includes(Buffer.from(String(set.body.signing_secret).slice(6), 'base64')))
  const state = await openEmbeddedState({
    file: join(dataFolder, 'state.sqlite'),
    log: pino({ level: 'silent' }),
  })
  t.teardown(() => state.close())
  const stored = await state.settings.webhook('demo')
  const secretKeys = await readSecretKeys(undefined, dataFolder)
  const opened = unseal(secretKeys, stored?.previous?.secret ?? '', webhookSecretContext('demo'))
  t.equal(opened, set.body.signing_secret)
})

/** Of every file, the write-ahead log too. */
async function bytesIn(folder: string): Promise<Buffer> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return Buffer.concat(
    await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name)))),
  )
}
