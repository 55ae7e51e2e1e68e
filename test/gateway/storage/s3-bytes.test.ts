import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { createBlocks } from '../../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import type { StoreMemory } from '../../../src/gateway/storage/read-buffers.ts'
import { createS3Links, createS3Objects } from '../../../src/gateway/storage/s3.ts'
import { createAuthority } from '../../support/certificates.ts'
import { chunksOf } from './objects.contract.ts'
import { MIB, noise, openS3 } from './rig.ts'

const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }
const KEY = 'spool/acme/req_1/1'
const fresh = () => AbortSignal.timeout(10_000)

function connect(t: Test, endpoint: string, timing = {}, memory?: StoreMemory) {
  const keys = { region: 'us-east-1', bucket: 'b', accessKeyId: 'a', secretAccessKey: 's' }
  const objects = createS3Objects({ endpoint, ...keys, timing, ...(memory === undefined ? {} : { memory }) })
  t.teardown(() => objects.close())
  return objects
}

async function listen(t: Test, server: Server | ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    if ('closeAllConnections' in server) server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

/** A store that keeps what it is given, over `node:http`, with the connections that were opened to it. */
function keeper(): { handle: RequestListener; kept: Map<string, Buffer> } {
  const kept = new Map<string, Buffer>()
  const handle: RequestListener = async (request, response) => {
    if (request.method === 'PUT') {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      kept.set(request.url!, Buffer.concat(chunks))
      response.setHeader('content-length', 0).setHeader('etag', '"1"').end()
      return
    }
    const [, from = '0', to = '0'] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? []
    const bytes = kept.get(request.url!)?.subarray(Number(from), Number(to) + 1)
    if (bytes === undefined) {
      response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
      return
    }
    response.writeHead(206, { 'content-length': bytes.length }).end(bytes)
  }
  return { handle, kept }
}

/** A server that says what it likes: `answer` is called with each head that arrives. */
async function sayer(t: Test, answer: (socket: Socket, head: string, connection: number) => void) {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    const connection = connections
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const head = text.slice(0, end)
        text = text.slice(end + 4)
        answer(socket, head, connection)
      }
    })
  })
  const port = await listen(t, server)
  return { endpoint: `http://127.0.0.1:${port}`, connections: () => connections }
}

async function read(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const read: Buffer[] = []
  let last: Uint8Array = new Uint8Array(0)
  let copy = Buffer.alloc(0)
  for await (const chunk of chunks) {
    // A chunk keeps its bytes until the one after the next is asked for.
    if (!copy.equals(last)) throw new Error('a chunk changed too early')
    last = chunk
    copy = Buffer.from(chunk)
    read.push(copy)
  }
  if (!copy.equals(last)) throw new Error('the last chunk changed')
  return Buffer.concat(read)
}

