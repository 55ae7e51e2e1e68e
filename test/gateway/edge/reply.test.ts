import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Exchange, Reply, WholeReply } from '../../../src/gateway/edge/exchange.ts'
import { commonHeaders, prepareAnswer, SLICE_BYTES } from '../../../src/gateway/edge/reply.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { whenStill } from '../../support/stands-still.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

t.setTimeout(120_000)

function bytesOf(t: Test, reply: WholeReply): Buffer {
  const answer = prepareAnswer(reply, 'r')
  const parts = Array.from(answer.slices(), (slice) => Buffer.from(slice))
  const bytes = Buffer.concat(parts)
  t.equal(bytes.length, answer.length, 'the declared length is the real one')
  t.ok(parts.every((part) => part.length > 0 && part.length <= SLICE_BYTES))
  if (answer.whole !== null) t.ok(bytes.equals(Buffer.from(answer.whole as string)))
  return bytes
}

function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  let state = seed
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    bytes[at] = state >>> 16
  }
  return bytes
}

t.test('base64 pieces are one text, however their bytes are cut', async (t) => {
  for (const lengths of [
    [],
    [0],
    [1],
    [2],
    [3],
    [1, 1],
    [2, 2, 2],
    [5, 0, 7],
    [49_152],
    [49_151, 1],
    [49_153, 98_303, 2],
    [200_000, 1],
  ]) {
    const chunks = lengths.map((length, index) => noise(length, index + 1))
    const body = ['{"base64":"', { base64: chunks }, '","ä":1}', Buffer.from('!')]
    const expected = `{"base64":"${Buffer.concat(chunks).toString('base64')}","ä":1}!`
    t.equal(
      String(bytesOf(t, { status: 200, headers: { 'content-type': 'application/json' }, body })),
      expected,
      `${lengths}`,
    )
  }
})

t.test('headers that answers have in common are those of each', async (t) => {
  const common = commonHeaders({ 'content-type': 'audio/wav', 'x-lk-model': 'm' })
  const linesOf = (reply: WholeReply) => prepareAnswer(reply, 'r').headers.split('\r\n')
  const own = { 'x-lk-cache': 'hit' }
  const expected = [
    'nosniff',
    'x-lk-request-id: r',
    'x-lk-cache: hit',
    'content-type: audio/wav',
    'x-lk-model: m',
  ]
  t.same(linesOf({ status: 200, headers: own, common, body: noise(1) }), expected)
  const lines = '\r\nx-lk-policy-version-id: pv_1\r\nx-lk-cache: miss'
  t.same(
    linesOf({ status: 200, headers: { 'x-a': '1' }, common, lines, body: noise(1) }),
    [
      ...expected.slice(0, 2),
      'x-a: 1',
      'x-lk-policy-version-id: pv_1',
      'x-lk-cache: miss',
      ...expected.slice(3),
    ],
    'and lines that were made for this one',
  )
  const untyped = commonHeaders({ 'x-lk-model': 'm' })
  t.same(
    linesOf({ status: 200, common: untyped, body: '1' }),
    ['nosniff', 'x-lk-request-id: r', 'x-lk-model: m', 'content-type: application/json'],
    'the type that a body has by itself',
  )
  t.throws(() => commonHeaders({ 'x-lk-model': 'a\r\nb: c' }), /x-lk-model has control characters/)
  t.throws(() => commonHeaders({ 'content-length': '1' }), /content-length/)
})

t.test('headers that could split the answer are refused, by name and without their value', async (t) => {
  for (const value of ['a\r\nset-cookie: b', 'a\nb', 'a\rb', 'a\0b', 'a\x7fb', 'a\x1fb'])
    t.throws(() => prepareAnswer({ status: 200, headers: { 'x-a': value }, body: '' }, 'r'), {
      message: 'the header x-a has control characters',
    })
  for (const name of ['X-Upper', 'a b', 'a:', '', 'content-length', 'transfer-encoding', 'x-lk-request-id'])
    t.throws(() => prepareAnswer({ status: 200, headers: { [name]: 'v' }, body: '' }, 'r'), /may not set/)
  t.throws(() => prepareAnswer({ status: 299, body: '' }, 'r'), /no HTTP status/)
})

function answering(path: string, reply: () => Reply): EdgeRoute[] {
  const answer = (exchange: Parameters<EdgeRoute['handle']>[0]) => {
    exchange.body.consume({
      onChunk: (_, last) => last && exchange.reply(reply()),
      onError: (e) => exchange.replyError(e),
    })
  }
  return [
    { method: 'GET', path, handle: answer },
    { method: 'POST', path, handle: answer },
  ]
}

