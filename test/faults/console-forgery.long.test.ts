import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContext } from 'playwright-core'
import t, { type Test } from 'tap'
import { Pool } from 'undici'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { openBrowser } from '../support/browser.ts'
import { type ConsoleEndpoint, consoleEndpoints } from '../support/console-endpoints.ts'
import type { ConsoleNode, Visitor } from '../support/console-node.ts'
import { consoleKeys, openSandbox, startConsoleNode } from '../support/console-node.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { serveHostilePages } from './hostile-pages.ts'

let node: ConsoleNode
let pool: Pool

t.before(async () => {
  node = await startConsoleNode(t)
  pool = new Pool(node.url, { connections: 4 })
  t.teardown(() => pool.destroy())
})

type Sent = Readonly<Record<string, string | readonly string[] | undefined>>

interface Heard {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** With exactly these headers, also those that a browser would let nobody set. */
async function send(method: string, path: string, headers: Sent, body?: string): Promise<Heard> {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined)
  const answer = await pool.request({
    path,
    method: method as 'GET',
    headers: Object.fromEntries(given) as Record<string, string>,
    body: body ?? null,
  })
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
}

/** Names that are there, so that nothing but the forgery stands in the way. */
const THERE: Readonly<Record<string, string>> = {
  workspace: 'acme',
  purpose: 'notes',
  app: 'web',
  route: 'voice',
  name: 'acme-own',
  id: 'key_app',
  job: 'tj_none',
  session: 'live_none',
  record: 'use_none',
}

/** Queries without which there is nothing to read. */
const NEEDED: Readonly<Record<string, string>> = { '/console/api/workspaces/acme/names': '?of=apps' }

function pathTo({ path }: ConsoleEndpoint): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => THERE[name] ?? `no ${name} is known`)
}

/** All that a change could change, as an operator sees it. */
async function sight(operator: Visitor): Promise<string> {
  const paths = [
    ...['', '/routes', '/providers', '/keys', '/audio-url-domains', '/webhook', '/jobs', '/routes/voice'],
  ]
  const answers = [
    await operator.get('/workspaces'),
    await operator.get('/providers'),
    await operator.get('/audit'),
    ...(await Promise.all(paths.map((path) => operator.get(`/workspaces/acme${path}`)))),
  ]
  return answers.map(({ text }) => text).join('\n')
}

/** What a request has that was not made by the page; `undefined` takes a header away. */
function forgeries(url: string, otherToken: string): readonly (readonly [string, Sent])[] {
  const { host, port } = new URL(url)
  const types = [
    ...['text/plain', 'text/plain;charset=utf-8', 'text/plain; application/json', 'text/html', ''],
    ...['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonx'],
    ...['application/json-patch+json', 'text/json', 'application/ld+json', 'text/plain, application/json'],
  ]
  const origins = [
    ...[
      'null',
      'https://evil.example',
      `http://evil.example:${port}`,
      'http://127.0.0.1',
      'http://127.0.0.1:1',
    ],
    ...[`http://localhost:${port}`, `http://${host}.evil.example`, `http://evil.example/${host}`, 'file://'],
    ...[`http://${host}@evil.example`, `http://evil.example#${host}`, 'data:,', 'javascript:0', '//', ' '],
    ...[
      'chrome-extension://abcdefghijklmnop',
      `http://${host}, https://evil.example`,
      `http://[::1]:${port}`,
    ],
  ]
  const sites = [
    ...['cross-site', 'same-site', 'none', 'Same-Origin', 'same-origin, cross-site', 'sameorigin', '*'],
  ]
  const tokens = ['', 'a'.repeat(43), otherToken, `${otherToken}=`, 'null', 'undefined']
  return [
    ['no token', { 'x-lk-csrf': undefined }],
    ['no type', { 'content-type': undefined }],
    ...tokens.map((token) => [`token ${token}`, { 'x-lk-csrf': token }] as const),
    ...types.map((type) => [`type ${type}`, { 'content-type': type }] as const),
    ...origins.map((origin) => [`origin ${origin}`, { origin }] as const),
    ...sites.map((site) => [`site ${site}`, { 'sec-fetch-site': site }] as const),
    ['two tokens', { 'x-lk-csrf': [otherToken, 'a'] }],
    [
      'a token in another header',
      { 'x-lk-csrf': undefined, 'x-csrf-token': otherToken, 'x-xsrf-token': otherToken },
    ],
    ['a host of its own choosing', { host: 'evil.example', origin: `http://${host}` }],
    ['a forwarded host', { 'x-forwarded-host': 'console.example', origin: 'http://evil.example' }],
  ]
}

