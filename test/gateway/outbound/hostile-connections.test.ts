import { createServer as createHttpsServer } from 'node:https'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import t, { type Test } from 'tap'
import type { AudioReader, AudioRef } from '../../../src/contracts/audio.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { UpstreamFailure, type UpstreamRequest } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { audio } from '../../support/call.ts'
import { createAuthority, selfSigned } from '../../support/certificates.ts'
import { listen } from '../../support/http-server.ts'
import { serveTls } from '../../support/tls-host.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

const NO_AUDIO: AudioReader = {
  bytes: () => assert('audio'),
  base64: () => assert('audio'),
  range: () => assert('audio'),
}
function assert(what: string): never {
  throw new Error(`there is no ${what}`)
}

const ask = { deadlineMs: 20_000, signal: new AbortController().signal, onHeld: () => {} }

interface Provider {
  readonly origin: string
  /** Paths in the order in which they were asked for. */
  readonly asked: string[]
  /** Every connection so far. */
  readonly sockets: Socket[]
}

/** A provider that answers with these very bytes. @param answer given the path */
async function serveBytes(t: Test, answer: (socket: Socket, path: string) => void): Promise<Provider> {
  const asked: string[] = []
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.setNoDelay().on('error', () => {})
    socket.on('data', (chunk) => {
      const path = /^[A-Z]+ (\S+) /.exec(chunk.toString('latin1'))?.[1]
      if (path === undefined) return
      asked.push(path)
      answer(socket, path)
    })
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  return { origin: await listen(t, server), asked, sockets }
}

function sender(t: Test, clock: Clock = systemClock) {
  const made = createSender({ reader: NO_AUDIO, clock })
  t.teardown(() => made.close())
  return made
}

const post = (origin: string, path = '/v1'): UpstreamRequest => ({
  method: 'POST',
  url: `${origin}${path}`,
  headers: { 'content-type': 'application/json' },
  body: [Buffer.from('{}')],
})

/** How a request ended: status and body, or the failure. */
async function ending(t: Pick<ReturnType<typeof sender>, 'send'>, request: UpstreamRequest): Promise<string> {
  try {
    const { status, body } = await t.send(request, ask)
    return `${status} ${Buffer.concat(body)}`
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error
    const { kind, reason } = error.failure
    return `${kind}: ${reason}`
  }
}

const answered = (text: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`
const BROKE = 'ambiguous: the connection broke'

t.test('answers that break off', async (t) => {
  const made = sender(t)
  const cases: Record<string, [(socket: Socket) => void, string]> = {
    'ended before the first byte': [(socket) => socket.end(), BROKE],
    'reset before the first byte': [(socket) => socket.resetAndDestroy(), BROKE],
    'ended in the head': [(socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le'), BROKE],
    'ended in the body': [(socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'), BROKE],
    'ended in a chunk': [
      (socket) => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf'),
      BROKE,
    ],
    'ended before the last chunk': [
      (socket) => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'),
      BROKE,
    ],
    'ended behind an informational answer': [(socket) => socket.end('HTTP/1.1 103 Hm\r\n\r\n'), BROKE],
    'ended where the end says it is whole': [
      (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nwhole'),
      '200 whole',
    ],
    'malformed, and kept open': [
      (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'),
      BROKE,
    ],
    'without an end, a head': [
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nA: ${'b'.repeat(40_000)}`),
      BROKE,
    ],
  }
  for (const [name, [answer, expected]] of Object.entries(cases)) {
    const { origin, asked } = await serveBytes(t, answer)
    t.equal(await ending(made, post(origin)), expected, name)
    t.same(asked, ['/v1'], `${name}: asked once`)
  }
})

t.test('an answer that is reset where only the end tells that it is whole', async (t) => {
  const made = sender(t)
  for (const [status, expected] of [
    [200, BROKE],
    [401, '401 half'],
  ] as const) {
    const { origin } = await serveBytes(t, (socket) => {
      socket.write(`HTTP/1.1 ${status} X\r\n\r\nhalf`)
      setTimeout(() => socket.resetAndDestroy(), 50)
    })
    t.equal(await ending(made, post(origin)), expected, `${status}`)
  }
})

