import t from 'tap'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { RawClient } from '../support/raw-client.ts'
import { type Answer, type AskOptions, startWorkspaceApi, workspaceKeys } from './workspace-api.ts'

const DOMAINS = '/audio-url-domains'
const WEBHOOK = '/stt-webhook'
const CALLS: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['GET', DOMAINS],
  ['HEAD', DOMAINS],
  ['PUT', DOMAINS, { domains: ['cdn.example.com'] }],
  ['PUT', WEBHOOK, { url: 'https://hooks.example.com/stt' }],
  ['GET', WEBHOOK],
  ['HEAD', WEBHOOK],
  ['DELETE', WEBHOOK],
]

const errorOf = ({ body }: Answer) => (body.error ?? {}) as Readonly<Record<string, unknown>>

/** What an error says, but for the id of its request. */
function saidBy({ status, body, headers }: Answer) {
  const { request_id: id, ...error } = errorOf({ body } as Answer)
  return {
    status,
    error,
    type: headers.get('content-type'),
    retry: headers.get('x-should-retry'),
    id: id !== undefined,
  }
}

t.test('who may call', async (t) => {
  const api = await startWorkspaceApi(t)
  const { app, foreignAdmin, foreignApp, expired } = api.keys
  for (const [method, path, body] of CALLS) {
    const name = `${method} ${path}`
    const ask = (options: AskOptions) => api.ask(method, path, { ...options, ...(body && { body }) })
    const hasBody = method !== 'HEAD'

    const strangers: Record<string, AskOptions> = {
      'without a key': { key: null },
      'with what is no key': { key: 'secret' },
      'with a key that nobody has': { key: makeKey() },
      'with a key that is over': { key: expired },
      'with a password': { key: null, headers: { authorization: 'Basic YTpi' } },
    }
    for (const [how, options] of Object.entries(strangers)) {
      const answer = await ask(options)
      t.equal(answer.status, 401, `${name} ${how}`)
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
      t.equal(answer.headers.get('x-ratelimit-limit-requests'), null)
      if (hasBody) t.equal(errorOf(answer).code, 'UNAUTHENTICATED')
    }

    const noWorkspace: Record<string, AskOptions> = {
      'as the admin of another': { key: foreignAdmin },
      'of another': { key: foreignApp },
      'for another': { workspace: 'other' },
      'for another, without the scope': { key: app, workspace: 'other' },
      'for one that is not there': { workspace: 'nobodys' },
      'for one that is not there, without the scope': { key: app, workspace: 'nobodys' },
      'as one of another for one that is not there': { key: foreignApp, workspace: 'nobodys' },
      'for one of another case': { workspace: 'Acme' },
      'for one with a slash': { workspace: 'acme%2Fx' },
    }
    const said = new Set<string>()
    for (const [how, options] of Object.entries(noWorkspace)) {
      const answer = await ask(options)
      t.equal(answer.status, 404, `${name} ${how}`)
      t.equal(answer.headers.get('x-ratelimit-limit-requests'), '10000')
      if (hasBody) t.equal(errorOf(answer).code, 'NOT_FOUND')
      said.add(JSON.stringify(saidBy(answer)))
    }
    t.equal(said.size, 1, `${name}: one and the same for all of them`)

    const denied = await ask({ key: app })
    t.equal(denied.status, 403, `${name} without the scope`)
    if (hasBody) t.match(errorOf(denied), { code: 'PERMISSION_DENIED', details: { scope: 'admin' } })
  }
  t.same(await api.state.settings.audioUrlDomains('acme'), [], 'nothing was changed')
  t.equal(await api.state.settings.webhook('acme'), null)

  for (const [method, path, body] of CALLS) {
    const answer = await api.ask(method, path, { ...(body && { body }) })
    t.equal(answer.status, 200, `${method} ${path} as the admin`)
    t.equal(answer.headers.get('content-type'), 'application/json')
    t.match(answer.headers.get('x-lk-request-id'), /^req_/)
    t.equal(answer.headers.get('x-ratelimit-limit-requests'), '10000')
    t.match(answer.headers.get('x-ratelimit-remaining-requests'), /^\d+$/)
    t.match(answer.headers.get('x-ratelimit-reset-requests'), /^(\d+m)?\d+m?s$/)
    if (method === 'HEAD') t.equal(answer.text, '')
  }
  t.same((await api.ask('GET', DOMAINS, { workspace: '%61cme' })).status, 200, 'the id is percent-decoded')
})

t.test('methods that a path does not take', async (t) => {
  const api = await startWorkspaceApi(t)
  for (const [method, path, allow] of [
    ['DELETE', DOMAINS, 'GET, HEAD, PUT'],
    ['PATCH', DOMAINS, 'GET, HEAD, PUT'],
    ['POST', WEBHOOK, 'DELETE, GET, HEAD, PUT'],
  ] as const) {
    const answer = await api.ask(method, path, { headers: { 'content-length': '0' } })
    t.equal(answer.status, 405, `${method} ${path}`)
    t.equal(answer.headers.get('allow'), allow)
    t.equal(errorOf(answer).code, 'METHOD_NOT_ALLOWED')
  }
  t.equal((await api.ask('GET', '')).status, 404)
  t.equal((await api.ask('GET', '/plan')).status, 404)
})