t.test('no change is made for a request that another page could have sent', async (t) => {
  const operator = await node.signIn(node.keys.operator)
  const other = await node.signIn(node.keys.operator)
  const before = await sight(operator)
  const tokens = { cookie: operator.cookie, 'x-lk-csrf': operator.csrf, 'content-type': 'application/json' }
  const own = { ...tokens, origin: node.url, 'sec-fetch-site': 'same-origin' }
  const changes = consoleEndpoints().filter(
    ({ method, path }) => method !== 'GET' && !path.endsWith('/session') && !path.includes('/sign-in'),
  )
  const wrong: string[] = []
  let tries = 0
  for (const endpoint of changes)
    for (const [name, headers] of forgeries(node.url, other.csrf)) {
      const heard = await send(endpoint.method, pathTo(endpoint), { ...own, ...headers }, '{}')
      tries += 1
      const isRefused = heard.status === 403 && heard.text.includes('"PERMISSION_DENIED"')
      if (!isRefused)
        wrong.push(`${endpoint.method} ${endpoint.path}, ${name}: ${heard.status} ${heard.text}`)
    }
  t.comment(`${tries} tries at ${changes.length} endpoints`)
  t.ok(changes.length > 25)
  t.same(wrong.slice(0, 10), [], `${wrong.length} were not refused`)
  t.equal(await sight(operator), before, 'nothing is changed')
  const good = await send('PUT', '/console/api/workspaces/acme/content', own, '{"shown":false}')
  t.equal(good.status, 200, 'but for the forgery they are as the page sends them')
  for (const [name, headers] of forgeries(node.url, other.csrf)) {
    if ('x-lk-csrf' in headers) continue
    const signIn = { 'content-type': 'application/json', ...headers }
    const heard = await send('POST', '/console/api/session', signIn, JSON.stringify({ key: node.keys.admin }))
    t.equal(heard.status, 403, `nor is anybody signed in: ${name}`)
    t.notOk('set-cookie' in heard.headers)
  }
})

t.test('a GET changes nothing, whatever it says that it is', async (t) => {
  const operator = await node.signIn(node.keys.operator)
  const before = await sight(operator)
  const override = {
    'x-http-method-override': 'DELETE',
    'x-http-method': 'DELETE',
    'x-method-override': 'DELETE',
  }
  // What signs in has nothing to read, and answers whoever asks.
  const endpoints = consoleEndpoints().filter(({ path }) => !path.includes('/sign-in'))
  const paths = new Set(endpoints.map(pathTo))
  const read = new Set(endpoints.filter(({ method }) => method === 'GET').map(pathTo))
  const odd: string[] = []
  for (const path of paths)
    for (const [query, headers] of [
      ['', {}],
      ['?_method=DELETE', {}],
      ['', override],
    ] as const)
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        const sent = { cookie: operator.cookie, 'x-lk-csrf': operator.csrf, ...headers }
        const { status, headers: said } = await send(method, path + (query || (NEEDED[path] ?? '')), sent)
        const wanted = method === 'OPTIONS' || !read.has(path) ? [405] : query === '' ? [200, 404] : [400]
        if (!wanted.includes(status)) odd.push(`${method} ${path}${query}: ${status}`)
        if (Object.keys(said).some((name) => name.startsWith('access-control-'))) odd.push(`${path}: CORS`)
      }
  t.same(odd, [])
  t.equal(await sight(operator), before)
  t.equal((await operator.get('/session')).status, 200, 'and the session goes on')
})

