import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { toGatewayError } from '../../src/errors.ts'
import type { Exchange } from '../../src/inbound/exchange.ts'
import type { EdgeRoute } from '../../src/inbound/server.ts'
import { EDGE_TIMING, RateMeter } from '../../src/inbound/timing.ts'

import { startEdge } from '../support/edge.ts'
import { RawClient } from '../support/raw-client.ts'

const MIB = 1024 * 1024

t.setTimeout(120_000)

/** Reads a body, pausing once for `pauseMs` at its first chunk, and answers `answerMs` after its last one. */
function slowRoute(path: string, pauseMs: number, answerMs: number, size = 2): EdgeRoute {
  const handle = (exchange: Exchange) => {
    let paused = false
    exchange.body.consume({
      onChunk(_, last) {
        if (!paused && pauseMs > 0) {
          paused = true
          exchange.body.pause()
          setTimeout(() => exchange.body.resume(), pauseMs)
        }
        if (last)
          setTimeout(() => {
            const headers = { 'content-type': 'text/plain', 'x-received': String(exchange.receivedBytes) }
            exchange.reply({ status: 200, headers, body: Buffer.alloc(size, 'x') })
          }, answerMs)
      },
      onError: (error) => exchange.replyError(error),
    })
  }
  return { method: 'POST', path, handle }
}

