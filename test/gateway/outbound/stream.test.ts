import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AudioReader, AudioRef } from '../../../src/contracts/audio.ts'
import { UpstreamFailure, type UpstreamRequest } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { audio } from '../../support/call.ts'
import { listen, serveHttp } from '../../support/http-server.ts'
import { whenStill } from '../../support/stands-still.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

t.setTimeout(60_000)

const AUDIO = Buffer.from('some audio that is sent')

const reader: AudioReader = {
  async *bytes({ decodedBytes }: AudioRef) {
    for (let at = 0; at < decodedBytes; at += 7) yield AUDIO.subarray(at, Math.min(at + 7, decodedBytes))
  },
  async *base64() {
    yield Buffer.from(AUDIO.toString('base64'))
  },
  range: async (_, start, end) => AUDIO.subarray(start, end),
}

function sender(t: Pick<Test, 'teardown'>) {
  const made = createSender({ reader })
  t.teardown(() => made.close())
  return made
}

const get = (origin: string): UpstreamRequest => ({
  method: 'GET',
  url: `${origin}/v1`,
  headers: {},
  body: [],
})
const staying = { deadlineMs: 20_000, signal: new AbortController().signal }

/** The kind and reason of the attempt's failure, or the thrown error itself. */
function thrown(error: unknown): unknown {
  return error instanceof UpstreamFailure ? `${error.failure.kind}: ${error.failure.reason}` : error
}

/** Reads until the end. @returns what came, and what was thrown at last */
async function drain(chunks: AsyncIterable<Uint8Array>): Promise<{ text: string; error: unknown }> {
  const read: Uint8Array[] = []
  let error: unknown = null
  try {
    for await (const chunk of chunks) read.push(chunk)
  } catch (cause) {
    error = thrown(cause)
  }
  return { text: Buffer.concat(read).toString(), error }
}

/** Writes as much as the reader lets it. @returns how much that was so far, bytes */
function pourInto(res: ServerResponse, bytes: number): { written(): number } {
  const block = Buffer.alloc(64 * 1024, 'x')
  res.setMaxListeners(0)
  let written = 0
  const pour = async () => {
    while (written < bytes && !res.destroyed) {
      written += block.length
      if (!res.write(block)) await Promise.race([once(res, 'drain'), once(res, 'close')])
    }
    res.end()
  }
  void pour()
  return { written: () => written }
}

t.test('an answer comes piece by piece, behind a body with audio', async (t) => {
  const seen: string[] = []
  let more = () => {}
  const origin = await serveHttp(t, async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    seen.push(`${req.headers['content-length']} ${body}`)
    res.writeHead(200, { 'content-type': 'text/event-stream', 'x-two': ['a', 'b'] }).flushHeaders()
    more = () => void res.write('data: next\n\n')
    req.socket.once('close', () => seen.push('closed'))
  })
  const { open } = sender(t)
  const ref = audio({ decodedBytes: AUDIO.length, length: AUDIO.length })
  const request = {
    method: 'POST',
    url: `${origin}/v1`,
    headers: {},
    body: [Buffer.from('<'), { audio: ref, as: 'bytes' }, { audio: ref, as: 'base64' }, Buffer.from('>')],
  } as const
  const { status, headers, chunks } = await open(request, staying)
  t.equal(status, 200, 'the head alone is enough')
  t.equal(headers['content-type'], 'text/event-stream')
  t.equal(headers['x-two'], 'a, b')
  t.same(seen, [`57 <${AUDIO}${AUDIO.toString('base64')}>`])

  const iterator = chunks[Symbol.asyncIterator]()
  for (let piece = 0; piece < 3; piece += 1) {
    more()
    t.equal(String((await iterator.next()).value), 'data: next\n\n', `piece ${piece} is here before the next`)
  }
  await iterator.return?.()
  t.ok(await waitUntil(() => seen.includes('closed')))
})

t.test('informational answers are passed over, and a connection serves on after a whole body', async (t) => {
  const sockets = new Set<Socket>()
  const origin = await serveHttp(t, (req, res) => {
    sockets.add(req.socket)
    res.writeEarlyHints({ link: '</a>; rel=preload' })
    res.writeHead(req.url === '/v1' ? 200 : 404).end('whole')
  })
  const { open, send } = sender(t)
  for (let request = 0; request < 6; request += 1) {
    const { status, chunks } = await open(get(origin), staying)
    t.equal(status, 200)
    t.same(await drain(chunks), { text: 'whole', error: null })
    t.same(await drain(chunks), { text: '', error: null }, 'and has ended for good')
  }
  await send(get(origin), { ...staying, onHeld: () => {} })
  // An idle connection rests for a turn of the loop.
  t.ok(sockets.size <= 2, `${sockets.size} connections`)
})