t.test('only the cookie itself is a session, and nobody chooses its token for another', async (t) => {
  const visitor = await node.signIn(node.keys.admin)
  const token = visitor.cookie.split('=')[1] ?? ''
  const path = '/console/api/session'
  const rows: Sent[] = [
    ...[`LK_CONSOLE=${token}`, `lk_console="${token}"`, `lk_consolex=${token}`, `x-lk_console=${token}`].map(
      (cookie) => ({ cookie }),
    ),
    ...[
      `__Host-lk_console=${token}`,
      `lk_console =${token}`,
      `$lk_console=${token}`,
      `lk_console%3d${token}`,
    ].map((cookie) => ({ cookie })),
    ...[`${token}`, `a=lk_console=${token}`, `lk_console=${token}x`, `lk_console=${token.toLowerCase()}`].map(
      (cookie) => ({ cookie }),
    ),
    ...[
      `lk_console=x; lk_console=${token}`,
      `lk_console=${token}; lk_console=`,
      `lk_console=; lk_console=${token}`,
    ].map((cookie) => ({ cookie })),
    { authorization: `Bearer ${token}` },
    { authorization: `Bearer ${node.keys.admin}` },
    { cookie2: visitor.cookie, 'x-lk-csrf': visitor.csrf },
    { 'x-forwarded-user': 'admin', 'x-lk-console': token },
    { cookie: `lk_console=${hash('sha256', token)}` },
    { cookie: `lk_console=${hashKey(node.keys.admin)}` },
    { cookie: `lk_console=${'x'.repeat(6_000)}` },
  ]
  for (const headers of rows) {
    const { status } = await send('GET', path, headers)
    t.equal(status, 401, JSON.stringify(headers).slice(0, 80))
  }
  t.equal((await send('GET', `${path}?lk_console=${token}`, {})).status, 401)

  const chosen = 'A'.repeat(43)
  const fixed = await send(
    'POST',
    path,
    { cookie: `lk_console=${chosen}`, 'content-type': 'application/json' },
    JSON.stringify({ key: node.keys.admin }),
  )
  t.equal(fixed.status, 200)
  t.notOk(
    String(fixed.headers['set-cookie']).includes(chosen),
    'a token that was there before is not taken up',
  )
  t.equal((await send('GET', path, { cookie: `lk_console=${chosen}` })).status, 401)
  const again = await node.signIn(node.keys.admin, { cookie: visitor.cookie })
  t.not(again.cookie, visitor.cookie, 'each sign-in has a token of its own')
})

t.test('tokens are many, alike to nothing, and not kept', async (t) => {
  const tokens = new Set<string>()
  const visitors: Visitor[] = []
  for (let round = 0; round < 40; round++) {
    // A key may sign in so many times a minute.
    const visitor = await node.signIn(round % 2 === 0 ? node.keys.admin : node.keys.foreignAdmin)
    visitors.push(visitor)
    for (const token of [visitor.cookie.split('=')[1] ?? '', visitor.csrf]) {
      t.match(token, /^[\w-]{43}$/)
      tokens.add(token)
    }
  }
  t.equal(tokens.size, 80)
  const bits = [...tokens].map((token) => Buffer.from(token, 'base64url'))
  const ones = Array.from(
    { length: 256 },
    (_, bit) => bits.filter((one) => (one[bit >> 3]! >> (bit & 7)) & 1).length,
  )
  t.ok(
    ones.every((count) => count > 8 && count < 72),
    'every bit of them is drawn',
  )
  const derived = [node.keys.admin, hashKey(node.keys.admin), 'key_admin', '']
  const texts = derived.flatMap((text) => [text, hash('sha256', text), hash('sha256', text, 'base64url')])
  t.notOk([...tokens].some((token) => texts.includes(token) || token.includes('key_admin')))
  // The write-ahead log of the embedded state is a file beside it.
  const files = await readdir(node.dataFolder)
  const kept = await Promise.all(
    files
      .filter((name) => name.startsWith('state.sqlite'))
      .map((name) => readFile(join(node.dataFolder, name))),
  )
  const cookies = visitors.map(({ cookie }) => cookie.split('=')[1] ?? '')
  t.ok(
    kept.some((bytes) => bytes.includes(hash('sha256', cookies[0] ?? ''))),
    'its digest is in the state',
  )
  t.notOk(
    kept.some((bytes) => cookies.some((token) => bytes.includes(token))),
    'and the token is not',
  )
})