t.test('objects come back whole, encrypted or not, over connections that are used again', async (t) => {
  const authority = createAuthority()
  const certificate = authority.issue(['localhost'])
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), authority.cert])
  for (const scheme of ['http', 'https']) {
    const { handle } = keeper()
    const server = scheme === 'http' ? createHttpServer(handle) : createHttpsServer(certificate, handle)
    let connections = 0
    server.on(scheme === 'http' ? 'connection' : 'secureConnection', () => {
      connections += 1
    })
    const port = await listen(t, server)
    const budget = createBudget(64 * MIB)
    const blocks = createBlocks(budget, { restMs: 50 })
    t.teardown(() => blocks.close())
    // A name with two addresses may be dialled twice where the machine is busy.
    const host = scheme === 'http' ? '127.0.0.1' : 'localhost'
    const objects = connect(t, `${scheme}://${host}:${port}/base`, {}, { blocks, budget })
    const body = noise(9 * MIB + 17)
    await objects.put(KEY, chunksOf(body), body.length, { signal: fresh() })
    t.ok((await read(await objects.get(KEY, 0, body.length, fresh()))).equals(body), `${scheme}: whole`)
    for (const [start, end] of [
      [0, 1],
      [70_000, 3 * MIB],
      [body.length - 65_537, body.length],
    ] as const) {
      const range = await read(await objects.get(KEY, start, end, fresh()))
      t.ok(range.equals(body.subarray(start, end)), `${scheme}: ${start} to ${end}`)
    }
    t.equal(connections, 1, `${scheme}: one connection for all`)
    const [one, other] = [0, 1].map(async () => read(await objects.get(KEY, 0, body.length, fresh())))
    t.ok((await one!).equals(body) && (await other!).equals(body), `${scheme}: two readers at once`)
    t.equal(connections, 2)
    t.equal(budget.used, 0, `${scheme}: memory is given back`)
    for await (const _ of await objects.get(KEY, 0, body.length, fresh())) break
    t.ok(budget.used > 0, `${scheme}: a reader that left may have its last chunk on a socket`)
    await new Promise((resolve) => setTimeout(resolve, 200))
    t.equal(budget.used, 0, `${scheme}: not for long`)
    budget.charge(64 * MIB)
    let largest = 0
    for await (const { length } of await objects.get(KEY, 0, body.length, fresh()))
      largest = Math.max(largest, length)
    t.ok(largest <= 64 * 1024, `${scheme}: while memory is scarce less is read at a time`)
    budget.refund(64 * MIB)
    await t.rejects(objects.get('spool/acme/none/1', 0, 1, fresh()), {
      ...unavailable,
      cause: { name: 'NoSuchKey' },
    })
  }
})

