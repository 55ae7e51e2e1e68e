import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { localCertificate, startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { waitUntil } from '../../support/wait-until.ts'

// A port with TLS, and clients that do not speak it, break it off, or mean ill.

/** Tests that wait for uWS's own timer, in real time, run at once. */
t.jobs = 2

const hello: EdgeRoute = {
  method: 'GET',
  path: '/',
  handle: (exchange) => exchange.reply({ status: 200, body: '{}' }),
}

async function start(t: Test) {
  const certificate = await localCertificate(t)
  return { ...(await startEdge(t, [hello], { files: certificate.files })), ca: certificate.ca }
}

type Started = Awaited<ReturnType<typeof start>>

/** A request over TLS is still answered, and the others have left nothing. */
async function assertServes(t: Test, edge: Started): Promise<void> {
  const client = await RawClient.connect(edge.tlsPort, edge.ca)
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response())?.status, 200)
  client.destroy()
  t.ok(await waitUntil(() => edge.server.connections === 0), 'no connection is left')
  t.equal(edge.server.inFlight, 0)
  t.equal(edge.budget.used, 0)
  t.same(edge.logged, [])
}

/** The first bytes that a client of TLS sends. */
async function clientHello(): Promise<Buffer> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const { port } = server.address() as import('node:net').AddressInfo
  const client = connectTls({ host: '127.0.0.1', port, servername: 'localhost' })
  client.on('error', () => {})
  const [socket] = await accepted
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}

t.test('a client without TLS is hung up on', async (t) => {
  const edge = await start(t)
  const senders = [
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET / HTTP/1.0\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'SSH-2.0-OpenSSH_9.2\r\n',
    Buffer.alloc(100_000),
    randomBytes(100_000),
    Buffer.from('160301ffff', 'hex'),
    Buffer.from('1503010002022a', 'hex'),
  ]
  for (const bytes of senders) {
    const client = await RawClient.connect(edge.tlsPort)
    await client.send(bytes, randomBytes(20_000))
    t.ok(await client.closes(), JSON.stringify(String(bytes.slice(0, 16))))
    t.notMatch(await client.rest(0), /HTTP/, 'it learns nothing of what is served')
    client.destroy()
  }
  await assertServes(t, edge)
})

t.test('TLS on the port without it is a bad request, and no more', async (t) => {
  const edge = await start(t)
  const client = await RawClient.connect(edge.port)
  await client.send(await clientHello())
  t.ok(await client.closes())
  client.destroy()
  await assertServes(t, edge)
})

t.test('handshakes that differ in one byte do no harm', async (t) => {
  const edge = await start(t)
  const bytes = await clientHello()
  const send = async (at: number) => {
    const changed = Buffer.from(bytes)
    changed[at] = changed[at]! ^ (1 + Math.floor(Math.random() * 255))
    const client = await RawClient.connect(edge.tlsPort)
    await client.send(changed)
    await client.receives(50)
    client.destroy()
  }
  for (let at = 0; at < bytes.length; at += 16)
    await Promise.all(Array.from({ length: Math.min(16, bytes.length - at) }, (_, index) => send(at + index)))
  t.ok(bytes.length > 200, `${bytes.length} handshakes`)
  await assertServes(t, edge)
})

t.test(
  'half-open handshakes are cut after some 10 s, and others are served meanwhile',
  { buffered: true },
  async (t) => {
    const edge = await start(t)
    const bytes = await clientHello()
    const rss = process.memoryUsage.rss()
    const clients = await Promise.all(Array.from({ length: 500 }, () => RawClient.connect(edge.tlsPort)))
    const startMs = performance.now()
    // A third says nothing, a third has begun, and a third waits for the second step.
    await Promise.all(
      clients.map((client, index) =>
        client.send(bytes.subarray(0, [0, bytes.length >> 1, bytes.length][index % 3])),
      ),
    )
    t.ok(await waitUntil(() => edge.server.connections === clients.length))
    const heldKib = (process.memoryUsage.rss() - rss) / 1024 / clients.length
    t.ok(heldKib < 150, `${heldKib.toFixed(0)} KiB for each, both ends counted`)
    const client = await RawClient.connect(edge.tlsPort, edge.ca)
    await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await client.response())?.status, 200)
    client.destroy()
    t.ok(performance.now() - startMs < 5_000, 'the request did not wait for them')
    t.ok(await waitUntil(() => edge.server.connections === 0, 20_000))
    t.ok(performance.now() - startMs < 18_000)
    for (const { socket } of clients) socket.destroy()
    await assertServes(t, edge)
  },
)

t.test(
  'a handshake byte by byte has no more time than one that says nothing',
  { buffered: true },
  async (t) => {
    const edge = await start(t)
    const bytes = await clientHello()
    const client = await RawClient.connect(edge.tlsPort)
    const startMs = performance.now()
    for (let at = 0; at < bytes.length && !client.closed; at++) {
      await client.send(bytes.subarray(at, at + 1))
      await client.closes(200)
    }
    t.ok(client.closed)
    t.ok(performance.now() - startMs < 18_000, `${performance.now() - startMs} ms`)
    client.destroy()
    await assertServes(t, edge)
  },
)

t.test('a handshake cannot be done over and over', async (t) => {
  const edge = await start(t)
  const to = { host: '127.0.0.1', port: edge.tlsPort, servername: 'localhost', ca: edge.ca }
  const socket = connectTls({ ...to, maxVersion: 'TLSv1.2' })
  await once(socket, 'secureConnect')
  const closed = once(socket, 'close')
  socket.renegotiate({}, () => {})
  await t.rejects(closed, { code: 'ERR_SSL_TLSV1_ALERT_NO_RENEGOTIATION' })
  await assertServes(t, edge)
})

t.test('clients that leave in the middle of a handshake take nothing with them', async (t) => {
  const edge = await start(t)
  const bytes = await clientHello()
  await Promise.all(
    Array.from({ length: 300 }, async (_, index) => {
      const socket = connect(edge.tlsPort, '127.0.0.1')
      socket.on('error', () => {})
      await once(socket, 'connect')
      socket.write(bytes.subarray(0, Math.floor(Math.random() * (bytes.length + 1))))
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 30))
      if (index % 3 === 0) socket.resetAndDestroy()
      else if (index % 3 === 1) socket.end()
      else socket.destroy()
      if (!socket.destroyed) socket.resume()
    }),
  )
  await assertServes(t, edge)
})
