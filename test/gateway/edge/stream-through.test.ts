import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { type Edge, startEdge } from '../../support/edge.ts'
import { serveHttp } from '../../support/http-server.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { RawClient } from '../../support/raw-client.ts'
import { whenStill } from '../../support/stands-still.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

t.setTimeout(60_000)

/** An edge that streams on what a provider at `origin` sends. */
async function relay(t: Test, origin: string): Promise<Edge> {
  const sender = createSender({ reader: memoryAudio(new Uint8Array(0), 'identity').reader })
  t.teardown(() => sender.close())
  const route: EdgeRoute = {
    method: 'GET',
    path: '/*',
    async handle(exchange) {
      const request = { method: 'GET', url: origin + exchange.path, headers: {}, body: [] } as const
      const { chunks } = await sender.open(request, { deadlineMs: 30_000, signal: exchange.signal })
      exchange.reply({ status: 200, headers: { 'content-type': 'audio/mpeg' }, body: { stream: chunks } })
    },
  }
  return startEdge(t, [route])
}

t.test('a slow reader holds the provider back, through the whole gateway', async (t) => {
  let written = 0
  const origin = await serveHttp(t, async (_, res) => {
    res.setMaxListeners(0)
    for (; written < 96 && !res.destroyed; written += 1) {
      if (!res.write(Buffer.alloc(MIB, 'x'))) await Promise.race([once(res, 'drain'), once(res, 'close')])
    }
    res.end()
  })
  const edge = await relay(t, origin)
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  client.socket.pause()
  await client.send('GET /audio HTTP/1.1\r\nHost: a\r\n\r\n')
  // At some time no more is sent.
  await whenStill(() => written)
  t.ok(written < 48, `${written} MiB were sent, most of which the kernel holds`)
  client.socket.resume()
  const text = await client.rest(1_500)
  t.ok(text.endsWith('\r\n0\r\n\r\n'))
  t.equal(text.slice(text.indexOf('\r\n\r\n')).replaceAll(/[^x]+/g, '').length, 96 * MIB)
})

t.test('a client that leaves ends the request to the provider', async (t) => {
  let closed = 0
  const origin = await serveHttp(t, (req, res) => {
    res.write('data: first\n\n')
    req.socket.once('close', () => (closed += 1))
  })
  const edge = await relay(t, origin)
  const client = await RawClient.connect(edge.port)
  await client.send('GET /events HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok(await client.receives(2_000))
  client.destroy()
  t.ok(await waitUntil(() => closed === 1, 2_000))
  t.same(edge.logged, [])
})

t.test('a provider that breaks off is no whole answer', async (t) => {
  const origin = await serveHttp(t, (_, res) => {
    res.write('half')
    setTimeout(() => res.destroy(), 100)
  })
  const edge = await relay(t, origin)
  const client = await RawClient.connect(edge.port)
  await client.send('GET /events HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok(await client.closes(2_000))
  t.match(await client.rest(100), /\r\n1\r\nf$/)
  t.match(edge.logged, [{ msg: 'an answer was cut short' }])
})