t.test('answers however they are framed', async (t) => {
  const body = noise(2_000_000)
  const chunked = (bytes: number) => {
    const parts: Buffer[] = []
    for (let at = 0; at < body.length; at += bytes) {
      const part = body.subarray(at, at + bytes)
      parts.push(Buffer.from(`${part.length.toString(16)};x=y\r\n`), part, Buffer.from('\r\n'))
    }
    return Buffer.concat([...parts, Buffer.from('0\r\nx-trailer: 1\r\n\r\n')])
  }
  const inChunks = 'HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n'
  const framings: Record<string, [head: string, body: Buffer, end: boolean]> = {
    'in chunks': [inChunks, chunked(100_001), false],
    'in small chunks': [inChunks, chunked(1000), false],
    'until the end': ['HTTP/1.0 206 Partial Content\r\n\r\n', body, true],
    'behind an interim answer': [
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 \r\nContent-Length: ${body.length}\r\n\r\n`,
      body,
      false,
    ],
  }
  for (const [name, [head, bytes, isEnd]] of Object.entries(framings)) {
    for (const size of [1_000_000, 7_001]) {
      const { endpoint } = await sayer(t, async (socket) => {
        for (const part of [head.slice(0, 12), head.slice(12)]) {
          socket.write(part)
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
        for (let at = 0; at < bytes.length; at += size) {
          socket.write(bytes.subarray(at, at + size))
          if (size < 10_000) await new Promise((resolve) => setImmediate(resolve))
        }
        if (isEnd) socket.end()
      })
      const objects = connect(t, endpoint)
      t.ok((await read(await objects.get(KEY, 0, body.length, fresh()))).equals(body), `${name}, by ${size}`)
    }
  }
})

t.test('answers that are no use', async (t) => {
  const bad: Record<string, string> = {
    'no HTTP': 'SSH-2.0-OpenSSH\r\n\r\n',
    'too long a head': `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`,
    'another length': 'HTTP/1.1 206 \r\nContent-Length: 4\r\n\r\nabcd',
    'cut short': 'HTTP/1.1 206 \r\nContent-Length: 3\r\n\r\nab',
    'chunks without a size': 'HTTP/1.1 206 \r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
    'too little in chunks': 'HTTP/1.1 206 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n',
    'too much until the end': 'HTTP/1.1 206 \r\n\r\nabcdef',
  }
  for (const [name, text] of Object.entries(bad)) {
    const { endpoint } = await sayer(t, (socket) => socket.end(text, 'latin1'))
    const objects = connect(t, endpoint)
    await t.rejects(async () => read(await objects.get(KEY, 0, 3, fresh())), unavailable, name)
  }
})

t.test('bytes after the announced ones reach no one', async (t) => {
  for (const length of [3, 100_000, 300_000, 700_000]) {
    const body = noise(length)
    const { endpoint, connections } = await sayer(t, (socket) => {
      socket.write(`HTTP/1.1 206 \r\nContent-Length: ${length}\r\n\r\n`)
      socket.write(Buffer.concat([body, noise(100_000)]))
    })
    const objects = connect(t, endpoint)
    for (let i = 1; i <= 2; i += 1) {
      const got = await objects
        .get(KEY, 0, length, fresh())
        .then(read)
        .catch(() => null)
      t.ok(got === null || got.equals(body), `${length} bytes`)
      t.equal(connections(), i, 'that connection is not used again')
    }
  }
})

t.test('a read is tried again while the store is busy, a refusal is not', async (t) => {
  const say = (status: string, code: string) => {
    const text = `<Error><Code>${code}</Code></Error>`
    return `HTTP/1.1 ${status}\r\nContent-Length: ${text.length}\r\n\r\n${text}`
  }
  const heads: string[] = []
  const { endpoint } = await sayer(t, (socket, head) => {
    heads.push(head)
    if (heads.length === 1) socket.write(say('503 Slow Down', 'SlowDown'))
    else if (heads.length === 2) socket.destroy()
    else if (heads.length === 3) socket.write('HTTP/1.1 206 \r\nContent-Length: 3\r\n\r\nabc')
    else socket.write(say('403 Forbidden', 'AccessDenied'))
  })
  const objects = connect(t, endpoint)
  t.equal((await read(await objects.get(KEY, 0, 3, fresh()))).toString(), 'abc')
  t.equal(heads.length, 3)
  await t.rejects(objects.get(KEY, 0, 3, fresh()), { ...unavailable, cause: { name: 'AccessDenied' } })
  t.equal(heads.length, 4)
})

t.test('a clock that is wrong is corrected by the store’s', async (t) => {
  const storeMs = Date.now() + 3_600_000
  const dates: string[] = []
  const { endpoint } = await sayer(t, (socket, head) => {
    dates.push(/x-amz-date: (\S+)/i.exec(head)?.[1] ?? '')
    const text = '<Error><Code>RequestTimeTooSkewed</Code></Error>'
    const date = new Date(storeMs).toUTCString()
    const refusal = `HTTP/1.1 403 Forbidden\r\nDate: ${date}\r\nContent-Length: ${text.length}\r\n\r\n${text}`
    socket.write(dates.length === 1 ? refusal : 'HTTP/1.1 206 \r\nContent-Length: 3\r\n\r\nabc')
  })
  await read(await connect(t, endpoint).get(KEY, 0, 3, fresh()))
  const hourOf = (date: string) => Number(date.slice(9, 11))
  t.equal((hourOf(dates[1]!) - hourOf(dates[0]!) + 24) % 24, 1, dates.join(', '))
})

t.test('a reader that leaves, or is told to, closes its connection', async (t) => {
  const { handle, kept } = keeper()
  kept.set(`/b/${KEY}`, noise(40 * MIB))
  const server = createHttpServer(handle)
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  const objects = connect(t, `http://127.0.0.1:${await listen(t, server)}`)
  for await (const _ of await objects.get(KEY, 0, 40 * MIB, fresh())) break
  const controller = new AbortController()
  const reason = new Error('the client left')
  const reading = async () => {
    for await (const _ of await objects.get(KEY, 0, 40 * MIB, controller.signal)) controller.abort(reason)
  }
  await t.rejects(reading(), reason)
  for (let left = 100; left > 0 && sockets.size > 0; left -= 1)
    await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(sockets.size, 0)
})

t.test('a store that answers and then stands still is given up, a slow reader is not', async (t) => {
  const { endpoint } = await sayer(t, (socket) => {
    socket.write(`HTTP/1.1 206 \r\nContent-Length: 200000\r\n\r\n`)
    socket.write(noise(100_000))
  })
  const objects = connect(t, endpoint, { stallMs: 150 })
  const chunks = (await objects.get(KEY, 0, 200_000, fresh()))[Symbol.asyncIterator]()
  let read = (await chunks.next()).value!.length
  await new Promise((resolve) => setTimeout(resolve, 400))
  const readOn = async () => {
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next())
      read += next.value.length
  }
  await t.rejects(readOn(), { ...unavailable, cause: /did nothing for 150 ms/ })
  t.ok(read <= 100_000)
})

t.test('a refusal before the end of an upload is read, and ends it', async (t) => {
  const { endpoint } = await sayer(t, (socket) => {
    socket.write(
      'HTTP/1.1 403 Forbidden\r\nContent-Length: 42\r\n\r\n<Error><Code>AccessDenied</Code></Error>  ',
    )
  })
  let asked = 0
  const endless = async function* () {
    for (;;) {
      asked += 1
      yield noise(65_536)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  const put = connect(t, endpoint).put(KEY, endless(), 100 * MIB, { signal: fresh() })
  await t.rejects(put, { ...unavailable, cause: { name: 'AccessDenied' } })
  t.ok(asked < 500)
})

const md5 = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')
const SLOW_DOWN =
  '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>'

t.test('an object is there once the store names its tag, whatever the status says', async (t) => {
  const answer = { headers: {} as Record<string, string>, text: '' }
  const server = createHttpServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200, answer.headers).end(answer.text))
  })
  const objects = connect(t, `http://127.0.0.1:${await listen(t, server)}`)
  const put = (bytes: Uint8Array, headers: Record<string, string>, text = '') => {
    Object.assign(answer, { headers, text })
    return objects.put(KEY, chunksOf(bytes), bytes.length, { signal: fresh() })
  }
  const small = noise(1_000)
  const large = noise(MIB)
  const tag = { etag: `"${md5(small)}"` }
  const slow = { ...unavailable, cause: { name: 'SlowDown', status: 200 } }
  await t.rejects(put(small, {}, SLOW_DOWN), slow)
  await t.rejects(put(small, tag, SLOW_DOWN), slow, 'with a tag, too')
  for (const bytes of [small, large])
    await t.rejects(put(bytes, {}), { ...unavailable, cause: { message: /named no tag/ } })

  const other = { etag: `"${md5(noise(10))}"` }
  await t.rejects(put(small, other), { ...unavailable, cause: { message: /tag of other bytes/ } })
  await put(large, other)
  await put(small, tag)
  await put(small, { ...tag, 'x-amz-server-side-encryption': 'AES256' })
  await put(small, { ...other, 'x-amz-server-side-encryption': 'aws:kms' }, '')
  await put(small, { ...other, 'x-amz-server-side-encryption-customer-algorithm': 'AES256' })
  await put(small, { etag: `"${md5(large)}-2"` })
})

