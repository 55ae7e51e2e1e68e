import { Agent, request } from 'node:http'
import { pino } from 'pino'
import t from 'tap'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'
import { Router } from '../../../src/gateway/edge/router.ts'
import { type EdgeRoute, startServer } from '../../../src/gateway/edge/server.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { waitUntil } from '../../support/wait-until.ts'

const echo: EdgeRoute = {
  method: 'POST',
  path: '/echo',
  async handle(exchange) {
    const body = await readAll(exchange)
    exchange.reply({ status: 200, headers: { 'content-type': 'application/octet-stream' }, body })
  },
}

function readAll(exchange: Exchange): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    exchange.body.consume({
      onChunk(view, last) {
        chunks.push(Buffer.from(view))
        if (last) resolve(Buffer.concat(chunks))
      },
      onError: reject,
    })
    exchange.signal.addEventListener('abort', () => reject(exchange.signal.reason))
  })
}

const facts: EdgeRoute = {
  method: 'GET',
  path: '/facts/:first/:second',
  handle(exchange) {
    const { method, path, query, params, headers, contentLength } = exchange
    exchange.reply({
      status: 200,
      body: JSON.stringify({ method, path, query, params, headers, contentLength }),
    })
  },
}

t.test('a request reaches its route with line, parameters and headers, and gets its answer', async (t) => {
  const edge = await startEdge(t, [facts])
  const client = await RawClient.connect(edge.port)
  await client.send(
    'GET /facts/a%20b/c?x=1&y HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\nX-Twice: 2\r\n' +
      '__proto__: p\r\nX-LK-Request-ID: mine-1\r\n\r\n',
  )
  const response = await client.response()
  t.equal(response?.status, 200)
  t.equal(response?.headers['x-lk-request-id'], 'mine-1')
  t.equal(response?.headers['content-type'], 'application/json')
  t.equal(response?.headers['x-content-type-options'], 'nosniff')
  const seen = JSON.parse(String(response?.body))
  t.match(seen, {
    method: 'GET',
    path: '/facts/a%20b/c',
    query: 'x=1&y',
    params: ['a b', 'c'],
    contentLength: null,
  })
  t.equal(seen.headers['x-twice'], '1, 2')
  t.equal(Object.getOwnPropertyDescriptor(seen.headers, '__proto__')?.value, 'p', 'a name is only a name')
  t.equal(edge.server.inFlight, 0)
  client.destroy()
})

t.test('an ill-formed X-LK-Request-ID is replaced', async (t) => {
  const edge = await startEdge(t, [facts])
  for (const id of ['', 'a b', 'ä', 'x'.repeat(129)]) {
    const client = await RawClient.connect(edge.port)
    await client.send(`GET /facts/a/b HTTP/1.1\r\nHost: a\r\nX-LK-Request-ID: ${id}\r\n\r\n`)
    const response = await client.response()
    t.match(response?.headers['x-lk-request-id'], /^req_[0-9a-z]{26}$/, JSON.stringify(id))
    client.destroy()
  }
})

