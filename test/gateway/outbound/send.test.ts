import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import type { AudioReader, AudioRef } from '../../../src/contracts/audio.ts'
import { UpstreamFailure, type UpstreamRequest } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { audio } from '../../support/call.ts'
import { listen, serveHttp } from '../../support/http-server.ts'
import { type Watched, watchTenants } from '../../support/tenant-watch.ts'

const CHUNK_BYTES = 512 * 1024

/** A reader whose audio lies in one pooled buffer, as the product's does: what is read late is read wrong. */
function pooledReader(pool: Uint8Array): AudioReader {
  async function* bytes({ decodedBytes }: AudioRef) {
    for (let at = 0; at < decodedBytes; at += CHUNK_BYTES)
      yield pool.subarray(at, Math.min(at + CHUNK_BYTES, decodedBytes))
  }
  return { bytes, base64: bytes, range: async (_, start, end) => pool.slice(start, end) }
}

function upload(origin: string, bytes: number): UpstreamRequest {
  const ref = audio({ decodedBytes: bytes, length: bytes })
  const head = Buffer.from('head')
  return {
    method: 'POST',
    url: `${origin}/v1`,
    headers: {},
    body: [head, { audio: ref, as: 'bytes' }, Buffer.from('tail')],
  }
}

const ask = { deadlineMs: 10_000, signal: new AbortController().signal, onHeld: () => {} }

function sender(t: Test, pool: Uint8Array) {
  const made = createSender({ reader: pooledReader(pool) })
  t.teardown(() => made.close())
  return made.send
}

t.test('a body of pieces arrives whole, with its length, and the answer comes back', async (t) => {
  const pool = new Uint8Array(3_000_000).fill(7)
  const seen: { length: string | undefined; coding: string | undefined; bytes: number }[] = []
  const origin = await serveHttp(t, async (req, res) => {
    let bytes = 0
    for await (const chunk of req) bytes += (chunk as Buffer).length
    seen.push({ length: req.headers['content-length'], coding: req.headers['transfer-encoding'], bytes })
    res.writeHead(200, { 'x-two': ['a', 'b'] }).end('answer')
  })
  let held = 0
  const reply = await sender(t, pool)(upload(origin, 2_500_001), {
    ...ask,
    onHeld: (bytes) => (held += bytes),
  })
  t.same(seen, [{ length: '2500009', coding: undefined, bytes: 2_500_009 }])
  t.equal(Buffer.concat(reply.body).toString(), 'answer')
  t.equal(reply.headers['x-two'], 'a, b')
  t.equal(held, 6)
})

// Were the audio handed over as one pooled buffer, it could wait in the queue of a socket that is used again.
t.test(
  'a provider that answers early never gets bytes of another request',
  { timeout: 120_000 },
  async (t) => {
    const pool = new Uint8Array(12_000_000)
    const watched: Watched = { requests: 0, foreign: [] }
    const tenantOf = (head: string) => /x-tenant: (\w)/i.exec(head)?.[1]?.charCodeAt(0) ?? 0
    const server = createServer((socket) => watchTenants(socket, watched, tenantOf, [...Buffer.from('AB!')]))
    const send = sender(t, pool)
    const origin = await listen(t, server)

    for (let index = 0; index < 45; index += 1) {
      const bytes = 1_000 + Math.round(11_900_000 * (index / 44) ** 2)
      for (const tenant of ['A', 'B']) {
        pool.fill(tenant.charCodeAt(0))
        const request = upload(origin, bytes)
        const reply = await send({ ...request, headers: { 'x-tenant': tenant } }, ask).catch(
          (error: unknown) => error,
        )
        t.ok(reply instanceof UpstreamFailure || (reply as { status: number }).status === 200)
        // The memory is another's from here on, as when the block pool gives it to the next request.
        pool.fill('!'.charCodeAt(0))
      }
    }
    await sleep(200)
    t.same(watched.foreign, [])
    t.ok(watched.requests >= 90, `${watched.requests} requests were seen`)
  },
)

