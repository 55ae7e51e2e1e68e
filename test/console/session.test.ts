import t from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { type ConsoleNode, startConsoleNode, type Visitor } from '../support/console-node.ts'
import { waitUntil } from '../support/wait-until.ts'

let node: ConsoleNode

t.before(async () => {
  node = await startConsoleNode(t)
})

const at = (address: string) => ({ 'x-forwarded-for': address })
const withoutId = (text: string) => text.replace(/req_\w+/, 'req')

t.test('a key of an operator or admin signs in; the cookie is for the console alone', async (t) => {
  const told = await node.ask('/session', { method: 'POST', body: { key: node.keys.admin } })
  t.equal(told.status, 200)
  t.match(told.body, {
    role: 'admin',
    workspace: 'acme',
    key: { id: 'key_admin', name: 'admin' },
    csrf_token: /^[\w-]{43}$/,
    version: /^\d+\.\d+\.\d+$/,
  })
  const hours = (Date.parse(String(told.body.expires_at)) - Date.now()) / 3_600_000
  t.ok(hours > 11.9 && hours <= 12, `it lasts ${hours} hours`)
  t.equal(told.headers.get('cache-control'), 'no-store')
  t.match(
    told.headers.get('set-cookie'),
    /^lk_console=[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict; Max-Age=43200$/,
  )
  const overTls = await node.ask('/session', {
    method: 'POST',
    body: { key: node.keys.operator },
    headers: { 'x-forwarded-proto': 'https' },
  })
  t.match(overTls.headers.get('set-cookie'), /; Max-Age=43200; Secure$/)
  t.equal(overTls.body.role, 'operator')
  t.not(overTls.body.csrf_token, told.body.csrf_token)
})

t.test('wrong keys of strangers lock no holder of a right one out, behind a proxy or not', async (t) => {
  const own = await startConsoleNode(t)
  const signIn = (key: string, address: string) =>
    own.ask('/session', { method: 'POST', body: { key }, headers: at(address) })
  const statuses: number[] = []
  for (let index = 0; index < 110; index++)
    statuses.push((await signIn(makeKey(), `203.0.113.${index % 11}`)).status)
  t.same([...new Set(statuses)], [401, 429])
  const limited = await signIn(makeKey(), '198.51.100.7')
  t.match(limited, { status: 429, body: { error: { code: 'RATE_LIMITED', retryable: true } } })
  t.equal((await signIn(own.keys.admin, '198.51.100.7')).status, 200, 'who sent no wrong key')
  t.equal((await signIn(own.keys.operator, '203.0.113.1')).status, 200, 'and whose address sent ten')
})

t.test('the session is found by its cookie alone, and ends when it is told to', async (t) => {
  const visitor = await node.signIn(node.keys.admin)
  const shown = await visitor.get('/session')
  t.match(shown, { status: 200, body: { role: 'admin', csrf_token: visitor.csrf } })
  t.equal(
    (await node.ask('/session', { headers: { authorization: `Bearer ${node.keys.admin}` } })).status,
    401,
  )

  const token = visitor.cookie.split('=')[1] ?? ''
  const cookies = [
    '',
    'lk_console=',
    `lk_console=${token.slice(1)}`,
    `lk_console=${hashKey(token)}`,
    `other=${token}`,
    `lk_console=${token}; lk_console=${token}`,
    `lk_console=${token}; lk_console=x`,
  ]
  for (const cookie of cookies)
    t.equal((await node.ask('/session', { headers: { cookie } })).status, 401, cookie)
  t.equal((await node.ask('/session', { headers: { cookie: `a=b; ${visitor.cookie}; c=d` } })).status, 200)

  const ended = await visitor.delete('/session')
  t.same([ended.status, ended.body], [200, { ended: true }])
  t.match(ended.headers.get('set-cookie'), /^lk_console=; Path=\/console; .*Max-Age=0$/)
  const after = await visitor.get('/session')
  t.match(after, { status: 401, body: { error: { code: 'UNAUTHENTICATED' } } })
  t.equal(after.headers.get('cache-control'), 'no-store')
  t.equal((await visitor.delete('/session')).status, 401)
})

t.test('other keys do not sign in, and wrong ones are slowed down by where they come from', async (t) => {
  const signIn = (body: unknown, headers = {}) => node.ask('/session', { method: 'POST', body, headers })
  t.match(await signIn({ key: node.keys.app }), {
    status: 403,
    body: { error: { code: 'PERMISSION_DENIED' } },
  })

  const wrong = [makeKey(), '', 'lk_live_x', node.keys.admin.slice(0, -1), 'a'.repeat(256)]
  const answers = new Set<string>()
  for (const key of [...wrong, ...wrong]) {
    const told = await signIn({ key }, at('203.0.113.7'))
    t.equal(told.status, 401)
    t.notOk(told.headers.has('set-cookie'))
    answers.add(withoutId(told.text))
  }
  t.equal(answers.size, 1, 'each the same answer')

  const limited = await signIn({ key: makeKey() }, at('203.0.113.7'))
  t.match(limited, { status: 429, body: { error: { code: 'RATE_LIMITED' } } })
  const seconds = Number(limited.headers.get('retry-after'))
  t.ok(seconds > 0 && seconds <= 60, `try again after ${seconds} s`)
  t.equal(
    (await signIn({ key: makeKey() }, at('198.51.100.9, 203.0.113.7'))).status,
    429,
    'the last one counts',
  )
  t.equal((await signIn({ key: node.keys.admin }, at('203.0.113.7, 198.51.100.9'))).status, 200)
  t.equal((await signIn({ key: node.keys.admin }, at('203.0.113.8'))).status, 200)
})

t.test('a body that is not as documented signs no one in', async (t) => {
  const key = node.keys.admin
  const rows: [string, unknown, number, string][] = [
    ['no JSON', '{"key":', 400, 'INVALID_REQUEST'],
    ['no object', [key], 400, 'INVALID_REQUEST'],
    ['no key', {}, 400, 'INVALID_REQUEST'],
    ['a number', { key: 7 }, 400, 'INVALID_REQUEST'],
    ['an unknown field', { key, remember: true }, 400, 'INVALID_REQUEST'],
    ['a long key', { key: 'a'.repeat(257) }, 400, 'INVALID_REQUEST'],
    ['a large body', { key, x: 'a'.repeat(256 * 1024) }, 413, 'REQUEST_TOO_LARGE'],
  ]
  for (const [name, body, status, code] of rows)
    t.match(await node.ask('/session', { method: 'POST', body }), { status, body: { error: { code } } }, name)
})

/** Headers, and whether a change that carries them is made. */
const CHANGES: [string, Record<string, string | undefined>, boolean][] = [
  ['as the page sends it', {}, true],
  ['of the same origin', { origin: 'SELF', 'sec-fetch-site': 'same-origin' }, true],
  ['with parameters of the type', { 'content-type': 'application/json; charset=utf-8' }, true],
  ['without a token', { 'x-lk-csrf': undefined }, false],
  ['with an empty token', { 'x-lk-csrf': '' }, false],
  ['with a token of the same length', { 'x-lk-csrf': 'a'.repeat(43) }, false],
  ['with the token of another session', { 'x-lk-csrf': 'OTHER' }, false],
  ['as a form', { 'content-type': 'application/x-www-form-urlencoded' }, false],
  ['as plain text', { 'content-type': 'text/plain' }, false],
  ['without a type', { 'content-type': undefined }, false],
  ['from another site', { 'sec-fetch-site': 'cross-site' }, false],
  ['from another host of the domain', { 'sec-fetch-site': 'same-site' }, false],
  ['typed in', { 'sec-fetch-site': 'none' }, false],
  ['from another origin', { origin: 'https://evil.example' }, false],
  ['by a proxy', { origin: 'https://lark.example:8443', 'x-forwarded-host': 'lark.example:8443' }, true],
  [
    'by a proxy, from elsewhere',
    { origin: 'https://evil.example', 'x-forwarded-host': 'lark.example' },
    false,
  ],
  ['from another port', { origin: 'http://127.0.0.1:1' }, false],
  ['from a page without an origin', { origin: 'null' }, false],
]

t.test('a change is made only when it comes from the page itself', async (t) => {
  const visitor = await node.signIn(node.keys.admin)
  const other = await node.signIn(node.keys.admin)
  const value = (text: string | undefined) =>
    text === 'SELF' ? node.url : text === 'OTHER' ? other.csrf : text
  let round = 0
  for (const [name, given, isMade] of CHANGES) {
    const headers = Object.fromEntries(Object.entries(given).map(([header, text]) => [header, value(text)]))
    const description = `round ${++round}`
    const body = { description, enabled: true }
    const told = await visitor.ask('/workspaces/acme/purposes/letters', { method: 'PUT', body, headers })
    t.equal(told.status, isMade ? 200 : 403, name)
    // Only the token can be had anew: whoever is refused for it is told so.
    const param = 'x-lk-csrf' in given ? 'x-lk-csrf' : null
    if (!isMade) t.match(told.body, { error: { code: 'PERMISSION_DENIED', param } })
    t.equal((await descriptionOf(visitor)) === description, isMade, `${name}: nothing else was changed`)
  }
  t.equal(
    (await visitor.ask('/session', { headers: { 'sec-fetch-site': 'cross-site', origin: 'null' } })).status,
    200,
    'a look needs none of that: no page of another origin can read it',
  )

  for (const [name, given, isMade] of CHANGES.filter(([, headers]) => !('x-lk-csrf' in headers))) {
    const headers = Object.fromEntries(Object.entries(given).map(([header, text]) => [header, value(text)]))
    const told = await node.ask('/session', { method: 'POST', body: { key: node.keys.admin }, headers })
    t.equal(told.status, isMade ? 200 : 403, `signing in ${name}`)
  }
})

async function descriptionOf(visitor: Visitor): Promise<string | undefined> {
  const { purposes } = (await visitor.get('/workspaces/acme')).body as {
    purposes: { purpose: string; description: string }[]
  }
  return purposes.find(({ purpose }) => purpose === 'letters')?.description
}

t.test('a session is worth what its key is worth at the moment', async (t) => {
  const operator = await node.signIn(node.keys.operator)
  const made = await operator.post('/workspaces/acme/keys', { name: 'second', app: 'web', scopes: ['admin'] })
  t.equal(made.status, 201)
  const visitor = await node.signIn(String(made.body.key))
  t.equal((await visitor.get('/workspaces/acme')).status, 200)
  t.equal((await operator.delete(`/workspaces/acme/keys/${made.body.id}`)).status, 200)
  t.ok(await waitUntil(async () => (await visitor.get('/workspaces/acme')).status === 401))
  t.equal((await visitor.get('/session')).status, 401)

  const soon = new Date(Date.now() + 3_000).toISOString()
  const short = await operator.post('/workspaces/acme/keys', {
    name: 'third',
    app: 'web',
    scopes: ['admin'],
    expires_at: soon,
  })
  const brief = await node.signIn(String(short.body.key))
  const { expires_at: ends } = (await brief.get('/session')).body
  t.ok(Date.parse(String(ends)) <= Date.parse(soon) + 1_000, 'it ends with its key')
  t.ok(await waitUntil(async () => (await brief.get('/session')).status === 401))
})

t.test('an open console is limited by itself, whatever the key may call', async (t) => {
  const visitor = await node.signIn(node.keys.foreignAdmin)
  const told = await Promise.all(Array.from({ length: 400 }, () => visitor.get('/session')))
  const limited = told.filter(({ status }) => status === 429)
  t.ok(limited.length >= 1 && limited.length <= 100, `${limited.length} of 400`)
  t.ok(Number(limited[0]?.headers.get('retry-after')) >= 1)
  const headers = { authorization: `Bearer ${node.keys.foreignAdmin}` }
  t.not((await fetch(`${node.url}/workspace/other/audio-url-domains`, { headers })).status, 429)
})

t.test('what is no endpoint is not there, and a known path says what it takes', async (t) => {
  const visitor = await node.signIn(node.keys.admin)
  for (const path of ['', '/', '/nothing', '/workspaces/acme/nothing', '/..%2f..'])
    t.match(await visitor.get(path), { status: 404, body: { error: { code: 'NOT_FOUND' } } }, path)
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const told = await visitor.ask('/nothing', { method, body: {} })
    t.match(told, { status: 404, body: { error: { code: 'NOT_FOUND' } } }, method)
  }
  const told = await visitor.ask('/workspaces/acme/models', { method: 'PUT', body: {} })
  t.match(told, { status: 405, body: { error: { code: 'METHOD_NOT_ALLOWED' } } })
  t.equal(told.headers.get('allow'), 'GET, HEAD')
  t.equal((await visitor.get('/workspaces/acme?x=1')).status, 400, 'unknown parameters are refused')
})