t.test('what lies behind an answer is never taken for the next one', async (t) => {
  const made = sender(t)
  const poison = answered('poison')
  const together = await serveBytes(t, (socket, path) => void socket.write(answered(path) + poison))
  for (const path of ['/a', '/b', '/c'])
    t.equal(await ending(made, post(together.origin, path)), `200 ${path}`)
  t.equal(together.sockets.length, 3, 'each on a connection of its own')

  const later = await serveBytes(t, (socket, path) => void socket.write(answered(path)))
  t.equal(await ending(made, post(later.origin, '/a')), '200 /a')
  later.sockets[0]?.write(poison)
  // The stray answer is in the kernel when the next request is made.
  t.equal(await ending(made, post(later.origin, '/b')), '200 /b')
  t.equal(later.sockets.length, 2)

  const bodiless = await serveBytes(t, (socket) => {
    socket.write('HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n')
    setTimeout(() => socket.write('poison'), 5)
  })
  t.equal(await ending(made, post(bodiless.origin)), '204 ')
  t.equal(await ending(made, post(bodiless.origin)), '204 ')
  t.equal(bodiless.sockets.length, 2)
})

t.test('a connection that was closed while it was idle takes no request along', async (t) => {
  const made = sender(t)
  const { origin, sockets, asked } = await serveBytes(t, (socket, path) => void socket.write(answered(path)))
  for (let round = 0; round < 20; round += 1) {
    t.equal(await ending(made, post(origin, `/${round}`)), `200 /${round}`)
    // Its end is in the kernel when the next request is made.
    sockets.at(-1)?.destroy()
  }
  t.equal(asked.length, 20)
  t.equal(sockets.length, 20)
})

t.test('requests that race with the end of their connections are sent once', async (t) => {
  const made = sender(t)
  let closings = 0
  const { origin, asked } = await serveBytes(t, (socket, path) => {
    socket.write(answered(path))
    // Around the moment at which the next request comes.
    if (asked.length % 2 !== 0) return
    closings += 1
    setTimeout(() => socket.destroy(), closings % 3)
  })
  const ends: string[] = []
  for (let index = 0; index < 200; index += 1) {
    ends.push(await ending(made, post(origin, `/${index}`)))
    if (index % 2 === 1) await sleep(index % 3)
  }
  t.equal(new Set(asked).size, asked.length, 'none was seen twice')
  for (const [index, end] of ends.entries()) if (end !== BROKE) t.equal(end, `200 /${index}`)
})

