import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { toGatewayError } from '../../../src/contracts/errors.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { EDGE_TIMING, RateMeter } from '../../../src/gateway/edge/timing.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

t.setTimeout(120_000)

/** Reads a body, pausing once for `pauseMs` at its first chunk, and answers `answerMs` after its last one. */
function slowRoute(
  path: string,
  pauseMs: number,
  answerMs: number,
  size = 2,
  clock: Clock = systemClock,
): EdgeRoute {
  const handle = (exchange: Exchange) => {
    let paused = false
    exchange.body.consume({
      onChunk(_, last) {
        if (!paused && pauseMs > 0) {
          paused = true
          exchange.body.pause()
          clock.after(pauseMs, () => exchange.body.resume())
        }
        if (last)
          clock.after(answerMs, () => {
            const headers = { 'content-type': 'text/plain', 'x-received': String(exchange.receivedBytes) }
            exchange.reply({ status: 200, headers, body: Buffer.alloc(size, 'x') })
          })
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

// uWS closes what is older than 8 to 12 s on a timer that cannot be configured. Each of these outlives it, in real
// time, and both tests at once.
t.jobs = 2
t.test('the native timer cuts no one who is only slow or waiting', { buffered: true }, async (t) => {
  const edge = await startEdge(t, [
    slowRoute('/paused-then-late', 1_500, 14_000),
    slowRoute('/late', 0, 14_000),
    slowRoute('/long-pause', 14_000, 0),
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
        'an answer 14 s after the last chunk, after backpressure',
      )
      await after(client, 'late answer')
    })(),
    (async () => {
      const client = await post(edge.port, '/late', 'hi')
      t.equal(
        (await client.response({ timeoutMs: 40_000 }))?.status,
        200,
        'an answer 14 s after a body in one chunk',
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
      t.equal(response?.headers['x-received'], String(40 * MIB), 'a body after a pause of 14 s')
      await after(client, 'long pause')
    })(),
    (async () => {
      const client = await RawClient.connect(edge.port)
      const length = 6_000 * 14
      await client.send(`POST /prompt HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`)
      for (let second = 0; second < 14; second++) {
        await client.send(Buffer.alloc(6_000))
        await sleep(1_000)
      }
      t.equal((await client.response())?.headers['x-received'], String(length), 'an upload at 6 kB/s')
      await after(client, 'slow upload')
    })(),
    (async () => {
      const client = await RawClient.connect(edge.port)
      await client.send('POST /prompt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na')
      await sleep(14_000)
      await client.send('bc')
      t.equal((await client.response())?.headers['x-received'], '3', 'an upload that stalls for 14 s')
      await after(client, 'stalled upload')
    })(),
    (async () => {
      const client = await post(edge.port, '/large', 'hi')
      client.socket.pause()
      await sleep(14_000)
      client.socket.resume()
      t.equal(
        (await client.response({ timeoutMs: 40_000 }))?.body.length,
        20 * MIB,
        'an answer whose reader rests for 14 s',
      )
      await after(client, 'slow reader')
    })(),
  ])
  t.equal(edge.server.inFlight, 0)
  t.equal(edge.budget.used, 0)
})

t.test('a client that leaves while its answer is awaited is noticed', { buffered: true }, async (t) => {
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

t.test('a body that is too slow is 408, and the connection is closed', async (t) => {
  const clock = new VirtualClock()
  const edge = await startEdge(t, [slowRoute('/body', 0, 0)], { clock })
  const client = await RawClient.connect(edge.port)
  await client.send('POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc')
  t.ok(await waitUntil(() => edge.server.inFlight === 1))
  let answered = false
  const answer = client.response().finally(() => {
    answered = true
  })
  // Grace and window, in which it brings 20 bytes a second.
  for (let second = 0; second < 39; second++) {
    await client.send(Buffer.alloc(20))
    await clock.advance(1_000)
  }
  t.notOk(answered, 'not before grace and window are over')
  await clock.advance(2_000 + EDGE_TIMING.discardMs + EDGE_TIMING.pauseMs)
  const response = await answer
  t.equal(response?.status, 408)
  t.equal(response?.headers['x-should-retry'], 'true')
  t.equal(JSON.parse(String(response?.body)).error.code, 'REQUEST_TIMEOUT')
  await clock.advance(EDGE_TIMING.lingerMs)
  t.ok(await client.closes())
  t.equal(edge.server.inFlight, 0)
})

t.test('a body without a consumer yet is told when there is one', async (t) => {
  const clock = new VirtualClock()
  const gate = Promise.withResolvers<void>()
  const late: EdgeRoute = {
    method: 'POST',
    path: '/late',
    async handle(exchange) {
      await gate.promise
      exchange.body.consume({ onChunk() {}, onError: (error) => exchange.replyError(error) })
    },
  }
  const edge = await startEdge(t, [late], { clock })
  const client = await RawClient.connect(edge.port)
  await client.send('POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n')
  t.ok(await waitUntil(() => edge.server.inFlight === 1))
  await clock.advance(41_000)
  gate.resolve()
  await clock.advance(EDGE_TIMING.discardMs)
  await clock.advance(EDGE_TIMING.pauseMs)
  t.equal((await client.response())?.status, 408)
  client.destroy()
})

t.test('our own pauses do not count against the sender', async (t) => {
  const clock = new VirtualClock()
  const edge = await startEdge(t, [slowRoute('/body', 60_000, 0, 2, clock)], { clock })
  const client = await RawClient.connect(edge.port)
  await client.send('POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab')
  t.ok(await waitUntil(() => clock.dueInMs.includes(60_000)), 'it is paused')
  await clock.advance(60_000)
  await client.send('cd')
  t.ok(await waitUntil(() => clock.dueInMs.includes(0)), 'the rest has come')
  await clock.advance(0)
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