t.test('unknown paths are 404 and known ones with another method 405, in the envelope', async (t) => {
  const edge = await startEdge(t, [echo, facts])
  for (const [line, status, code, allow] of [
    ['GET /nowhere', 404, 'NOT_FOUND', undefined],
    ['POST /nowhere', 404, 'NOT_FOUND', undefined],
    ['GET /facts/a', 404, 'NOT_FOUND', undefined],
    ['GET /facts//b', 404, 'NOT_FOUND', undefined],
    ['GET /facts/%ff/b', 404, 'NOT_FOUND', undefined],
    ['GET /echo', 405, 'METHOD_NOT_ALLOWED', 'POST'],
    ['PATCH /echo', 405, 'METHOD_NOT_ALLOWED', 'POST'],
    ['OPTIONS /facts/a/b', 405, 'METHOD_NOT_ALLOWED', 'GET, HEAD'],
    ['TRACE /facts/a/b', 405, 'METHOD_NOT_ALLOWED', 'GET, HEAD'],
    ['POST /echo', 411, 'LENGTH_REQUIRED', undefined],
  ] as const) {
    const client = await RawClient.connect(edge.port)
    await client.send(`${line} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const response = await client.response()
    t.equal(response?.status, status, line)
    t.equal(response?.headers.allow, allow, line)
    const { error } = JSON.parse(String(response?.body))
    t.equal(error.code, code, line)
    t.equal(error.request_id, response?.headers['x-lk-request-id'], line)
    client.destroy()
  }
})

t.test('HEAD is a GET without the body', async (t) => {
  const edge = await startEdge(t, [facts])
  const client = await RawClient.connect(edge.port)
  await client.send('GET /facts/a/b HTTP/1.1\r\nHost: a\r\n\r\n')
  const got = await client.response()
  for (const round of [1, 2]) {
    await client.send('HEAD /facts/a/b HTTP/1.1\r\nHost: a\r\n\r\n')
    const response = await client.response({ head: true })
    t.equal(response?.status, 200, `round ${round}`)
    t.equal(
      Number(response?.headers['content-length']),
      got!.body.length + 1,
      'HEAD is one letter longer than GET',
    )
  }
  t.equal(edge.server.inFlight, 0)
  client.destroy()
})

t.test('bodies of every size and split arrive whole, by length and chunked', async (t) => {
  const edge = await startEdge(t, [echo])
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  for (const size of [0, 1, 1_000, 70_000, 3_000_000]) {
    const body = Buffer.alloc(size, 'abcdefg')
    const byLength = await fetch(`${edge.origin}/echo`, { method: 'POST', body })
    t.ok(body.equals(Buffer.from(await byLength.arrayBuffer())), `${size} by length`)
    const status = await new Promise<number>((resolve, reject) => {
      const outgoing = request(`${edge.origin}/echo`, { method: 'POST', agent }, (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk) => chunks.push(chunk))
        incoming.on('end', () => resolve(body.equals(Buffer.concat(chunks)) ? incoming.statusCode! : -1))
        incoming.on('error', reject)
        t.equal(incoming.headers.connection, 'close', 'a chunked request closes its connection')
      })
      outgoing.on('error', reject)
      outgoing.setHeader('transfer-encoding', 'chunked')
      outgoing.write(body.subarray(0, size / 2))
      setTimeout(() => outgoing.end(body.subarray(size / 2)), 5)
    })
    t.equal(status, 200, `${size} chunked`)
  }
  t.equal(edge.budget.used, 0)
  t.equal(edge.server.inFlight, 0)
})

t.test('a body waits after its first chunk for its consumer, and comes in order', async (t) => {
  const late: EdgeRoute = {
    method: 'POST',
    path: '/late',
    async handle(exchange) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      const body = await readAll(exchange)
      exchange.reply({ status: 200, headers: { 'content-type': 'text/plain' }, body })
    },
  }
  const edge = await startEdge(t, [late])
  const body = Buffer.alloc(4_000_000)
  for (let at = 0; at < body.length; at += 4) body.writeUInt32LE(at, at)
  const response = await fetch(`${edge.origin}/late`, { method: 'POST', body })
  t.ok(body.equals(Buffer.from(await response.arrayBuffer())))
  t.ok(edge.budget.peak > 0, 'what came early was charged')
  t.equal(edge.budget.used, 0)
})

t.test('handlers that throw, reject, or end without an answer are 500, and the process lives', async (t) => {
  const routes: EdgeRoute[] = [
    {
      method: 'GET',
      path: '/throw',
      handle: () => {
        throw new Error('secret reason')
      },
    },
    {
      method: 'GET',
      path: '/reject',
      handle: async () => {
        await null
        throw new Error('secret reason')
      },
    },
    { method: 'GET', path: '/silent', handle: async () => {} },
    {
      method: 'POST',
      path: '/chunk',
      handle: (exchange) =>
        exchange.body.consume({
          onChunk() {
            throw new Error('secret reason')
          },
          onError() {},
        }),
    },
    {
      method: 'GET',
      path: '/finish',
      handle: (exchange) => {
        exchange.onFinished(() => {
          throw new Error('secret reason')
        })
        exchange.reply({ status: 204, body: '' })
      },
    },
    {
      method: 'GET',
      path: '/after',
      handle: async (exchange) => {
        exchange.reply({ status: 200, body: '{}' })
        await new Promise((resolve) => setTimeout(resolve, 10))
        throw new Error('secret reason')
      },
    },
  ]
  const edge = await startEdge(t, routes)
  for (const [path, status] of [
    ['/throw', 500],
    ['/reject', 500],
    ['/silent', 500],
    ['/finish', 204],
    ['/after', 200],
  ] as const) {
    const response = await fetch(edge.origin + path)
    t.equal(response.status, status, path)
    t.notMatch(await response.text(), /secret/, path)
  }
  const response = await fetch(`${edge.origin}/chunk`, { method: 'POST', body: 'x' })
  t.equal(response.status, 500)
  t.match(await response.json(), { error: { code: 'INTERNAL', category: 'internal', retryable: false } })
  await waitUntil(() => edge.logged.length >= routes.length)
  t.equal(edge.logged.length, routes.length, 'each failure is logged once')
  t.ok(edge.logged.every(({ request_id, stack }) => request_id && stack))
  t.equal(edge.server.inFlight, 0)
})

t.test('two servers do not share an address unless they say so, and routes do not clash', async (t) => {
  const edge = await startEdge(t, [facts])
  const { budget } = edge
  const options = {
    routes: [facts],
    host: '127.0.0.1',
    port: edge.port,
    budget,
    log: pino({ level: 'silent' }),
  }
  await t.rejects(startServer(options), { message: `cannot listen on 127.0.0.1:${edge.port}` })
  await t.rejects(startServer({ ...options, port: 0, routes: [facts, facts] }), /two routes/)
  edge.server.close()
  const first = await startServer({ ...options, shared: true })
  t.teardown(() => first.close())
  const second = await startServer({ ...options, shared: true })
  t.teardown(() => second.close())
  t.match(first.uws, /^20\.\d+\.\d+ \(glibc 2\.\d+ build\)$/)
})

t.test('a chunked request closes its connection also behind an answer without a body', async (t) => {
  const remove: EdgeRoute = {
    method: 'DELETE',
    path: '/thing',
    handle: (exchange) => exchange.reply({ status: 204, body: '' }),
  }
  const edge = await startEdge(t, [facts, remove])
  for (const [line, status] of [
    ['DELETE /thing', 204],
    ['HEAD /facts/a/b', 200],
  ] as const) {
    const client = await RawClient.connect(edge.port)
    await client.send(`${line} HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.equal((await client.response({ head: true }))?.status, status)
    t.notOk(client.closed, line)
    await client.send(`${line} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`)
    t.equal((await client.response({ head: true }))?.headers.connection, 'close')
    t.ok(await client.closes(2_000), line)
  }
  t.equal(edge.server.inFlight, 0)
})

t.test('a router prefers plain paths, then patterns in order, and knows the methods of each', (t) => {
  const route = (method: string, path: string) => ({ method, path })
  const router = new Router([
    route('POST', '/jobs'),
    route('GET', '/jobs/:id'),
    route('DELETE', '/jobs/:id'),
    route('GET', '/jobs/newest'),
    route('GET', '/docs/*'),
  ])
  const found = (method: string, path: string) => {
    const { route, ...rest } = router.find(method, path)
    return route === null ? rest : { path: route.path, ...rest }
  }
  t.same(found('GET', '/jobs/newest'), { path: '/jobs/newest', params: [] })
  t.same(found('GET', '/jobs/7%2F8'), { path: '/jobs/:id', params: ['7/8'] })
  t.same(found('DELETE', '/jobs/newest'), { path: '/jobs/:id', params: ['newest'] })
  t.same(found('HEAD', '/jobs/7'), { path: '/jobs/:id', params: ['7'] })
  t.same(found('PUT', '/jobs/7'), { allow: 'DELETE, GET, HEAD' })
  t.same(found('GET', '/jobs'), { allow: 'POST' })
  t.same(found('GET', '/jobs/'), { allow: '' })
  t.same(found('GET', '/jobs/7/8'), { allow: '' })
  t.same(found('GET', '/docs/a/b%20c'), { path: '/docs/*', params: ['a/b c'] })
  t.same(found('GET', '/docs/'), { path: '/docs/*', params: [''] })
  t.same(found('GET', '/docs'), { allow: '' })
  t.same(found('GET', '/constructor'), { allow: '' })

  const dependencies = new Router([
    route('POST', '/openai/v1/chat/completions'),
    route('GET', '/openai/v1/models/:model'),
    route('GET', '/v1/jobs/:id'),
    route('GET', '/results/:token'),
    route('GET', '/docs/*'),
  ])
  const rows: Record<string, string | null> = {
    '/v1/chat/completions': '/openai/v1/chat/completions',
    '/chat/completions': '/openai/v1/chat/completions',
    '/v1/models/gpt-4': '/openai/v1/models/gpt-4',
    '/models/gpt-4': '/openai/v1/models/gpt-4',
    '/jobs/7': '/v1/jobs/7',
    '/favicon.ico': null,
    '/a/b/c': null,
    '/': null,
    '': null,
    [`/models/${'x'.repeat(300)}`]: null,
  }
  for (const [path, whole] of Object.entries(rows)) t.equal(dependencies.completed(path), whole, path)
  t.end()
})