t.test('every value that may be sent stays within its own header', async (t) => {
  const values: Record<string, string> = {
    '/empty': '',
    '/blank': ' \t ',
    '/latin': 'café\u0085',
    // Cut to one byte each, these would be CR LF.
    '/low-bytes': 'a\u010d\u010ax-evil: 1',
    '/separators': 'a\u2028b\u2029c',
    '/half': 'a\ud83db',
    '/large': 'v'.repeat(40_000),
  }
  const edge = await startEdge(t, [
    {
      method: 'GET',
      path: '/*',
      handle: (exchange) => {
        const { path } = exchange
        const status = path === '/latin' ? 202 : 200
        exchange.reply({ status, headers: { 'x-first': values[path] ?? '', 'x-last': '2' }, body: '{}' })
      },
    },
  ])
  const client = await RawClient.connect(edge.port)
  t.teardown(() => client.destroy())
  for (const [path, value] of Object.entries(values)) {
    await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const text = await client.rest(100)
    const written = Buffer.from(value.toWellFormed()).toString('latin1')
    const lines = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n')
    if (path !== '/half') t.ok(lines.includes(`x-first: ${written}`), path)
    t.ok(lines.includes('x-last: 2'))
    t.equal(lines.length, 8, `${path}: no line more than was written`)
    t.equal(text.slice(text.indexOf('\r\n\r\n') + 4), '{}')
    t.match(text, path === '/latin' ? /^HTTP\/1.1 202 Accepted\r\n/ : /^HTTP\/1.1 200 OK\r\n/)
  }
})

t.test('a header with CR LF becomes a 500, and nothing of it is sent', async (t) => {
  const edge = await startEdge(
    t,
    answering('/split', () => ({ status: 200, headers: { 'x-echo': 'a\r\nx-evil: 1' }, body: '{}' })),
  )
  const client = await RawClient.connect(edge.port)
  await client.send('GET /split HTTP/1.1\r\nHost: a\r\n\r\n')
  const response = await client.response()
  t.equal(response?.status, 500)
  t.notOk(response?.headers['x-evil'])
  t.match(JSON.parse(String(response?.body)), { error: { code: 'INTERNAL' } })
  t.equal(edge.logged.length, 1)
  t.notMatch(JSON.stringify(edge.logged), /x-evil/)
  client.destroy()
})

t.test('large answers of every kind arrive whole, and the connection lives on', async (t) => {
  const audio = noise(3 * MIB + 1)
  const shared = new Uint8Array(new SharedArrayBuffer(audio.length))
  shared.set(audio)
  const type = { 'content-type': 'application/octet-stream' }
  const text = 'ä'.repeat(500_000)
  const kinds: Record<string, [Reply, Buffer]> = {
    '/bytes': [{ status: 200, headers: type, body: audio }, audio],
    '/shared': [{ status: 200, headers: type, body: shared }, audio],
    '/text': [{ status: 200, headers: type, body: text }, Buffer.from(text)],
    '/pieces': [
      { status: 200, headers: type, body: ['<', audio, '>'] },
      Buffer.concat([Buffer.from('<'), audio, Buffer.from('>')]),
    ],
    '/base64': [
      { status: 200, headers: type, body: [{ base64: [shared.subarray(0, 7), shared.subarray(7)] }] },
      Buffer.from(audio.toString('base64')),
    ],
  }
  const edge = await startEdge(
    t,
    Object.entries(kinds).flatMap(([path, [reply]]) => answering(path, () => reply)),
  )
  const client = await RawClient.connect(edge.port)
  for (const round of [1, 2])
    for (const [path, [, expected]] of Object.entries(kinds)) {
      await client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi`)
      const response = await client.response()
      t.ok(response?.body.equals(expected), `${path}, round ${round}`)
    }
  t.equal(edge.server.inFlight, 0)
  client.destroy()
})

t.test('after a chunked request a large answer is whole and its connection is closed', async (t) => {
  const audio = noise(5 * MIB)
  const edge = await startEdge(
    t,
    answering('/audio', () => ({ status: 200, headers: { 'content-type': 'audio/mpeg' }, body: audio })),
  )
  for (let round = 0; round < 10; round++) {
    const client = await RawClient.connect(edge.port)
    await client.send(
      'POST /audio HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n',
    )
    if (round % 2) {
      client.socket.pause()
      await sleep(50)
      client.socket.resume()
    }
    const response = await client.response()
    t.equal(response?.headers.connection, 'close')
    t.ok(response?.body.equals(audio))
    t.ok(await client.closes(1_000))
    client.destroy()
  }
  t.equal(edge.server.inFlight, 0)
})

// uWS reports what it keeps in its own 16 KiB as written; closing then once lost the end of an answer whose
// last piece met a full kernel buffer. The sizes step over the point where loopback's buffers are full.
t.test('the end of an answer is not lost with its connection', async (t) => {
  const sized: EdgeRoute = {
    method: 'POST',
    path: '/sized/:bytes',
    handle(exchange) {
      const body = [Buffer.alloc(Number(exchange.params[0])), Buffer.alloc(9_000)]
      const reply = () => exchange.reply({ status: 200, headers: { 'content-type': 'audio/mpeg' }, body })
      exchange.body.consume({ onChunk: (_, last) => last && reply(), onError() {} })
    },
  }
  const edge = await startEdge(t, [sized])
  const short: number[] = []
  let bytes = 3_900_000
  const work = async () => {
    while (bytes < 4_400_000) {
      bytes += 8_000
      const wanted = bytes
      const client = await RawClient.connect(edge.port)
      client.socket.pause()
      await client.send(
        `POST /sized/${wanted} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      )
      await sleep(30)
      client.socket.resume()
      const response = await client.response()
      if (response?.body.length !== wanted + 9_000) short.push(wanted)
      client.destroy()
    }
  }
  await Promise.all([work(), work(), work()])
  t.same(short, [])
})