async function post(port: number, path: string, ...pieces: (string | Uint8Array)[]): Promise<RawClient> {
  const client = await RawClient.connect(port)
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  await client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`, ...pieces)
  return client
}

// uWS closes whatever is older than 8 to 12 s on a timer that cannot be configured. Each of these outlives
// it.
t.test('the native timer cuts nobody who is only slow or waiting', async (t) => {
  const edge = await startEdge(t, [
    slowRoute('/paused-then-late', 1_500, 20_000),
    slowRoute('/late', 0, 15_000),
    slowRoute('/long-pause', 16_000, 0),
    slowRoute('/prompt', 0, 0),
    slowRoute('/large', 0, 0, 20 * MIB),
  ])
  const after = async (client: RawClient, label: string) => {
    await client.send('POST /prompt HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi')
    t.equal((await client.response())?.status, 200, `${label}: the connection serves on`)
    client.destroy()
  }
  await Promise.all([
    (async () => {
      const client = await post(edge.port, '/paused-then-late', Buffer.alloc(5 * MIB))
      const response = await client.response({ timeoutMs: 40_000 })
      t.equal(
        response?.headers['x-received'],
        String(5 * MIB),
        'an answer 20 s after the last chunk, after backpressure',
      )
      await after(client, 'late answer')
    })(),
    (async () => {
      const client = await post(edge.port, '/late', 'hi')
      t.equal(
        (await client.response({ timeoutMs: 40_000 }))?.status,
        200,
        'an answer 15 s after a body in one chunk',
      )
      await after(client, 'late answer without backpressure')
    })(),
    (async () => {
      const client = await RawClient.connect(edge.port)
      void client.send(
        `POST /long-pause HTTP/1.1\r\nHost: a\r\nContent-Length: ${40 * MIB}\r\n\r\n`,
        Buffer.alloc(40 * MIB),
      )
      const response = await client.response({ timeoutMs: 60_000 })
      t.equal(response?.headers['x-received'], String(40 * MIB), 'a body behind a pause of 16 s')
      await after(client, 'long pause')
    })(),
    (async () => {
      const client = await RawClient.connect(edge.port)
      const length = 6_000 * 17
      await client.send(`POST /prompt HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`)
      for (let second = 0; second < 17; second++) {
        await client.send(Buffer.alloc(6_000))
        await sleep(1_000)
      }
      t.equal((await client.response())?.headers['x-received'], String(length), 'an upload at 6 kB/s')
      await after(client, 'slow upload')
    })(),
    (async () => {
      const client = await RawClient.connect(edge.port)
      await client.send('POST /prompt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na')
      await sleep(16_000)
      await client.send('bc')
      t.equal((await client.response())?.headers['x-received'], '3', 'an upload that stalls for 16 s')
      await after(client, 'stalled upload')
    })(),
    (async () => {
      const client = await post(edge.port, '/large', 'hi')
      client.socket.pause()
      await sleep(16_000)
      client.socket.resume()
      t.equal(
        (await client.response({ timeoutMs: 40_000 }))?.body.length,
        20 * MIB,
        'an answer whose reader rests for 16 s',
      )
      await after(client, 'slow reader')
    })(),
  ])
  t.equal(edge.server.inFlight, 0)
  t.equal(edge.budget.used, 0)
})

t.test('a client that leaves while its answer is awaited is noticed', async (t) => {
  const reasons: unknown[] = []
  const waiting: EdgeRoute = {
    method: 'POST',
    path: '/wait',
    handle(exchange) {
      exchange.signal.addEventListener('abort', () =>
        reasons.push(toGatewayError(exchange.signal.reason).code),
      )
      exchange.body.consume({
        onChunk() {
          exchange.body.pause()
          setTimeout(() => exchange.body.resume(), 50)
        },
        onError() {},
      })
    },
  }
  const edge = await startEdge(t, [waiting])
  const client = await post(edge.port, '/wait', Buffer.alloc(MIB))
  await sleep(4_500)
  t.equal(edge.server.inFlight, 1)
  client.destroy()
  await sleep(500)
  t.same(reasons, ['CLIENT_CLOSED'])
  t.equal(edge.server.inFlight, 0)
})

const QUICK = { sweepMs: 20, graceMs: 200, windowMs: 300 }

t.test('a body that is too slow is 408, and the connection is closed', async (t) => {
  const edge = await startEdge(t, [slowRoute('/body', 0, 0)], { timing: { ...QUICK, discardMs: 50 } })
  const client = await RawClient.connect(edge.port)
  const started = performance.now()
  await client.send('POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc')
  const trickle = setInterval(() => void client.send(Buffer.alloc(20)), 50)
  const response = await client.response()
  clearInterval(trickle)
  t.equal(response?.status, 408)
  t.equal(response?.headers['x-should-retry'], 'true')
  t.equal(JSON.parse(String(response?.body)).error.code, 'REQUEST_TIMEOUT')
  t.ok(performance.now() - started > 480, 'not before grace and window are over')
  t.ok(await client.closes())
  t.equal(edge.server.inFlight, 0)
})

t.test('a body without a consumer yet is told when there is one', async (t) => {
  const late: EdgeRoute = {
    method: 'POST',
    path: '/late',
    async handle(exchange) {
      await sleep(900)
      exchange.body.consume({ onChunk() {}, onError: (error) => exchange.replyError(error) })
      await sleep(10)
    },
  }
  const edge = await startEdge(t, [late], { timing: { ...QUICK, discardMs: 50 } })
  const client = await RawClient.connect(edge.port)
  await client.send('POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n')
  t.equal((await client.response())?.status, 408)
  client.destroy()
})

t.test('our own pauses do not count against the sender', async (t) => {
  const edge = await startEdge(t, [slowRoute('/body', 1_500, 0)], { timing: QUICK })
  const client = await RawClient.connect(edge.port)
  await client.send('POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab')
  await sleep(1_550)
  await client.send('cd')
  t.equal((await client.response())?.headers['x-received'], '4')
  client.destroy()
})

t.test('a pace is judged over any window after the grace, and in all', async (t) => {
  const judge = (rate: (second: number) => number, seconds: number) => {
    const pace = new RateMeter(EDGE_TIMING)
    let bytes = 0
    for (let second = 1; second <= seconds; second++) {
      bytes += rate(second)
      if (pace.isTooSlow(second * 1_000, bytes)) return second
    }
    return null
  }
  t.equal(
    judge(() => 0, 120),
    40,
    'nothing at all',
  )
  t.equal(
    judge(() => 4_095, 120),
    40,
    'just below the rate',
  )
  t.equal(
    judge(() => 4_096, 899),
    null,
    'just at the rate',
  )
  t.equal(
    judge((second) => (second < 100 ? 10_000 : 0), 200),
    117,
    'a stall after a good while',
  )
  t.equal(
    judge((second) => (second % 29 === 0 ? 200_000 : 0), 800),
    null,
    'bursts',
  )
  t.equal(
    judge(() => 1_000_000, 1_000),
    900,
    'fast, but endless',
  )
})
