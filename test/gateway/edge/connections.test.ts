import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { localCertificate, startEdge } from '../../support/edge.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MOST = 4

const hello: EdgeRoute = {
  method: 'GET',
  path: '/hello',
  handle: (exchange) => exchange.reply({ status: 200, headers: {}, body: Buffer.from('hello') }),
}

t.test('a connection over the bound is closed as it comes, and a place comes free', async (t) => {
  const { server, port, logged } = await startEdge(t, [hello], { connectionsMax: MOST })
  const open = () => connect(port, '127.0.0.1').on('error', () => {})
  const kept = Array.from({ length: MOST }, open)
  t.ok(await waitUntil(() => server.connections === MOST))
  const refused = Array.from({ length: 50 }, open)
  t.ok(await waitUntil(() => refused.every(({ closed }) => closed)), 'all of them')
  t.equal(server.connections, MOST)
  t.notOk(kept.some(({ closed }) => closed))
  const lines = logged.filter(({ msg }) => String(msg).startsWith('connections are refused: 4 are open'))
  t.equal(lines.length, 1, 'one line a minute')

  const [first] = kept
  first?.write('GET /hello HTTP/1.1\r\nHost: a\r\n\r\n')
  const answer = await new Promise((resolve) => first?.once('data', (bytes) => resolve(String(bytes))))
  t.match(answer, /^HTTP\/1.1 200 OK/, 'who was there before is served')
  kept[1]?.destroy()
  t.ok(await waitUntil(() => server.connections === MOST - 1))
  t.equal((await fetch(`http://127.0.0.1:${port}/hello`, { headers: { connection: 'close' } })).status, 200)
  for (const socket of kept) socket.destroy()
})

t.test('the same with TLS, over which both ports count together', async (t) => {
  const { files } = await localCertificate(t)
  const { server, port, tlsPort } = await startEdge(t, [hello], { files, connectionsMax: MOST })
  const plain = Array.from({ length: MOST - 1 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.ok(await waitUntil(() => server.connections === MOST - 1))
  const tls = () =>
    connectTls({ port: tlsPort, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {})
  const last = tls()
  t.ok(await waitUntil(() => server.connections === MOST))
  const refused = Array.from({ length: 20 }, tls)
  t.ok(await waitUntil(() => refused.every(({ closed }) => closed)))
  t.equal(server.connections, MOST)
  t.notOk(last.closed)
  for (const socket of [...plain, last]) socket.destroy()
  t.ok(await waitUntil(() => server.connections === 0))
})