t.test('a draining server closes each connection after its answer', async (t) => {
  const edge = await startEdge(
    t,
    answering('/x', () => ({ status: 200, body: '{}' })),
  )
  const client = await RawClient.connect(edge.port)
  await client.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  t.notOk((await client.response())?.headers.connection)
  edge.server.stopListening()
  await client.send('GET /x HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response())?.headers.connection, 'close')
  t.ok(await client.closes())
  await t.rejects(RawClient.connect(edge.port), { code: 'ECONNREFUSED' })
})

t.test('a slow reader of a 20 MB base64 answer costs one slice, not the answer', async (t) => {
  const chunks = [noise(15 * MIB)]
  const readers = 12
  const edge = await startEdge(
    t,
    answering('/speech', () => ({
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: ['{"base64":"', { base64: chunks }, '"}'],
    })),
  )
  const before = process.memoryUsage.rss()
  const clients = await Promise.all(Array.from({ length: readers }, () => RawClient.connect(edge.port)))
  for (const client of clients) {
    client.socket.pause()
    await client.send('GET /speech HTTP/1.1\r\nHost: a\r\n\r\n')
  }
  await sleep(500)
  const grownBytes = process.memoryUsage.rss() - before
  t.equal(edge.server.inFlight, readers)
  t.ok(
    grownBytes < 60 * MIB,
    `${readers} stuck answers of 20 MB grew the process by ${Math.round(grownBytes / MIB)} MiB`,
  )
  const one = clients[0]!
  one.socket.resume()
  const response = await one.response({ timeoutMs: 30_000 })
  t.ok(
    JSON.parse(String(response?.body)).base64 === chunks[0]!.toString('base64'),
    'and read on, it is whole',
  )
  for (const client of clients) client.destroy()
  t.ok(await waitUntil(() => edge.server.inFlight === 0))
})

t.test('a client that reads nothing for long is given up', async (t) => {
  const clock = new VirtualClock()
  let exchange: Exchange | null = null
  const audio = noise(20 * MIB)
  const edge = await startEdge(
    t,
    answering('/audio', () => ({ status: 200, headers: { 'content-type': 'audio/mpeg' }, body: audio })),
    { clock, observe: (made) => (exchange = made) },
  )
  const client = await RawClient.connect(edge.port)
  client.socket.pause()
  await client.send('GET /audio HTTP/1.1\r\nHost: a\r\n\r\n')
  await whenStill(() => exchange?.sentBytes ?? 0)
  await clock.advance(59_000)
  t.equal(edge.server.inFlight, 1)
  await clock.advance(3_000)
  t.ok(await waitUntil(() => edge.server.inFlight === 0))
  client.destroy()
})

t.test('a large answer whose reader is slow can be taken back, whole or streamed', async (t) => {
  const clock = new VirtualClock()
  let exchange: Exchange | null = null
  const finished: string[] = []
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) yield noise(100_000)
  }
  const bodies = { whole: noise(30 * MIB), streamed: { stream: endless() }, small: noise(1_000) }
  const routes = Object.entries(bodies).map(
    ([name, body]): EdgeRoute => ({
      method: 'GET',
      path: `/${name}`,
      handle(exchange) {
        exchange.onFinished(() => finished.push(name))
        const headers = { 'content-type': 'audio/wav' }
        exchange.reply({ status: 200, headers, body } as Reply, 'acme')
      },
    }),
  )
  const observe = (made: Exchange) => (exchange = made)
  const { port, origin, budget } = await startEdge(t, routes, { clock, observe })
  await (await fetch(`${origin}/small`)).arrayBuffer()
  t.equal(budget.holders.size, 0, 'an answer that is out at once holds nothing')
  for (const name of ['whole', 'streamed']) {
    const client = await RawClient.connect(port)
    await client.send(`GET /${name} HTTP/1.1\r\nHost: a\r\n\r\n`)
    await client.receives(5_000)
    const [holder] = budget.holders
    t.equal(holder?.workspace, 'acme')
    t.equal(holder?.pace(clock.now()), null, 'too early to tell')
    client.socket.pause()
    await whenStill(() => exchange?.sentBytes ?? 0)
    await clock.advance(2_500)
    const { bytesPerSecond = 0, bytesLeft = 0 } = holder?.pace(clock.now()) ?? {}
    t.ok(bytesPerSecond > 1_000 && bytesLeft > MIB, `${bytesPerSecond} B/s, ${bytesLeft} left`)
    t.notOk(finished.includes(name))
    holder?.end()
    t.ok(finished.includes(name), 'all that hangs on it is given back at once')
    t.equal(budget.holders.size, 0)
    client.socket.resume()
    t.ok(await client.closes())
  }
})