t.test('parts and what they make are there once the store names their tags', async (t) => {
  const say = { part: '', partTag: '"1"', completed: '' }
  const server = createHttpServer((request, response) => {
    request.resume().on('end', () => {
      const { searchParams } = new URL(request.url!, 'http://store')
      if (request.method === 'PUT') {
        if (say.partTag !== '') response.setHeader('etag', say.partTag)
        response.end(say.part)
      } else if (searchParams.has('uploads'))
        response.end('<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>')
      else response.end(say.completed)
    })
  })
  const objects = connect(t, `http://127.0.0.1:${await listen(t, server)}`)
  const upload = async (answers: Partial<typeof say>) => {
    Object.assign(say, answers)
    const parts = await objects.upload(KEY, { signal: fresh() })
    await parts.part([noise(1_000)], fresh())
    await parts.complete(fresh())
  }
  const completed = (tag: string) =>
    `<CompleteMultipartUploadResult><Key>${KEY}</Key>${tag}</CompleteMultipartUploadResult>`
  const slow = { ...unavailable, cause: { name: 'SlowDown' } }
  await t.rejects(upload({ part: SLOW_DOWN }), slow)
  await t.rejects(upload({ part: '', partTag: '' }), { ...unavailable, cause: { message: /named no tag/ } })
  await t.rejects(upload({ partTag: '"1"', completed: SLOW_DOWN }), slow)
  const noTag = { ...unavailable, cause: { message: /named no tag/ } }
  await t.rejects(upload({ completed: completed('') }), noTag)
  await upload({ completed: completed('<ETag>"1-1"</ETag>') })
})