t.test('no answer is kept by a cache, and nothing secret is in the log', async (t) => {
  const admin = await node.signIn(node.keys.admin)
  const json = { cookie: admin.cookie, 'content-type': 'application/json', 'x-lk-csrf': admin.csrf }
  const cookie = { cookie: admin.cookie }
  const answers: readonly (readonly [string, Heard])[] = [
    ...(await Promise.all(
      consoleEndpoints().map(async (one) => {
        const path = pathTo(one)
        return [
          `${one.method} ${path}`,
          await send(one.method, path, one.path.endsWith('/session') ? {} : cookie),
        ] as const
      }),
    )),
    ['401', await send('GET', '/console/api/workspaces', {})],
    ['404', await send('GET', '/console/api/nothing', cookie)],
    ['404 workspace', await send('GET', '/console/api/workspaces/other', cookie)],
    ['405', await send('PUT', '/console/api/workspaces/acme/models', json, '{}')],
    ['400', await send('GET', '/console/api/workspaces?x=1', cookie)],
    ['413', await send('PUT', '/console/api/workspaces/acme/apps/x', json, 'x'.repeat(300_000))],
  ]
  for (const [name, { status, headers }] of answers) {
    t.equal(headers['cache-control'], 'no-store', `${name}: ${status}`)
    t.equal(headers['x-content-type-options'], 'nosniff', name)
    t.match(headers['content-type'], /^application\/json/, name)
  }
  await send('GET', '/console/api/workspaces', {
    cookie: 'lk_console=leaked-cookie',
    'x-lk-csrf': 'leaked-token',
  })
  const log = JSON.stringify(node.log)
  t.ok(log.includes('/console/api/workspaces'))
  for (const secret of [
    admin.cookie.split('=')[1]!,
    admin.csrf,
    node.keys.admin,
    'leaked-cookie',
    'leaked-token',
  ])
    t.notOk(log.includes(secret), 'not in the log')
})

t.test('guessing keys is slow, from one address and from many', async (t) => {
  const own = await startConsoleNode(t)
  const guess = (address?: string) =>
    own.ask('/session', {
      method: 'POST',
      body: { key: makeKey() },
      headers: address === undefined ? {} : { 'x-forwarded-for': address },
    })
  const statuses = async (count: number, addressOf: (index: number) => string | undefined) => {
    const seen: Record<number, number> = {}
    for (let index = 0; index < count; index++) {
      const { status } = await guess(addressOf(index))
      seen[status] = (seen[status] ?? 0) + 1
    }
    return seen
  }
  t.same(await statuses(30, () => '203.0.113.9'), { 401: 10, 429: 20 }, 'one address')
  t.same(
    await statuses(30, (index) => `2001:db8:1:2::${index.toString(16)}`),
    { 401: 10, 429: 20 },
    'one network',
  )
  t.same(
    await statuses(200, (index) => `198.51.100.${index}`),
    { 401: 80, 429: 120 },
    'one peer for all of them',
  )
  const named = await own.ask('/session', { method: 'POST', body: { key: own.keys.admin }, headers: {} })
  t.equal(named.status, 200, 'who does not come by way of that peer still signs in')
  t.same(await statuses(15, () => undefined), { 401: 10, 429: 5 }, 'no proxy')
})

const onTwoNodes = { skip: withoutServers }

t.test('a session ends everywhere: by signing out, and with its key', onTwoNodes, async (t) => {
  const redis = await startRedis(t)
  const shared = { keys: consoleKeys(), sandboxOrigin: await openSandbox(t), env: { REDIS_URL: redis.url } }
  const one = await startConsoleNode(t, shared)
  const two = await startConsoleNode(t, shared)
  const operator = await one.signIn(shared.keys.operator)
  const there = (cookie: string) => two.ask('/session', { headers: { cookie } })

  const admin = await one.signIn(shared.keys.admin)
  t.equal((await there(admin.cookie)).status, 200, 'both know it')
  t.equal((await admin.delete('/session')).status, 200)
  t.equal((await there(admin.cookie)).status, 401, 'and neither does any more')
  t.equal((await one.ask('/session', { headers: { cookie: admin.cookie } })).status, 401)

  const make = async (more: object) =>
    (await operator.post('/workspaces/acme/keys', { name: 'brief', app: 'web', scopes: ['admin'], ...more }))
      .body
  const key = await make({})
  const [first, second] = [await one.signIn(String(key.key)), await one.signIn(String(key.key))]
  t.equal(
    (await there(first.cookie)).status,
    200,
    'the other node does not end a session for a key that is new to it',
  )
  t.equal((await operator.delete(`/workspaces/acme/keys/${key.id}`)).status, 200)
  t.equal((await first.get('/session')).status, 401, 'the node that revoked it knows at once')
  const startedAt = Date.now()
  await until(t, 'so does the other one', async () => (await there(second.cookie)).status === 401)
  t.comment(`${Date.now() - startedAt} ms after it`)

  const brief = await make({ expires_at: new Date(Date.now() + 4_000).toISOString() })
  const visitor = await one.signIn(String(brief.key))
  await until(t, 'it ends with its time', async () => (await there(visitor.cookie)).status === 401)
  t.equal((await visitor.get('/session')).status, 401)
})

