import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError, toGatewayError } from '../../../src/contracts/errors.ts'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024
const ABORTS = 1_000

t.setTimeout(120_000)

/** Takes a body as a slow store would, with random pauses, and answers late with a large one. */
const busy: EdgeRoute = {
  method: 'POST',
  path: '/busy',
  async handle(exchange) {
    await sleep(Math.random() * 5)
    await new Promise<void>((resolve, reject) => {
      exchange.signal.addEventListener('abort', () => reject(exchange.signal.reason))
      exchange.body.consume({
        onChunk(_, last) {
          if (last) return resolve()
          exchange.body.pause()
          setTimeout(() => exchange.body.resume(), Math.random() * 3)
        },
        onError: reject,
      })
    })
    await sleep(Math.random() * 10)
    const audio = Buffer.alloc(Math.random() * 2 * MIB)
    exchange.reply({
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: ['"', { base64: [audio] }, '"'],
    })
  },
}

/** Refuses at once, so that aborts also hit the discarding and the lingering after it. */
const refusing: EdgeRoute = {
  method: 'POST',
  path: '/refusing',
  handle: (exchange) => exchange.replyError(new GatewayError('REQUEST_TOO_LARGE')),
}

t.test('a thousand clients that leave at random take nothing with them', async (t) => {
  const finished: (number | null)[] = []
  let started = 0
  const observe = (exchange: Exchange) => {
    started++
    exchange.onFinished(() => finished.push(exchange.status))
  }
  const timing = { sweepMs: 20, rearmMs: 1, pauseMs: 2, lingerMs: 20, discardMs: 20 }
  const edge = await startEdge(t, [busy, refusing], { observe, timing })
  let left = ABORTS
  const body = Buffer.alloc(400_000)
  const work = async () => {
    while (left-- > 0) {
      const client = await RawClient.connect(edge.port)
      const path = left % 4 === 0 ? '/refusing' : '/busy'
      const framing = left % 2 === 0 ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked'
      const pieces = left % 2 === 0 ? [body] : [`${body.length.toString(16)}\r\n`, body, '\r\n0\r\n\r\n']
      void client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`, ...pieces)
      await sleep(Math.random() * 40)
      if (left % 3 === 0) client.socket.resetAndDestroy()
      else client.destroy()
    }
  }
  await Promise.all(Array.from({ length: 20 }, work))
  await sleep(1_500)
  t.ok(started > ABORTS * 0.9, `${started} requests came as far as a handler`)
  t.equal(finished.length, started, 'each exchange finishes exactly once')
  const left499 = finished.filter((status) => status === 499).length
  t.ok(left499 > ABORTS / 10 && left499 < ABORTS, `${left499} were left before their answer`)
  t.equal(edge.budget.used, 0, 'every byte was given back')
  t.equal(edge.server.inFlight, 0)
  t.same(edge.logged, [], 'nothing failed')
  const client = await RawClient.connect(edge.port)
  await client.send('POST /busy HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi')
  t.equal((await client.response())?.status, 200, 'and the server serves on')
  client.destroy()
})

t.test('whoever left is told nothing more', async (t) => {
  const seen: string[] = []
  const left = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  const late: EdgeRoute = {
    method: 'POST',
    path: '/late',
    async handle(exchange) {
      exchange.onFinished(() => seen.push(`finished ${exchange.status}`))
      exchange.signal.addEventListener('abort', () => {
        seen.push(`abort ${toGatewayError(exchange.signal.reason).code}`)
        left.resolve()
      })
      arrived.resolve()
      await left.promise
      exchange.body.consume({ onChunk: () => seen.push('chunk'), onError: () => seen.push('error') })
      exchange.body.pause()
      exchange.body.resume()
      exchange.reply({ status: 200, body: '{}' })
      exchange.onFinished(() => seen.push('finished late'))
      seen.push(`status ${exchange.status}, aborted ${exchange.signal.aborted}`)
      throw exchange.signal.reason
    },
  }
  const edge = await startEdge(t, [late])
  const client = await RawClient.connect(edge.port)
  // Once the first chunk waits for its consumer the socket is paused; this client leaves before it has sent one.
  await client.send('POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n')
  await arrived.promise
  client.destroy()
  t.ok(await waitUntil(() => seen.length >= 4))
  await sleep(50)
  t.same(seen, ['finished 499', 'abort CLIENT_CLOSED', 'finished late', 'status 499, aborted true'])
  t.same(edge.logged, [])
  t.equal(edge.budget.used, 0)
})

t.test('a signal asked for after the client left is aborted, and never after an answer', async (t) => {
  const kept: Exchange[] = []
  const keep: EdgeRoute = {
    method: 'GET',
    path: '/keep',
    handle(exchange) {
      kept.push(exchange)
      if (exchange.query === 'answer') exchange.reply({ status: 200, body: '{}' })
    },
  }
  const edge = await startEdge(t, [keep])
  for (const query of ['answer', 'wait']) {
    const client = await RawClient.connect(edge.port)
    await client.send(`GET /keep?${query} HTTP/1.1\r\nHost: a\r\n\r\n`)
    if (query === 'answer') await client.response()
    t.ok(await waitUntil(() => kept.some((exchange) => exchange.query === query)))
    client.destroy()
    t.ok(await waitUntil(() => edge.server.connections === 0))
  }
  t.equal(kept[0]?.signal.aborted, false)
  t.equal(kept[0]?.status, 200)
  t.equal(kept[1]?.signal.aborted, true)
  t.match(kept[1]?.signal.reason, { code: 'CLIENT_CLOSED' })
})

t.test('closing the server cuts every connection and leaves nothing held', async (t) => {
  const edge = await startEdge(t, [{ method: 'POST', path: '/hold', handle() {} }])
  const clients = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(edge.port)))
  for (const client of clients)
    await client.send(
      'POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n',
      Buffer.alloc(50_000),
    )
  t.ok(await waitUntil(() => edge.server.inFlight === 20 && edge.budget.used > 0))
  edge.server.close()
  t.ok(await waitUntil(() => edge.server.inFlight === 0))
  t.equal(edge.budget.used, 0)
  t.ok((await Promise.all(clients.map((client) => client.closes()))).every(Boolean))
  for (const client of clients) client.destroy()
})