t.test('connections are used again as long as the provider keeps them', async (t) => {
  const made = sender(t)
  const cases: Record<string, [string, number]> = {
    'no word of it': ['', 1],
    'a while': ['Keep-Alive: timeout=5\r\n', 1],
    'no time': ['Keep-Alive: timeout=1\r\n', 3],
    'the end at once': ['Connection: close\r\n', 3],
  }
  for (const [name, [header, expected]] of Object.entries(cases)) {
    const { origin, sockets } = await serveBytes(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${header}Content-Length: 2\r\n\r\nok`)
    })
    for (let request = 0; request < 3; request += 1) t.equal(await ending(made, post(origin)), '200 ok')
    t.equal(sockets.length, expected, name)
  }
})

t.test('requests at the same time have connections of their own, which are given up when idle', async (t) => {
  const clock = new VirtualClock()
  const made = sender(t, clock)
  const waiting: (() => void)[] = []
  let closed = 0
  const { origin, sockets } = await serveBytes(t, (socket, path) => {
    waiting.push(() => socket.write(answered(path)))
    if (waiting.length === 30) for (const act of waiting.splice(0)) act()
  })
  const all = async () => {
    const ends = Array.from({ length: 30 }, (_, index) => ending(made, post(origin, `/${index}`)))
    t.same(
      await Promise.all(ends),
      Array.from({ length: 30 }, (_, index) => `200 /${index}`),
    )
  }
  await all()
  await all()
  t.equal(sockets.length, 30)
  for (const socket of sockets) socket.once('close', () => (closed += 1))
  await clock.advance(3_500)
  t.equal(closed, 0)
  await clock.advance(1_000)
  t.ok(await waitUntil(() => closed === 30), 'after 4 s')
})

t.test('a caller that leaves while the connection comes about', async (t) => {
  const made = sender(t)
  const { origin, asked } = await serveBytes(t, (socket, path) => void socket.write(answered(path)))
  const leaving = new AbortController()
  const sent = made.send(post(origin), { ...ask, signal: leaving.signal })
  leaving.abort(new Error('left'))
  await t.rejects(sent, { message: 'left' })
  await sleep(50)
  t.same(asked, [], 'nothing was sent')
})

t.test('a sender that is closed', async (t) => {
  const made = createSender({ reader: NO_AUDIO })
  const { origin, asked } = await serveBytes(t, () => {})
  const begun = ending(made, post(origin))
  t.ok(await waitUntil(() => asked.length === 1))
  const waits = ending(made, post(origin))
  await made.close()
  t.equal(await begun, BROKE)
  t.equal(await waits, 'connect: no connection')
  t.equal(await ending(made, post(origin)), 'connect: no connection')
})

t.test('requests that would be read as another are not sent', async (t) => {
  const made = sender(t)
  const { origin, asked } = await serveBytes(t, (socket, path) => void socket.write(answered(path)))
  const bad: Record<string, Partial<UpstreamRequest>> = {
    'a line break in a header': { headers: { a: 'b\r\nc: d' } },
    'a name that is none': { headers: { 'a b': 'c' } },
    'a length of its own': { headers: { 'content-length': '1' } },
    'a coding of its own': { headers: { 'Transfer-Encoding': 'chunked' } },
    'a letter beyond Latin': { headers: { a: 'ł' } },
    'a space in the path': { url: `${origin}/a b` },
    'a line break in the path': { url: `${origin}/a\r\nb` },
  }
  for (const [name, changed] of Object.entries(bad)) {
    t.equal(await ending(made, { ...post(origin), ...changed }), 'connect: no connection', name)
  }
  t.same(asked, [])
})

/** Trusted by the process until the file ends. */
const authority = createAuthority()
const trustedBefore = getCACertificates()
setDefaultCACertificates([...trustedBefore, authority.cert])
t.teardown(() => setDefaultCACertificates(trustedBefore))

t.test('a connection over TLS serves on, with bodies of any size in both directions', async (t) => {
  const sockets = new Set<unknown>()
  const sizes = [0, 10, 40_000, 3_000_000]
  const server = createHttpsServer(authority.issue(['localhost']), async (req, res) => {
    sockets.add(req.socket)
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part as Buffer)
    res.end(Buffer.concat(parts))
  })
  t.teardown(() => server.closeAllConnections())
  const origin = (await listen(t, server)).replace('http://127.0.0.1', 'https://localhost')
  const pool = Buffer.from(Array.from({ length: 3_000_000 }, (_, at) => at % 251))
  async function* bytes({ decodedBytes }: AudioRef) {
    for (let at = 0; at < decodedBytes; at += 70_000)
      yield pool.subarray(at, Math.min(at + 70_000, decodedBytes))
  }
  const made = createSender({ reader: { ...NO_AUDIO, bytes } })
  t.teardown(() => made.close())
  for (const size of sizes) {
    const plain = await made.send({ ...post(origin), body: [pool.subarray(0, size)] }, ask)
    t.ok(Buffer.concat(plain.body).equals(pool.subarray(0, size)), `${size} bytes`)
    const ref = audio({ decodedBytes: size, length: size })
    const { chunks } = await made.open({ ...post(origin), body: [pool, { audio: ref, as: 'bytes' }] }, ask)
    const parts: Uint8Array[] = []
    for await (const chunk of chunks) parts.push(chunk)
    t.ok(Buffer.concat(parts).equals(Buffer.concat([pool, pool.subarray(0, size)])), `${size} bytes of audio`)
  }
  t.equal(sockets.size, 1)
})

t.test('over TLS', async (t) => {
  const long = 'x'.repeat(200_000)
  const names: unknown[] = []
  const serve = (certificate: { cert: string; key: string }) =>
    serveTls(t, certificate, (socket) => {
      names.push(socket.servername)
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${long.length}\r\nConnection: close\r\n\r\n${long}`)
    })
  const made = sender(t)

  const good = await serve(authority.issue(['localhost']))
  for (let round = 0; round < 2; round += 1)
    t.equal(await ending(made, post(`https://localhost:${good.port}`)), `200 ${long}`)
  t.same(names, ['localhost', 'localhost'])
  t.match(good.requests[0], /^POST \/v1 HTTP\/1\.1\r\nhost: localhost:\d+\r\nconnection: keep-alive\r\n/)

  const past = { from: new Date(0), to: new Date(Date.now() - 1_000) }
  for (const [name, certificate, code] of [
    ['of another name', authority.issue(['other.example']), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['without an authority', selfSigned(['localhost']), 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    ['of last week', authority.issue(['localhost'], past), 'CERT_HAS_EXPIRED'],
  ] as const) {
    const host = await serve(certificate)
    const refused = `connect: no connection (${code})`
    t.equal(await ending(made, post(`https://localhost:${host.port}`)), refused, name)
    t.same(host.requests, [], name)
  }
})