t.test('a slow reader holds the provider back', async (t) => {
  const bytes = 96 * MIB
  let poured = { written: () => 0 }
  const origin = await serveHttp(t, (_, res) => {
    poured = pourInto(res, bytes)
  })
  const { chunks } = await sender(t).open(get(origin), staying)
  const iterator = chunks[Symbol.asyncIterator]()
  await iterator.next()
  const heldAt = await whenStill(() => poured.written())
  t.ok(heldAt < bytes / 4, `${heldAt} bytes could be written, most of them into the kernel's buffers`)
  const before = process.memoryUsage().arrayBuffers
  await sleep(300)
  t.equal(poured.written(), heldAt, 'and then no more')
  t.ok(process.memoryUsage().arrayBuffers - before < MIB)

  let read = 0
  for (let step = await iterator.next(); !step.done; step = await iterator.next()) read += step.value.length
  t.ok(read > bytes - 256 * 1024 && read <= bytes, `${read} bytes came whole after the first chunk`)
})

t.test('no more than a bounded part waits for the reader', async (t) => {
  let poured = { written: () => 0 }
  const origin = await serveHttp(t, (_, res) => {
    poured = pourInto(res, 32 * MIB)
  })
  const { chunks } = await sender(t).open(get(origin), staying)
  await whenStill(() => poured.written())
  let handed = 0
  const iterator = chunks[Symbol.asyncIterator]()
  // Before the loop turns, nothing new can come off the socket: what is read until then has waited.
  const waited = (async () => {
    for (;;) {
      const { value, done } = await iterator.next()
      if (done) return
      handed += value.length
    }
  })()
  await new Promise<void>((resolve) => process.nextTick(resolve))
  const waitedBytes = handed
  await waited
  t.equal(handed, 32 * MIB)
  t.ok(waitedBytes > 0 && waitedBytes <= 256 * 1024, `${waitedBytes} bytes had been taken off the socket`)
})

t.test('a body that breaks off', async (t) => {
  const cutAfter = (framing: Record<string, string>) => (_: IncomingMessage, res: ServerResponse) => {
    res.writeHead(200, framing).write('half')
    setTimeout(() => res.destroy(), 50)
  }
  const { open } = sender(t)
  for (const framing of [{ 'content-length': '100' }, { 'transfer-encoding': 'chunked' }] as const) {
    const origin = await serveHttp(t, cutAfter(framing))
    const { chunks } = await open(get(origin), staying)
    t.same(await drain(chunks), { text: 'half', error: 'ambiguous: the connection broke' })
    t.same(await drain(chunks), { text: '', error: null }, 'is told once')
  }
  const resetting = await serveHttp(t, (_, res) => {
    res.writeHead(200).write('half')
    setTimeout(() => (res.socket as Socket).resetAndDestroy(), 50)
  })
  t.same(await drain((await open(get(resetting), staying)).chunks), {
    text: 'half',
    error: 'ambiguous: the connection broke',
  })
})

t.test('no answer at all', async (t) => {
  const { open } = sender(t)
  const failing = (origin: string, deadlineMs = 20_000) =>
    open(get(origin), { ...staying, deadlineMs }).then(() => null, thrown)
  const closed = createServer()
  const unheard = await listen(t, closed)
  closed.close()
  t.equal(await failing(unheard), 'connect: no connection (ECONNREFUSED)')
  const cutting = await serveHttp(t, (req) => void req.socket.destroy())
  t.equal(await failing(cutting), 'ambiguous: the connection broke')
  const garbled = await listen(
    t,
    createServer((socket) => void socket.end('HTTP/1.1 200 OK\r\nbroken\r\n\r\n')),
  )
  t.equal(await failing(garbled), 'ambiguous: the connection broke')
  const silent = await serveHttp(t, () => {})
  t.equal(await failing(silent, 200), 'ambiguous: no answer before its deadline')
})

t.test('the deadline counts while the provider is waited for', async (t) => {
  let closedAfterMs = 0
  let beats = 0
  const origin = await serveHttp(t, (req, res) => {
    const startedMs = performance.now()
    beats = 0
    const beat = setInterval(() => {
      beats += 1
      res.write('beat ')
    }, 50)
    req.socket.once('close', () => {
      clearInterval(beat)
      closedAfterMs = performance.now() - startedMs
    })
  })
  const { open } = sender(t)
  const { chunks } = await open(get(origin), { ...staying, deadlineMs: 400 })
  const { text, error } = await drain(chunks)
  t.match(text, /^beat beat /)
  t.equal(error, 'ambiguous: no answer before its deadline')
  t.ok(await waitUntil(() => closedAfterMs > 0), 'the provider is left')
  t.ok(closedAfterMs > 300 && closedAfterMs < 5_000, `after ${closedAfterMs} ms`)

  const unread = await open(get(origin), { ...staying, deadlineMs: 300 })
  t.ok(await waitUntil(() => beats >= 10))
  const late = await drain(unread.chunks)
  t.match(late.text, /^(beat ){8}/, 'a reader that rests loses nothing')
  t.equal(late.error, 'ambiguous: no answer before its deadline', 'and has the whole of it then')
})

