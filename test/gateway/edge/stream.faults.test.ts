import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { toAbortSignal } from '../../../src/contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../../src/contracts/errors.ts'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'
import type { EdgeOptions, EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { type Edge, startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { whenStill } from '../../support/stands-still.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { untilHeldBack } from './held-back.ts'

const MIB = 1024 * 1024
/** Connections are swept once a second, and a busy machine is late; its time-outs act no sooner. */
const SWEPT_MS = 5_000

t.setTimeout(60_000)

type Pieces = AsyncIterable<string | Uint8Array>

interface Streaming extends Edge {
  /** The events, in order. */
  readonly seen: string[]
  ask(path?: string, headers?: string): Promise<RawClient>
}

/** An edge whose every path streams what `make` gives. */
async function streaming(
  t: Test,
  make: (exchange: Exchange, seen: string[]) => Pieces,
  options: Pick<EdgeOptions, 'timing' | 'clock'> = {},
): Promise<Streaming> {
  const seen: string[] = []
  const handle = (exchange: Exchange) => {
    exchange.onFinished(() => seen.push(`finished ${exchange.status}`))
    exchange.signal.addEventListener('abort', () =>
      seen.push(`abort ${toGatewayError(exchange.signal.reason).code}`),
    )
    const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' }
    const answer = () => exchange.reply({ status: 200, headers, body: { stream: make(exchange, seen) } })
    if (exchange.path === '/whole') exchange.reply({ status: 200, body: '{}' })
    else if (exchange.method === 'GET') answer()
    else
      exchange.body.consume({
        onChunk: (_, last) => last && answer(),
        onError: (e) => exchange.replyError(e),
      })
  }
  const routes: EdgeRoute[] = (['GET', 'POST'] as const).map((method) => ({ method, path: '/*', handle }))
  const edge = await startEdge(t, routes, options)
  const ask = async (path = '/', headers = '') => {
    const client = await RawClient.connect(edge.port)
    t.teardown(() => client.destroy())
    await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
    return client
  }
  return { ...edge, seen, ask, server: edge.server }
}

/** Everything that came, without the two headers that uWS puts in. */
async function wire(client: RawClient, quietMs = 200): Promise<string> {
  return (await client.rest(quietMs)).replace(/^(Date|uWebSockets): .*\r\n/gm, '')
}

const HEAD = [
  'HTTP/1.1 200 OK',
  'x-content-type-options: nosniff',
  'x-lk-request-id: r1',
  'content-type: text/event-stream',
  'cache-control: no-store',
  'Transfer-Encoding: chunked',
].join('\r\n')

t.test('chunks are framed to the byte, and the first is there before the second is made', async (t) => {
  const turns: (() => void)[] = []
  const turn = () => new Promise<void>((resolve) => turns.push(resolve))
  const edge = await streaming(t, async function* (_, seen) {
    yield 'data: one\n\n'
    seen.push('asked for the second')
    await turn()
    yield Buffer.from('zwö')
    yield ''
    yield new Uint8Array(0)
    await turn()
    yield 'x'
    await turn()
  })
  const client = await edge.ask('/', 'X-LK-Request-ID: r1\r\n')
  t.equal(await wire(client), `${HEAD}\r\n\r\na\r\ndata: one\n\r\n1\r\n\n`)
  t.same(edge.seen, ['asked for the second'])
  turns.shift()?.()
  t.equal(
    await wire(client),
    `\r\n3\r\nzw${Buffer.from('ö').toString('latin1')[0]}\r\n1\r\n${Buffer.from('ö').toString('latin1')[1]}`,
  )
  turns.shift()?.()
  t.equal(await wire(client), '\r\n1\r\nx')
  t.equal(edge.server.inFlight, 1)
  turns.shift()?.()
  t.equal(await wire(client), '\r\n0\r\n\r\n')
  t.same(edge.seen.slice(1), ['finished 200'], 'and the signal did not abort')
  t.equal(edge.server.inFlight, 0)
})

t.test('a connection serves on after a stream, also after one without a piece', async (t) => {
  const edge = await streaming(t, async function* ({ path }) {
    if (path === '/nothing') return
    for (let piece = 0; piece < 3; piece += 1) yield `${path}${piece}`
  })
  const client = await edge.ask('/a')
  t.equal(String((await client.response())?.body), '/a0/a1/a2')
  for (const path of ['/b', '/nothing', '/whole', '/c']) {
    await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const expected = { '/nothing': '', '/whole': '{}' }[path] ?? `${path}0${path}1${path}2`
    const response = await client.response()
    t.equal(response?.status, 200)
    t.equal(String(response?.body), expected)
  }
  await client.send('HEAD /b HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response({ head: true }))?.status, 200)
  await client.send('GET /d HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal(String((await client.response())?.body), '/d0/d1/d2')
  t.notOk(client.closed)
})

t.test('a thousand pieces at once, and one of 5 MB', async (t) => {
  const large = Buffer.alloc(5_000_000, 'abcdefg')
  const edge = await streaming(t, async function* ({ path }) {
    if (path === '/large') yield large
    else for (let piece = 0; piece < 1_000; piece += 1) yield `data: ${piece}\n\n`
  })
  const burst = await (await edge.ask('/burst')).response()
  t.equal(String(burst?.body), Array.from({ length: 1_000 }, (_, piece) => `data: ${piece}\n\n`).join(''))
  const client = await edge.ask('/large')
  t.ok((await client.response())?.body.equals(large))
})

t.test('a fast stream lets others in between', async (t) => {
  const edge = await streaming(t, async function* ({ path }) {
    const piece = path === '/large' ? Buffer.alloc(MIB) : 'x'
    for (let left = path === '/large' ? 300 : 100_000; left > 0; left -= 1) yield piece
  })
  for (const path of ['/large', '/small']) {
    const client = await edge.ask(path)
    client.socket.on('data', () => {})
    const other = await edge.ask('/whole')
    const startedMs = performance.now()
    t.equal((await other.response())?.status, 200)
    t.ok(edge.server.inFlight > 0, 'while the stream is not over')
    t.ok(performance.now() - startedMs < 5_000)
    client.destroy()
  }
})

t.test('a slow reader holds the source back, and then gets everything', async (t) => {
  let made = 0
  const block = Buffer.alloc(MIB, 'x')
  const edge = await streaming(t, async function* () {
    while (made < 48) {
      made += 1
      yield block
    }
  })
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  client.socket.pause()
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const madeAt = await whenStill(() => made)
  const before = process.memoryUsage()
  t.ok(madeAt < 24, `${madeAt} MiB were made, most of which the kernel holds`)
  const { arrayBuffers, external } = process.memoryUsage()
  t.ok(arrayBuffers + external - before.arrayBuffers - before.external < MIB)
  client.socket.resume()
  const text = await client.rest(1_000)
  t.ok(text.endsWith('\r\n0\r\n\r\n'))
  const xs = text.slice(text.indexOf('\r\n\r\n')).replaceAll(/[^x]+/g, '').length
  t.equal(xs, 48 * MIB)
})

t.test('the rest of a piece reaches a reader that was slow, though the next is not made yet', async (t) => {
  const gate = Promise.withResolvers<void>()
  let held = false
  const edge = await streaming(t, async function* () {
    yield* untilHeldBack()
    held = true
    await gate.promise
    yield 'end'
  })
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  client.socket.pause()
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok(await waitUntil(() => held))
  let received = ''
  client.socket.on('data', (chunk: Buffer) => (received = (received + chunk.toString('latin1')).slice(-40)))
  client.socket.resume()
  t.ok(await waitUntil(() => received.endsWith('\r\n1\r\n!'), 5_000), 'to its last byte')
  gate.resolve()
  t.ok(await waitUntil(() => received.endsWith('\r\n2\r\nen\r\n1\r\nd\r\n0\r\n\r\n'), 5_000))
})

t.test('a reader that stops for good is cut, and the source left', async (t) => {
  const clock = new VirtualClock()
  let made = 0
  const edge = await streaming(
    t,
    async function* (_, seen) {
      try {
        for (;;) {
          made += 1
          yield Buffer.alloc(MIB)
        }
      } finally {
        seen.push('left')
      }
    },
    { clock },
  )
  const client = await RawClient.connect(edge.port)
  client.socket.pause()
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await whenStill(() => made)
  await clock.advance(59_000)
  t.same(edge.seen, [], 'not before its time')
  await clock.advance(3_000)
  t.ok(await waitUntil(() => edge.seen.includes('left')))
  t.same(edge.seen.toSorted(), ['abort CLIENT_CLOSED', 'finished 200', 'left'])
  t.equal(edge.server.inFlight, 0)
  client.destroy()
})

t.test('a reader that takes a little now and then is not cut', async (t) => {
  const clock = new VirtualClock()
  let made = 0
  const edge = await streaming(
    t,
    async function* () {
      for (; made < 60; made += 1) yield Buffer.alloc(200_000, 'x')
    },
    { clock, timing: { sweepMs: 50, writeStallMs: 2_000 } },
  )
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  const { socket } = client
  socket.pause()
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok((await whenStill(() => made)) < 60, 'the reader is slow')
  // At this pace the kernel reports room every 3 s.
  for (let step = 0; step < 40; step += 1) {
    const read = once(socket, 'data')
    socket.resume()
    await read
    socket.pause()
    await clock.advance(150)
  }
  t.notOk(client.closed)
  t.equal(edge.server.inFlight, 1)
  socket.resume()
  t.match(await client.rest(1_000), /x\r\n0\r\n\r\n$/)
})

t.test('a client that leaves in a pause is noticed, and the source left at once', async (t) => {
  const edge = await streaming(t, (exchange, seen) => {
    let pieces = 0
    const stopped = new Promise<never>((_, reject) => {
      exchange.signal.addEventListener('abort', () => reject(exchange.signal.reason))
    })
    return {
      [Symbol.asyncIterator]: () => ({
        next: () =>
          pieces++ === 0
            ? Promise.resolve({ value: 'first', done: false as const })
            : (stopped as Promise<IteratorResult<string>>),
        async return() {
          seen.push('return')
          return { value: undefined, done: true as const }
        },
      }),
    }
  })
  const client = await edge.ask()
  t.ok(await client.receives(1_000))
  await sleep(100)
  client.destroy()
  t.ok(await waitUntil(() => edge.seen.includes('return'), SWEPT_MS))
  t.same(edge.seen, ['finished 200', 'abort CLIENT_CLOSED', 'return'])
  t.same(edge.logged, [], 'its leaving is no failure')
  t.equal(edge.server.inFlight, 0)
})

t.test('a client that leaves while its answer flows, or before the answer', async (t) => {
  const edge = await streaming(t, async function* ({ path }, seen) {
    try {
      if (path === '/late') await sleep(300)
      for (;;) {
        yield Buffer.alloc(10_000)
        await sleep(1)
      }
    } finally {
      seen.push('left')
    }
  })
  const flowing = await edge.ask()
  await flowing.receives(1_000)
  flowing.socket.resetAndDestroy()
  t.ok(await waitUntil(() => edge.seen.includes('left'), SWEPT_MS))
  t.same(edge.seen, ['finished 200', 'abort CLIENT_CLOSED', 'left'])

  const early = await edge.ask('/late')
  await sleep(50)
  early.destroy()
  t.ok(await waitUntil(() => edge.seen.length === 6, SWEPT_MS))
  t.same(edge.seen.slice(3), ['finished 499', 'abort CLIENT_CLOSED', 'left'])
  t.same(edge.logged, [])
})

t.test('a stream that can reach no one any more is left, unread', async (t) => {
  const seen: string[] = []
  const watched = (name: string): Pieces => ({
    [Symbol.asyncIterator]: () => ({
      async next() {
        seen.push(`${name} read`)
        return { value: 'x', done: false }
      },
      async return() {
        seen.push(`${name} left`)
        return { value: undefined, done: true }
      },
    }),
  })
  const headers = { 'content-type': 'text/plain' }
  const route: EdgeRoute = {
    method: 'GET',
    path: '/*',
    async handle(exchange) {
      if (exchange.path === '/late') await sleep(200)
      else exchange.reply({ status: 200, body: '{}' })
      const bad = exchange.path === '/bad' ? 'a\r\nb: c' : 'fine'
      exchange.reply({
        status: 200,
        headers: { ...headers, 'x-a': bad },
        body: { stream: watched(exchange.path) },
      })
    },
  }
  const bad: EdgeRoute = {
    method: 'POST',
    path: '/*',
    handle: (exchange) =>
      exchange.reply({
        status: 200,
        headers: exchange.path === '/typeless' ? {} : { ...headers, 'x-a': 'a\r\nb: c' },
        body: { stream: watched(exchange.path) },
      }),
  }
  const edge = await startEdge(t, [route, bad])
  const late = await RawClient.connect(edge.port)
  await late.send('GET /late HTTP/1.1\r\nHost: a\r\n\r\n')
  await sleep(50)
  late.destroy()
  const second = await RawClient.connect(edge.port)
  await second.send('GET /second HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal(String((await second.response())?.body), '{}')
  for (const path of ['/typeless', '/split']) {
    await second.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`)
    const response = await second.response()
    t.equal(response?.status, 500)
    t.notOk(String(response?.body).includes('b: c'))
  }
  second.destroy()
  await sleep(300)
  t.same(seen.toSorted(), ['/late left', '/second left', '/split left', '/typeless left'])
  t.equal(edge.logged.length, 2, 'the two that could not be written')
})

t.test('what fails after its first piece cuts the connection, without the chunk that ends it', async (t) => {
  const edge = await streaming(t, async function* () {
    yield 'half'
    throw new Error('the source broke')
  })
  const client = await edge.ask()
  t.ok(await client.closes(2_000))
  t.match(await wire(client), /\r\n\r\n3\r\nhal\r\n1\r\nf$/)
  t.same(edge.seen, ['finished 200', 'abort CLIENT_CLOSED'])
  t.match(edge.logged, [{ msg: 'an answer was cut short', stack: /the source broke/ }])
  t.equal(edge.logged.length, 1)
})

t.test(
  'what fails before its first piece is answered as an error, and the connection serves on',
  async (t) => {
    const edge = await streaming(t, async function* ({ path }) {
      await sleep(20)
      if (path === '/known') throw new GatewayError('OVERLOADED')
      if (path === '/bug') throw new Error('the source broke')
      yield 'fine'
    })
    const client = await edge.ask('/known')
    const known = await client.response()
    t.equal(known?.status, 503)
    t.equal(JSON.parse(String(known?.body)).error.code, 'OVERLOADED')
    t.same(edge.logged, [], 'which is an answer in itself')
    await client.send('GET /bug HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await client.response())?.status, 500)
    t.match(edge.logged, [{ stack: /the source broke/ }])
    await client.send('GET /fine HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal(String((await client.response())?.body), 'fine')
    t.same(edge.seen, ['finished 503', 'finished 500', 'finished 200'])
  },
)

t.test('a failure after the client’s leaving is logged, unless it is that leaving', async (t) => {
  const edge = await streaming(t, async function* (exchange) {
    yield 'first'
    await new Promise((_, reject) => {
      exchange.signal.addEventListener('abort', () => {
        reject(exchange.path === '/bug' ? new Error('broke while it was tidying up') : exchange.signal.reason)
      })
    })
  })
  for (const path of ['/plain', '/bug']) {
    const client = await edge.ask(path)
    await client.receives(1_000)
    client.destroy()
    await sleep(200)
  }
  t.match(edge.logged, [{ path: '/*', stack: /tidying up/ }])
  t.equal(edge.logged.length, 1)
})

t.test('once the server drains, a stream says that its connection closes', async (t) => {
  const gate = Promise.withResolvers<void>()
  const edge = await streaming(t, async function* () {
    await gate.promise
    yield 'x'
  })
  const client = await edge.ask()
  await sleep(50)
  edge.server.stopListening()
  gate.resolve()
  const response = await client.response()
  t.equal(response?.headers.connection, 'close')
  t.equal(String(response?.body), 'x')
})

t.test('a client that asked for it is left after the stream', async (t) => {
  const edge = await streaming(t, async function* () {
    yield 'x'
  })
  const client = await edge.ask('/', 'Connection: close\r\n')
  t.equal(String((await client.response())?.body), 'x')
  t.ok(await client.closes(1_000))
})

t.test(
  'a request after one that is still answered closes the connection, and leaves the source',
  async (t) => {
    const edge = await streaming(t, async function* (_, seen) {
      try {
        for (;;) {
          yield 'x'
          await sleep(10)
        }
      } finally {
        seen.push('left')
      }
    })
    const client = await edge.ask()
    await client.receives(1_000)
    await client.send('GET /second HTTP/1.1\r\nHost: a\r\n\r\n')
    t.ok(await client.closes(2_000))
    t.ok(await waitUntil(() => edge.seen.includes('left')))
    t.same(edge.seen, ['finished 200', 'abort CLIENT_CLOSED', 'left'])
  },
)

t.test('hundreds of clients that leave at random take nothing with them', async (t) => {
  let open = 0
  let started = 0
  let taken = 0
  async function* pieces({ signal }: Exchange) {
    started += 1
    open += 1
    try {
      for (let left = Math.random() * 20; left > 0; left -= 1) {
        if (Math.random() < 0.5)
          await sleep(Math.random() * 5, undefined, { signal: toAbortSignal(signal) }).catch(() => {})
        yield Math.random() < 0.2 ? Buffer.alloc(Math.random() * 2 * MIB) : 'data: x\n\n'
      }
    } finally {
      open -= 1
    }
  }
  const make = (exchange: Exchange) => {
    taken += 1
    return pieces(exchange)
  }
  const timing = { sweepMs: 20, rearmMs: 1, pauseMs: 2, discardMs: 20 }
  const edge = await streaming(t, make, { timing })
  let left = 400
  const work = async () => {
    while (left-- > 0) {
      const client = await edge.ask()
      await sleep(Math.random() * 30)
      if (left % 3 === 0) client.socket.resetAndDestroy()
      else client.destroy()
    }
  }
  await Promise.all(Array.from({ length: 10 }, work))
  t.ok(await waitUntil(() => edge.server.inFlight === 0 && open === 0))
  t.ok(started > 300, `${started} streams were begun`)
  t.equal(edge.seen.filter((line) => line.startsWith('finished')).length, taken, 'each finishes once')
  t.same(edge.logged, [])
  t.equal((await (await edge.ask('/whole')).response())?.status, 200)
})

/** Both wait for uWS's own timer of 8 to 12 s, in real time. */
t.jobs = 2

t.test('after a chunked request nothing more is read from the connection', { buffered: true }, async (t) => {
  const edge = await streaming(t, async function* ({ path }) {
    yield path
  })
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  await client.send('POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n')
  const response = await client.response()
  t.equal(String(response?.body), '/a')
  t.equal(response?.headers.connection, 'close')
  await client.send('GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n')
  await sleep(300)
  t.same(edge.seen, ['finished 200'], 'no second request')
  t.equal(await client.response({ timeoutMs: 100 }), null)
  t.ok(await client.closes(14_000), 'and it closes when its client does not')
})

t.test(
  'a pause of 14 s is survived, and the client’s leaving still noticed',
  { buffered: true },
  async (t) => {
    const edge = await streaming(t, async function* ({ path }, seen) {
      try {
        yield 'before'
        if (path === '/leave') await sleep(40_000, undefined, { ref: false })
        else await sleep(14_000)
        yield 'after'
      } finally {
        seen.push(`${path} over`)
      }
    })
    const staying = await edge.ask('/stay')
    const leaving = await edge.ask('/leave')
    await sleep(13_000)
    leaving.destroy()
    t.ok(await waitUntil(() => edge.seen.includes('abort CLIENT_CLOSED'), SWEPT_MS), 'by the sweep')
    t.equal(String((await staying.response({ timeoutMs: 10_000 }))?.body), 'beforeafter')
    await staying.send('GET /whole HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await staying.response())?.status, 200)
  },
)