t.test(
  'a small body of audio that is held is copied before anything else happens to its memory',
  async (t) => {
    const bodies: string[] = []
    const origin = await serveHttp(t, async (req, res) => {
      bodies.push(Buffer.concat(await req.toArray()).toString())
      res.end()
    })
    const send = sender(t, new Uint8Array(100_000).fill('r'.charCodeAt(0)))
    const block = new Uint8Array(new SharedArrayBuffer(100_000))
    const blocks = [block, block]
    const post = async (offset: number, length: number, encoding: 'identity' | 'base64' = 'identity') => {
      const ref = audio({
        source: { kind: 'memory', blocks },
        offset,
        length,
        decodedBytes: length,
        encoding,
      })
      block.fill('h'.charCodeAt(0))
      const sent = send(
        { ...upload(origin, 0), body: [Buffer.from('<'), { audio: ref, as: 'bytes' }, Buffer.from('>')] },
        ask,
      )
      block.fill('!'.charCodeAt(0))
      await sent
      return bodies.pop()
    }
    for (const [offset, length] of [
      [0, 1],
      [7, 8_192],
      [99_000, 1_000],
      [0, 32_766],
    ] as const)
      t.equal(await post(offset, length), `<${'h'.repeat(length)}>`)
    for (const [offset, length] of [
      [0, 32_767],
      [99_001, 1_000],
    ] as const)
      t.equal(
        await post(offset, length),
        `<${'r'.repeat(length)}>`,
        'too large, or not in one block: it is read',
      )
    t.equal(await post(0, 100, 'base64'), `<${'r'.repeat(100)}>`, 'and so is what has to be decoded')
  },
)

t.test('what kind of failure it was', async (t) => {
  const pool = new Uint8Array(2_000_000)
  const send = sender(t, pool)
  const failure = async (request: UpstreamRequest, deadlineMs = 5_000) => {
    const error = await send(request, { ...ask, deadlineMs }).then(
      () => null,
      (thrown: unknown) => thrown,
    )
    return error instanceof UpstreamFailure ? error.failure.kind : error
  }

  const closed = createServer()
  const unheard = await listen(t, closed)
  closed.close()
  t.equal(await failure(upload(unheard, 1000)), 'connect', 'no one listens')
  t.equal(await failure(upload('http://does-not-exist.invalid', 1000)), 'connect', 'no such host')
  // Both ends are in this process: the reset is here before anyone is told that the connection has come about.
  const resetting = await listen(
    t,
    createServer((socket) => socket.resetAndDestroy()),
  )
  t.equal(await failure(upload(resetting, 1000)), 'connect', 'a connection that is reset as it comes about')
  const plain = await serveHttp(t, (_, res) => res.end())
  t.equal(await failure(upload(plain.replace('http:', 'https:'), 1000)), 'connect', 'no TLS over there')
  const split = { ...upload(plain, 1000), headers: { 'x-key': 'a\r\nb' } }
  t.equal(await failure(split), 'connect', 'what cannot be sent was not sent')

  const cutting = await serveHttp(t, (req) => req.once('data', () => req.socket.destroy()))
  t.equal(await failure(upload(cutting, 1_500_000)), 'ambiguous', 'cut while the body was on its way')

  const half = await serveHttp(t, (req, res) => {
    req.resume().on('end', () => {
      res.writeHead(200, { 'content-length': '100' }).write('half')
      setTimeout(() => res.destroy(), 20)
    })
  })
  t.equal(await failure(upload(half, 1000)), 'ambiguous', 'cut in its answer')

  const silent = await serveHttp(t, () => {})
  t.equal(await failure(upload(silent, 1_500_000), 300), 'ambiguous', 'silent until the deadline')
})

t.test('a caller that leaves ends the attempt with its own reason', async (t) => {
  const silent = await serveHttp(t, () => {})
  const leaving = new AbortController()
  const sent = sender(t, new Uint8Array(2_000_000))(upload(silent, 1_500_000), {
    ...ask,
    signal: leaving.signal,
  })
  setTimeout(() => leaving.abort(new Error('left')), 100)
  await t.rejects(sent, { message: 'left' })
})

t.test('a store that fails is not taken for the provider', async (t) => {
  const origin = await serveHttp(t, (req, res) => req.resume().on('end', () => res.end()))
  const reader = pooledReader(new Uint8Array(10))
  async function* broken() {
    yield new Uint8Array(100_000)
    throw new Error('the store broke')
  }
  const { send, close } = createSender({ reader: { ...reader, bytes: broken } })
  t.teardown(close)
  await t.rejects(send(upload(origin, 200_000), ask), { message: 'the store broke' })
})