t.test('a caller that leaves ends the request with its own reason', async (t) => {
  let closed = 0
  const origin = await serveHttp(t, (req, res) => {
    if (req.method === 'GET') res.write('first')
    req.socket.once('close', () => (closed += 1))
  })
  const { open } = sender(t)
  const reason = new Error('left')
  const leavingIn = (milliseconds: number) => {
    const leaving = new AbortController()
    setTimeout(() => leaving.abort(reason), milliseconds)
    return { ...staying, signal: leaving.signal }
  }
  await t.rejects(open({ ...get(origin), method: 'POST' }, leavingIn(50)), reason, 'before the head')
  const { chunks } = await open(get(origin), leavingIn(100))
  t.same(await drain(chunks), { text: 'first', error: reason }, 'in the body')
  t.ok(await waitUntil(() => closed === 2), 'the provider sees both leave')
  await t.rejects(open(get(origin), { ...staying, signal: AbortSignal.abort(reason) }), reason)
  t.equal(closed, 2, 'who had left before is sent nothing')
})

t.test('leaving the loop ends the request at once, and its connection is not used again', async (t) => {
  const sockets: Socket[] = []
  let closed = 0
  const origin = await serveHttp(t, (req, res) => {
    sockets.push(req.socket)
    req.socket.once('close', () => (closed += 1))
    pourInto(res, req.headers['x-endless'] === undefined ? 100 : 64 * MIB)
  })
  const { open } = sender(t)
  const endless = { ...get(origin), headers: { 'x-endless': '1' } }

  const broken = await open(endless, staying)
  for await (const _ of broken.chunks) break
  t.ok(await waitUntil(() => closed === 1), 'out of the loop')

  const unread = await open(endless, staying)
  await sleep(100)
  await unread.chunks[Symbol.asyncIterator]().return?.()
  t.ok(await waitUntil(() => closed === 2), 'without having read, while the provider is held back')

  const { chunks } = await open(endless, staying)
  const iterator = chunks[Symbol.asyncIterator]()
  const reading = (async () => {
    while (!(await iterator.next()).done);
  })()
  await iterator.return?.()
  await reading
  t.ok(await waitUntil(() => closed === 3), 'beside a read that waits, which ends too')

  t.equal((await drain((await open(get(origin), staying)).chunks)).error, null)
  t.equal(new Set(sockets).size, 4)
})

t.test('an answer of an error status is an answer', async (t) => {
  const origin = await serveHttp(t, (_, res) => {
    res.writeHead(429, { 'retry-after': '3' }).end('{"error":"slow down"}')
  })
  const { status, headers, chunks } = await sender(t).open(get(origin), staying)
  t.equal(status, 429)
  t.equal(headers['retry-after'], '3')
  t.same(await drain(chunks), { text: '{"error":"slow down"}', error: null })
})

t.test('a store that fails is not taken for the provider', async (t) => {
  const origin = await serveHttp(t, (req) => void req.resume())
  async function* broken() {
    yield AUDIO
    throw new Error('the store broke')
  }
  const { open, close } = createSender({ reader: { ...reader, bytes: broken } })
  t.teardown(close)
  const ref = audio({ decodedBytes: 200_000, length: 200_000 })
  const request = { ...get(origin), method: 'POST', body: [{ audio: ref, as: 'bytes' }] } as const
  await t.rejects(open(request, staying), { message: 'the store broke' })
})

t.test('nothing is left of a request that is over: no timer, no listener', async (t) => {
  const origin = await serveHttp(t, (req, res) => {
    if (req.url === '/cut') res.destroy()
    else res.end('whole')
  })
  const { open, close } = sender(t)
  const { signal } = new AbortController()
  let listening = 0
  const counting = new Proxy(signal, {
    get(target, name) {
      if (name === 'addEventListener') listening += 1
      if (name === 'removeEventListener') listening -= 1
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  const options = { deadlineMs: 1_000_000, signal: counting }
  for (let index = 0; index < 30; index += 1) {
    await drain((await open(get(origin), options)).chunks)
    await (await open(get(origin), options)).chunks[Symbol.asyncIterator]().return?.()
    await open({ ...get(origin), url: `${origin}/cut` }, options).catch(() => {})
    await open(get(origin), options)
  }
  await close()
  await open(get(origin), options).catch(() => {})
  t.equal(listening, 0)
  t.ok(timers() - before < 10, `${timers() - before} timers, which are the connections' own`)
})