async function until(t: Test, name: string, holds: () => Promise<boolean>): Promise<void> {
  for (const endMs = Date.now() + 15_000; Date.now() < endMs; ) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.fail(name)
}

/** Changes worth forging, with bodies that would be taken if they came from the page. */
const WORTHWHILE = [
  { method: 'PUT', path: '/console/api/workspaces/acme/content', body: { shown: true } },
  {
    method: 'POST',
    path: '/console/api/workspaces/acme/keys',
    body: { name: 'mine', app: 'web', scopes: ['admin'] },
  },
  { method: 'DELETE', path: '/console/api/workspaces/acme/purposes/notes', body: {} },
  { method: 'PUT', path: '/console/api/workspaces/acme/webhook', body: { url: 'https://evil.example/' } },
  { method: 'POST', path: '/console/api/workspaces/acme/credits', body: { amount_usd: 1, grant_id: 'mine' } },
  { method: 'DELETE', path: '/console/api/session', body: {} },
]

async function signInWith(context: BrowserContext, key: string) {
  const page = await context.newPage()
  await page.goto(`${node.url}/console`)
  await page.locator('.sign-in input').fill(key)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/console\/\w+\/overview/)
  return page
}

t.test('a page of another origin gets nowhere in a real browser', async (t) => {
  const browser = await openBrowser(t)
  const pages = await serveHostilePages(t)
  const operator = await node.signIn(node.keys.operator)
  for (const [kind, address] of Object.entries(pages)) {
    const before = await sight(operator)
    const lines = node.log.length
    const context = await browser.newContext()
    const victim = await signInWith(context, node.keys.operator)
    const [cookie] = await context.cookies(`${node.url}/console`)
    t.match(cookie, {
      name: 'lk_console',
      path: '/console',
      httpOnly: true,
      sameSite: 'Strict',
      secure: false,
    })
    t.same(await context.cookies(`${node.url}/v1/me`), [], 'no other path of the host is sent it')
    t.equal(await victim.evaluate('document.cookie'), '', 'nor does a script see it')

    const page = await context.newPage()
    await page.goto(address)
    const results = (await page.evaluate(
      `attack(${JSON.stringify(node.url)}, ${JSON.stringify(WORTHWHILE)})`,
    )) as Record<string, string>
    for (const [name, result] of Object.entries(results)) {
      if (/^(json|read|module)/.test(name)) t.match(result, /^failed/, `${kind}: ${name}`)
      if (/^script/.test(name)) t.equal(result, 'refused', `${kind}: ${name}`)
    }
    t.match(results, { 'opened document': /^failed/ }, 'a window that it opens is out of its reach')
    t.equal(results.opened, 'cut')
    const framed = page.frames().find((frame) => frame.name() === 'console')
    t.equal(framed?.url(), 'chrome-error://chromewebdata/', 'the console is not shown in a frame')
    t.ok(Object.keys(results).length > 40)

    await until(t, 'its requests are in the log', async () => attempted(lines).length > 20)
    const statuses = Object.groupBy(attempted(lines), ({ status }) => String(status))
    t.comment(
      kind,
      Object.entries(statuses).map(([status, all]) => `${status}: ${all?.length}`),
    )
    t.same(
      attempted(lines).filter(({ status }) => Number(status) < 400),
      [],
      'every change that reached us was refused',
    )
    t.equal(await sight(operator), before, 'nothing is changed')
    t.equal(await victim.evaluate('fetch("/console/api/session").then((answer) => answer.status)'), 200)
    await context.close()
  }
})

/** Requests for a change that came since a line of the log, but for those that sign somebody in. */
function attempted(lines: number): Readonly<Record<string, unknown>>[] {
  return node.log.slice(lines).filter(({ method, path }) => {
    const isChange = method === 'POST' || method === 'PUT' || method === 'DELETE'
    return isChange && !(method === 'POST' && path === '/console/api/session')
  })
}
