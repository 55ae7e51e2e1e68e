import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request } from 'node:https'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { Apps } from '../../../src/gateway/edge/apps.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { loadUws, UWS_ENVIRONMENT } from '../../../src/gateway/edge/uws.ts'
import { askTls } from '../../support/ask-tls.ts'
import { selfSigned } from '../../support/certificates.ts'
import { type Edge, type LocalCertificate, localCertificate, startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

const facts: EdgeRoute = {
  method: 'GET',
  path: '/facts/:name',
  handle(exchange) {
    const { method, params, query, headers } = exchange
    exchange.reply({ status: 200, body: JSON.stringify({ method, params, query, headers }) })
  },
}

const encrypted: EdgeRoute = {
  method: 'GET',
  path: '/encrypted',
  handle: (exchange) => exchange.reply({ status: 200, body: String(exchange.encrypted) }),
}

/** Takes a body in with a pause behind every chunk, and answers its digest. */
const digest: EdgeRoute = {
  method: 'POST',
  path: '/digest',
  handle(exchange) {
    const hash = createHash('sha256')
    return new Promise((resolve, reject) => {
      exchange.body.consume({
        onChunk(view, last) {
          hash.update(view)
          if (last) {
            exchange.reply({ status: 200, body: hash.digest('hex') })
            return resolve()
          }
          exchange.body.pause()
          setImmediate(() => exchange.body.resume())
        },
        onError: reject,
      })
    })
  },
}

async function start(t: Test, routes: readonly EdgeRoute[]): Promise<Edge & LocalCertificate> {
  const certificate = await localCertificate(t)
  return { ...(await startEdge(t, routes, { files: certificate.files })), ...certificate }
}

t.test('every request gets the same answer with TLS and without', async (t) => {
  const edge = await start(t, [facts, digest])
  const heads = [
    'GET /facts/a%20b?x=1 HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n',
    'HEAD /facts/a HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /facts/a HTTP/1.0\r\nHost: a\r\n\r\n',
    'GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n',
    'DELETE /facts/a HTTP/1.1\r\nHost: a\r\n\r\n',
    'BREW /facts/a HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello',
    'POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    'POST /digest HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /facts/a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: order-\xfc\r\n\r\n',
    'GET /facts/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'GET /facts/a HTTP/1.1\r\n\r\n',
    `GET /facts/a HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
    'nonsense\r\n\r\n',
  ]
  const outcome = async (patienceMs: number, head: string, port: number, ca?: string) => {
    const client = await RawClient.connect(port, ca)
    await client.send(head.replace('Host: a', 'Host: a\r\nX-LK-Request-ID: one'))
    const isHead = head.startsWith('HEAD')
    const response = await client.response({ timeoutMs: 1_000, head: isHead }).catch(String)
    const closed = await client.closes(patienceMs)
    client.destroy()
    if (response === null || typeof response === 'string') return { response, closed }
    const { date: _, 'strict-transport-security': strict, ...headers } = response.headers
    // The native parser's own refusals have no headers of ours.
    const isStrict = ca !== undefined && headers['x-lk-request-id'] !== undefined
    t.equal(strict, isStrict ? 'max-age=31536000' : undefined)
    return { status: response.status, headers, body: String(response.body), closed }
  }
  const outcomes = async (patienceMs: number, head: string) => ({
    plain: await outcome(patienceMs, head, edge.port),
    encrypted: await outcome(patienceMs, head, edge.tlsPort, edge.ca),
  })
  for (const head of heads) {
    let both = await outcomes(100, head)
    // On a busy machine one of them may close later than that.
    if (both.plain.closed !== both.encrypted.closed) both = await outcomes(3_000, head)
    t.same(both.encrypted, both.plain, JSON.stringify(head.slice(0, 60)))
  }
  t.equal(edge.budget.used, 0)
})

t.test('a route knows whether its request came encrypted', async (t) => {
  const edge = await start(t, [encrypted])
  t.equal(await (await fetch(`${edge.origin}/encrypted`)).text(), 'false')
  t.equal(String((await askTls(edge.tlsPort, edge.ca, '/encrypted')).body), 'true')
})

t.test('25 MiB arrive byte by byte while the reader is slower than the sender', async (t) => {
  const edge = await start(t, [digest])
  const body = randomBytes(25 * MIB)
  const expected = createHash('sha256').update(body).digest('hex')
  for (const headers of [{ 'content-length': body.length }, { 'transfer-encoding': 'chunked' }]) {
    const options = { method: 'POST', headers }
    t.equal(String((await askTls(edge.tlsPort, edge.ca, '/digest', options, body)).body), expected)
  }
  t.equal(edge.budget.used, 0)
})

t.test('a large answer arrives whole at a slow reader', async (t) => {
  const body = randomBytes(8 * MIB)
  const large: EdgeRoute = {
    method: 'GET',
    path: '/large',
    handle: (exchange) => exchange.reply({ status: 200, headers: { 'content-type': 'audio/wav' }, body }),
  }
  const edge = await start(t, [large])
  const outgoing = request({
    host: '127.0.0.1',
    servername: 'localhost',
    port: edge.tlsPort,
    path: '/large',
    ca: edge.ca,
    agent: false,
  })
  outgoing.end()
  const [incoming] = (await once(outgoing, 'response')) as [import('node:http').IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of incoming) {
    chunks.push(chunk as Buffer)
    if (chunks.length % 64 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  t.ok(Buffer.concat(chunks).equals(body))
  t.ok(await waitUntil(() => edge.server.inFlight === 0))
})

t.test('an upload that breaks off leaves nothing behind', async (t) => {
  let left = 0
  const waiting: EdgeRoute = {
    method: 'POST',
    path: '/upload',
    handle: (exchange) =>
      new Promise((resolve) => {
        exchange.body.consume({ onChunk: () => {}, onError: () => {} })
        exchange.onFinished(() => {
          left += exchange.status === 499 ? 1 : 0
          resolve()
        })
      }),
  }
  const edge = await start(t, [waiting])
  for (let index = 0; index < 10; index++) {
    const client = await RawClient.connect(edge.tlsPort, edge.ca)
    await client.send('POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n', randomBytes(MIB))
    t.ok(await waitUntil(() => edge.server.inFlight === 1))
    client.destroy()
    t.ok(await waitUntil(() => edge.server.inFlight === 0))
  }
  t.equal(left, 10)
  t.ok(await waitUntil(() => edge.server.connections === 0))
  t.equal(edge.budget.used, 0)
})

t.test('a renewed certificate is for new connections, and open ones go on', async (t) => {
  const edge = await start(t, [encrypted])
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const first = await askTls(edge.tlsPort, edge.ca, '/encrypted', { agent })
  await edge.renew()
  edge.server.renewCertificate()
  const second = await askTls(edge.tlsPort, edge.ca, '/encrypted')
  t.not(second.shown, first.shown)
  const kept = await askTls(edge.tlsPort, edge.ca, '/encrypted', { agent })
  t.same([kept.status, kept.shown], [200, first.shown])
  t.equal(edge.server.connections, 1)
})

t.test('files that cannot be used change nothing', async (t) => {
  const edge = await start(t, [encrypted])
  const { shown } = await askTls(edge.tlsPort, edge.ca, '/encrypted')
  for (const broken of [selfSigned(['localhost']).key, 'nothing', '']) {
    await edge.renew({ key: broken })
    t.throws(() => edge.server.renewCertificate(), /cannot use the certificate/)
    t.equal((await askTls(edge.tlsPort, edge.ca, '/encrypted')).shown, shown)
  }
})

t.test('no request fails while the certificate is renewed 100 times', async (t) => {
  const edge = await start(t, [encrypted])
  const outcomes: Record<string, number> = {}
  const shown = new Set<string>()
  const callers = 8
  let answered = 0
  let over = false
  const asking = Array.from({ length: callers }, async () => {
    while (!over) {
      const outcome = await askTls(edge.tlsPort, edge.ca, '/encrypted').catch(String)
      const name = typeof outcome === 'string' ? outcome : String(outcome.status)
      outcomes[name] = (outcomes[name] ?? 0) + 1
      answered += 1
      if (typeof outcome !== 'string') shown.add(outcome.shown)
    }
  })
  for (let index = 0; index < 100; index++) {
    await edge.renew()
    edge.server.renewCertificate()
    // One of them at least began after the renewal.
    const before = answered
    t.ok(await waitUntil(() => answered > before + callers))
  }
  over = true
  await Promise.all(asking)
  t.same(Object.keys(outcomes), ['200'], JSON.stringify(outcomes))
  t.ok(shown.size >= 100, `${answered} requests saw ${shown.size} certificates`)
  t.ok(await waitUntil(() => edge.server.connections === 0))
})

/** Apps that answer with what is registered at each, on a port with TLS. */
async function listenApps(t: Test) {
  Object.assign(process.env, UWS_ENVIRONMENT)
  const certificate = await localCertificate(t)
  const apps = new Apps(loadUws().uws, { most: Number.POSITIVE_INFINITY, onRefused() {} })
  t.teardown(() => apps.close())
  apps.register((app) => app.get('/*', (res) => void res.end('page')))
  const address = { host: '127.0.0.1', port: 0, shared: false }
  const plain = await apps.listen(address)
  const secure = await apps.listenTls(address, certificate.files)
  return { ...certificate, apps, plain, secure }
}

t.test('an app that was replaced is forgotten with its last connection', async (t) => {
  const { apps, secure, ca, renew, files } = await listenApps(t)
  const client = await RawClient.connect(secure.port, ca)
  t.equal(apps.size, 2)
  for (let index = 0; index < 5; index++) {
    await renew()
    secure.renew(files)
  }
  t.equal(apps.size, 3, 'the one with a connection is still there')
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal(String((await client.response())?.body), 'page')
  client.destroy()
  t.ok(await waitUntil(() => apps.size === 2))
  t.equal(apps.connections, 0)
})

t.test('every app has what was registered, whenever that was', async (t) => {
  const { apps, plain, secure, ca, renew, files } = await listenApps(t)
  apps.register((app, isEncrypted, left) =>
    app.ws('/live', {
      maxPayloadLength: 64 * 1024,
      open: (ws) => void ws.send(String(isEncrypted)),
      message: (ws, message, isBinary) => void ws.send(message, isBinary),
      close: left,
    }),
  )
  const hello = async (url: string) => {
    const socket = new WebSocket(url, { ca })
    const messages: string[] = []
    socket.on('message', (data) => messages.push(String(data)))
    await once(socket, 'open')
    socket.send('hello')
    await waitUntil(() => messages.length === 2)
    return { socket, messages }
  }
  const sessions = []
  sessions.push(await hello(`ws://127.0.0.1:${plain.port}/live`))
  t.same(sessions[0]?.messages, ['false', 'hello'])
  const before = await hello(`wss://localhost:${secure.port}/live`)
  t.same(before.messages, ['true', 'hello'])
  await renew()
  secure.renew(files)
  sessions.push(await hello(`wss://localhost:${secure.port}/live`))
  t.same(sessions[1]?.messages, ['true', 'hello'])
  before.socket.send('still here')
  t.ok(await waitUntil(() => before.messages.at(-1) === 'still here'), 'an open session continues')
  t.equal(apps.connections, 3)
  t.equal(apps.size, 3)
  for (const { socket } of [...sessions, before]) socket.close()
  t.ok(await waitUntil(() => apps.connections === 0), 'none is counted for ever')
  t.equal(apps.size, 2)
})

t.test('a server that leaves closes its connections with TLS, too', async (t) => {
  const edge = await start(t, [encrypted])
  const client = await RawClient.connect(edge.tlsPort, edge.ca)
  await client.send('GET /encrypted HTTP/1.1\r\nHost: a\r\n\r\n')
  t.notMatch((await client.response())?.headers, { connection: 'close' })
  edge.server.stopListening()
  await client.send('GET /encrypted HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response())?.headers.connection, 'close')
  t.ok(await client.closes())
  t.ok(await waitUntil(() => edge.server.connections === 0))
  await t.rejects(askTls(edge.tlsPort, edge.ca, '/encrypted'), { code: 'ECONNREFUSED' })
})

t.test('versions and ciphers without forward secrecy are refused', async (t) => {
  const edge = await start(t, [encrypted])
  const negotiated = async (options: object) => {
    const to = { host: '127.0.0.1', port: edge.tlsPort, servername: 'localhost', ca: edge.ca }
    const socket = connectTls({ ...to, ...options })
    try {
      await once(socket, 'secureConnect')
      return `${socket.getProtocol()} ${socket.getCipher().name}`
    } catch {
      return 'refused'
    } finally {
      socket.destroy()
    }
  }
  t.match(await negotiated({}), /^TLSv1\.3 /)
  t.match(await negotiated({ maxVersion: 'TLSv1.2' }), /^TLSv1\.2 ECDHE-.*(GCM|POLY1305)/)
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }
  t.equal(await negotiated(old), 'refused')
  t.equal(await negotiated({ maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' }), 'refused')
})