t.test('an answer that comes before the audio is read does not wait for a store that hangs', async (t) => {
  const origin = await listen(
    t,
    createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.end('HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno'))
    }),
  )
  let left = false
  async function* hanging(_: unknown, signal: AbortSignal) {
    yield new Uint8Array(1000)
    await once(signal, 'abort')
    left = true
    throw signal.reason
  }
  const reader = { ...pooledReader(new Uint8Array(10)), bytes: hanging }
  const made = createSender({ reader })
  t.teardown(() => made.close())
  const reply = await made.send(upload(origin, 200_000), ask)
  t.equal(reply.status, 401)
  t.equal(Buffer.concat(reply.body).toString(), 'no')
  t.ok(left)
  const stream = await made.open(upload(origin, 200_000), ask)
  const chunks: Uint8Array[] = []
  for await (const chunk of stream.chunks) chunks.push(chunk)
  t.equal(Buffer.concat(chunks).toString(), 'no')
})

t.test('a compressed answer is a failure of its provider, and no audio', async (t) => {
  const body = gzipSync('audio')
  const origin = await serveHttp(t, (req, res) => {
    req.resume()
    const [, status = '', encoding = ''] = req.url?.split('/') ?? []
    res.writeHead(Number(status), { 'content-encoding': encoding }).end(encoding === 'gzip' ? body : 'audio')
  })
  const { send, open, close } = createSender({ reader: pooledReader(new Uint8Array(10)) })
  t.teardown(close)
  const get = (path: string): UpstreamRequest => ({
    method: 'GET',
    url: `${origin}${path}`,
    headers: {},
    body: [],
  })
  for (const sent of [send, open]) {
    const error = await sent(get('/200/gzip'), ask).catch((thrown: unknown) => thrown)
    t.match(error, { failure: { kind: 'server', reason: 'its answer is compressed' } })
  }
  t.equal(Buffer.concat((await send(get('/200/identity'), ask)).body).toString(), 'audio')
  t.equal((await send(get('/503/gzip'), ask)).status, 503, 'the status of a refusal says enough')
})

t.test('what is asked to look elsewhere does not', async (t) => {
  const asked: string[] = []
  const origin = await serveHttp(t, (req, res) => {
    asked.push(req.url ?? '')
    req.resume()
    res.writeHead(307, { location: '/elsewhere' }).end()
  })
  const reply = await sender(t, new Uint8Array(1000))(upload(origin, 100), ask)
  t.equal(reply.status, 307)
  t.same(asked, ['/v1'])
})

t.test('an answer over its bound is refused', { timeout: 60_000 }, async (t) => {
  const origin = await serveHttp(t, (req, res) => {
    req.resume().on('end', async () => {
      res.setMaxListeners(0).on('error', () => {})
      const block = Buffer.alloc(1024 * 1024)
      for (let sent = 0; sent < 80 && !res.destroyed; sent += 1) {
        if (!res.write(block)) await Promise.race([once(res, 'drain'), once(res, 'close')])
      }
      res.end()
    })
  })
  const error = await sender(t, new Uint8Array(10))(upload(origin, 10), ask).catch(
    (thrown: unknown) => thrown,
  )
  t.ok(error instanceof UpstreamFailure)
  t.equal((error as UpstreamFailure).failure.kind, 'server')
})

t.test('a connection whose answer came before the request was out carries no other', async (t) => {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.on('error', () => {})
    socket.once('data', () => {
      const isFirst = connections === 1
      if (isFirst) socket.pause()
      const head = isFirst ? 'HTTP/1.1 401 Unauthorized' : 'HTTP/1.1 200 OK'
      socket.write(`${head}\r\nContent-Length: 2\r\n\r\nno`)
    })
  })
  const origin = await listen(t, server)
  const { send, close } = createSender({ reader: pooledReader(new Uint8Array(0)) })
  t.teardown(() => close())
  const post = (bytes: number) =>
    send({ method: 'POST', url: `${origin}/`, headers: {}, body: [Buffer.alloc(bytes, 'a')] }, ask)
  t.equal((await post(30_000_000)).status, 401)
  t.equal((await post(2)).status, 200)
  t.equal(connections, 2)
})