t.test('a call takes a token of the key, whatever becomes of it', async (t) => {
  const api = await startWorkspaceApi(t, { burst: 3 })
  const statuses: number[] = []
  for (const workspace of ['acme', 'other', 'nobodys', 'acme', 'other']) {
    const answer = await api.ask('GET', DOMAINS, { workspace })
    statuses.push(answer.status)
    if (answer.status !== 429) continue
    t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/)
    t.equal(answer.headers.get('x-ratelimit-remaining-requests'), '0')
    t.match(errorOf(answer), { code: 'RATE_LIMITED', retryable: true })
  }
  t.same(statuses, [200, 404, 404, 429, 429])
  t.equal((await api.ask('GET', DOMAINS, { key: api.keys.app })).status, 403, 'another key has its own')
})

/** A domain list and a webhook, each with members that nobody knows, of exactly so many bytes. */
function sized(fields: object, bytes: number): string {
  const text = (fill: string) => JSON.stringify({ ...fields, fill })
  return text('x'.repeat(bytes - text('').length))
}

for (const [path, fields] of [
  [DOMAINS, { domains: ['a.example.com'] }],
  [WEBHOOK, { url: 'https://a.example.com/' }],
] as const) {
  t.test(`the body of PUT ${path}`, async (t) => {
    const api = await startWorkspaceApi(t)
    const put = (body: unknown, headers: Record<string, string> = {}) =>
      api.ask('PUT', path, { body, headers })
    const refused = async (answer: Answer | Promise<Answer>, status: number, code: string, name: string) => {
      const { status: got, body } = await answer
      t.same([got, (body.error as { code?: string })?.code], [status, code], name)
    }
    t.equal(
      (await put({ ...fields, unknown: { a: [1] }, model: 'x' })).status,
      200,
      'unknown members are ignored',
    )
    t.equal((await put(fields, { 'content-type': 'application/json; charset=utf-8' })).status, 200)
    t.equal((await put(fields, { 'idempotency-key': 'k' })).headers.get('x-lk-idempotency'), 'ignored')

    await refused(
      put(JSON.stringify(fields), { 'content-type': 'text/plain' }),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
      'type',
    )
    await refused(put(fields, { 'content-encoding': 'gzip' }), 415, 'UNSUPPORTED_MEDIA_TYPE', 'compressed')
    await refused(put('{"domains":'), 400, 'INVALID_REQUEST', 'cut short')
    await refused(put(''), 400, 'INVALID_REQUEST', 'empty')
    for (const value of [[], 'x', 1, null]) {
      await refused(put(JSON.stringify(value)), 400, 'INVALID_REQUEST', JSON.stringify(value))
    }
    const latin1 = Buffer.from(JSON.stringify({ ...fields, note: 'ü' }), 'latin1')
    await refused(put(latin1), 400, 'INVALID_REQUEST', 'not UTF-8')

    t.equal((await put(sized(fields, 65_536))).status, 200, 'of exactly the limit')
    const over = await put(sized(fields, 65_537))
    t.match(over, { status: 413, body: { error: { code: 'REQUEST_TOO_LARGE', retryable: false } } })
    t.match(errorOf(over), { message: 'the body is over 65536 bytes', details: { limit_bytes: 65_536 } })

    const head = `PUT /workspace/acme${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${api.keys.admin}\r\n`
    const raw = async (...pieces: string[]) => {
      const client = await RawClient.connect(api.port)
      t.teardown(() => client.destroy())
      void client.send(`${head}Content-Type: application/json\r\n`, ...pieces)
      const response = await client.response()
      return {
        status: response?.status,
        body: JSON.parse(response?.body.toString() ?? '{}'),
      } as unknown as Answer
    }
    const chunk = `${(65_537).toString(16)}\r\n${sized(fields, 65_537)}\r\n0\r\n\r\n`
    await refused(
      raw('Transfer-Encoding: chunked\r\n\r\n', chunk),
      413,
      'REQUEST_TOO_LARGE',
      'chunked, over the limit',
    )
    await refused(
      raw('Content-Length: 99999999\r\n\r\n', '{'),
      413,
      'REQUEST_TOO_LARGE',
      'declared, over every limit',
    )
    await refused(raw('\r\n'), 411, 'LENGTH_REQUIRED', 'without a length')
    const small = JSON.stringify(fields)
    const whole = await raw(
      'Transfer-Encoding: chunked\r\n\r\n',
      `${small.length.toString(16)}\r\n${small}\r\n0\r\n\r\n`,
    )
    t.equal(whole.status, 200, 'chunked')
  })
}

t.test('the log tells who did what, and nothing else', async (t) => {
  const keys = workspaceKeys()
  const api = await startWorkspaceApi(t, { keys })
  const answer = await api.ask('PUT', DOMAINS, { body: { domains: ['canary.example.com'] } })
  const line = api.log.map((text) => JSON.parse(text)).find(({ msg }) => msg === 'request')
  t.match(line, {
    request_id: answer.headers.get('x-lk-request-id'),
    method: 'PUT',
    path: '/workspace/:tenant_id/audio-url-domains',
    status: 200,
    workspace: 'acme',
    key_id: 'key_admin',
  })
  t.notMatch(api.log.join(''), 'canary')
  t.notMatch(api.log.join(''), keys.admin)
})