t.test(
  'an object that is known to be there is asked for again where the store does not find it',
  async (t) => {
    const asked: string[] = []
    const server = createHttpServer((request, response) => {
      asked.push(request.url!)
      if (asked.length % 3 === 0) response.writeHead(206, { 'content-length': 3 }).end('abc')
      else response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
    })
    const objects = connect(t, `http://127.0.0.1:${await listen(t, server)}`)
    for (const kind of ['spool', 'upload', 'job', 'result']) {
      asked.length = 0
      const bytes = await read(await objects.get(`${kind}/acme/1/1`, 0, 3, fresh()))
      t.same([bytes.toString(), asked.length], ['abc', 3], kind)
    }
    asked.length = 0
    await t.rejects(objects.get('cache/acme/1/1', 0, 3, fresh()), { cause: { name: 'NoSuchKey' } })
    t.equal(asked.length, 1, 'what may not be there is asked for once')
  },
)

t.test('without keys, the credentials of a role are those that the SDK finds', async (t: Test) => {
  const found = {
    AccessKeyId: 'of-role',
    SecretAccessKey: 's',
    Token: 'session',
    Expiration: '2100-01-01T00:00:00Z',
  }
  const asked: string[] = []
  const signedBy: unknown[][] = []
  const server = createHttpServer((request, response) => {
    request.resume()
    if (request.url === '/role') {
      asked.push('role')
      response.end(JSON.stringify(found))
      return
    }
    const { authorization = '', 'x-amz-security-token': token } = request.headers
    signedBy.push([request.method, /Credential=([^/]*)/.exec(authorization)?.[1], token])
    t.match(authorization, /SignedHeaders=[^,]*x-amz-security-token/)
    request.on('end', () =>
      response.writeHead(request.method === 'DELETE' ? 204 : 200, { etag: '"e"' }).end(),
    )
  })
  const origin = `http://127.0.0.1:${await listen(t, server)}`
  const { AWS_CONTAINER_CREDENTIALS_FULL_URI: before } = process.env
  process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI = `${origin}/role`
  t.teardown(() => {
    if (before === undefined) delete process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI
    else process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI = before
  })
  const bucket = { endpoint: origin, region: 'us-east-1', bucket: 'b' }
  const objects = openS3(t, bucket)
  await objects.put(KEY, chunksOf(Buffer.from('abc')), 3, { signal: fresh() })
  await objects.remove(KEY)
  t.same(signedBy, [
    ['PUT', 'of-role', 'session'],
    ['DELETE', 'of-role', 'session'],
  ])
  const link = await createS3Links(bucket).sign(
    { key: KEY, mediaType: 'audio/wav', bytes: 3 },
    Date.now() / 1_000 + 60,
  )
  t.match(link, /X-Amz-Security-Token=session/)
  t.equal(asked.length, 2, 'once for each client')
})
