import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { EDGE_TIMING } from '../../../src/gateway/edge/timing.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024

t.setTimeout(120_000)
const LIMIT_BYTES = MIB
const TRIES = process.env.LARKWAY_TEST_LONG === '1' ? 25 : 10
/** Within the bound of what is discarded before an answer, and over it. */
const BODIES = [3 * MIB, 14 * MIB]

/**
 * Refuses a body over the limit as soon as that is known: from its Content-Length, else at the chunk that crosses it.
 */
const upload: EdgeRoute = {
  method: 'POST',
  path: '/upload',
  handle(exchange) {
    const refuse = () => exchange.replyError(new GatewayError('REQUEST_TOO_LARGE'))
    if ((exchange.contentLength ?? 0) > LIMIT_BYTES) return refuse()
    exchange.body.consume({
      onChunk(_, last) {
        if (exchange.receivedBytes > LIMIT_BYTES) refuse()
        else if (last) exchange.reply({ status: 200, body: JSON.stringify({ n: exchange.receivedBytes }) })
      },
      onError: (error) => exchange.replyError(error),
    })
  },
}

/** Sends a body. @returns the outcome: `413 REQUEST_TOO_LARGE`, or how it failed */
type Send = (port: number, body: Buffer, chunked: boolean) => Promise<string>

function outcome(status: number | undefined, body: string): string {
  return `${status} ${JSON.parse(body).error.code}`
}

const byRaw: Send = async (port, body, chunked) => {
  const client = await RawClient.connect(port)
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
  void client.send(
    `POST /upload HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`,
    // A size in a segment of its own is refused for itself.
    ...(chunked
      ? [Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body]), '\r\n0\r\n\r\n']
      : [body]),
  )
  const response = await client.response()
  client.destroy()
  return response === null ? 'lost' : outcome(response.status, String(response.body))
}

const byNode: Send = (port, body, chunked) =>
  new Promise((resolve) => {
    const headers = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
    const outgoing = request({ port, method: 'POST', path: '/upload', headers, agent: false }, (incoming) => {
      let text = ''
      incoming.on('data', (chunk) => {
        text += chunk
      })
      incoming.on('end', () => resolve(outcome(incoming.statusCode, text)))
    })
    outgoing.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)))
    outgoing.end(body)
  })

const byFetch: Send = async (port, body, chunked) => {
  try {
    const init: RequestInit = chunked
      ? { body: new Blob([new Uint8Array(body)]).stream(), duplex: 'half' }
      : { body: new Uint8Array(body) }
    const response = await fetch(`http://127.0.0.1:${port}/upload`, { method: 'POST', ...init })
    return outcome(response.status, await response.text())
  } catch (error) {
    return String((error as Error).cause)
  }
}

t.test('no client loses an answer that came before its body was sent', async (t) => {
  const edge = await startEdge(t, [upload])
  const folder = await mkdtemp(join(tmpdir(), 'larkway-edge-'))
  t.teardown(() => rm(folder, { recursive: true }))
  for (const bytes of BODIES) await writeFile(join(folder, String(bytes)), Buffer.alloc(bytes))
  const byCurl: Send = async (port, body, chunked) => {
    const file = join(folder, String(body.length))
    const { stdout } = await promisify(execFile)('curl', [
      '-s',
      '-w',
      ' %{http_code}',
      '--data-binary',
      `@${file}`,
      '-H',
      'Expect:',
      ...(chunked ? ['-H', 'Transfer-Encoding: chunked'] : []),
      `http://127.0.0.1:${port}/upload`,
    ])
    const end = stdout.lastIndexOf(' ')
    return outcome(Number(stdout.slice(end)), stdout.slice(0, end))
  }
  const clients: [string, Send, number][] = [
    ['raw', byRaw, TRIES],
    ['node:http', byNode, TRIES],
    ['fetch', byFetch, TRIES],
    ['curl', byCurl, 10],
  ]
  for (const [name, send, tries] of clients)
    for (const chunked of [false, true])
      for (const bytes of BODIES) {
        const body = Buffer.alloc(bytes)
        const outcomes: Record<string, number> = {}
        let left = tries
        const work = async () => {
          while (left-- > 0) {
            const got = await send(edge.port, body, chunked)
            outcomes[got] = (outcomes[got] ?? 0) + 1
          }
        }
        await Promise.all([work(), work(), work(), work(), work()])
        const label = `${name}, ${chunked ? 'chunked' : 'by length'}, ${bytes / MIB} MiB`
        t.same(outcomes, { '413 REQUEST_TOO_LARGE': tries }, label)
      }
  t.equal(edge.budget.used, 0)
  t.equal(edge.server.inFlight, 0)
})

t.test('after an early answer whose body ended the connection serves on', async (t) => {
  const edge = await startEdge(t, [upload])
  const client = await RawClient.connect(edge.port)
  for (const bytes of [10, 3 * MIB, 10, 2 * MIB, 0]) {
    await client.send(
      `POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`,
      Buffer.alloc(bytes),
    )
    const response = await client.response()
    t.equal(response?.status, bytes > LIMIT_BYTES ? 413 : 200, `${bytes} bytes`)
    t.notOk(response?.headers.connection)
  }
  client.destroy()
})

t.test('a trickling sender is answered after two seconds, and its connection closed', async (t) => {
  const clock = new VirtualClock()
  const edge = await startEdge(t, [upload], { clock })
  const client = await RawClient.connect(edge.port)
  let answered = false
  const answer = client.response().finally(() => {
    answered = true
  })
  await client.send(`POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: ${50 * MIB}\r\n\r\n`)
  t.ok(await waitUntil(() => clock.dueInMs.includes(2_000)), 'the rest of the body is waited for')
  for (let ms = 0; ms < 1_900; ms += 100) {
    await client.send('x')
    await clock.advance(100)
  }
  t.notOk(answered)
  await clock.advance(150)
  const response = await answer
  t.equal(response?.status, 413)
  t.equal(response?.headers.connection, 'close')
  await clock.advance(EDGE_TIMING.lingerMs)
  t.ok(await client.closes())
  client.destroy()
})

t.test('a body that was not announced does not take the answer with it', async (t) => {
  const edge = await startEdge(t, [upload])
  const uploads = [0, 5, 30, 200].map(async (pauseMs) => {
    const client = await RawClient.connect(edge.port)
    // The answer is not looked at before all is sent.
    client.socket.pause()
    await client.send('POST /upload HTTP/1.1\r\nHost: a\r\n\r\n')
    await sleep(30 + pauseMs)
    await Promise.race([client.send(Buffer.alloc(3 * MIB)), sleep(300)])
    client.socket.resume()
    const response = await client.response()
    t.equal(response?.status, 411, `${pauseMs} ms after its head`)
    t.equal(JSON.parse(String(response?.body)).error.code, 'LENGTH_REQUIRED')
    t.ok(await client.closes())
    client.destroy()
  })
  await Promise.all(uploads)
  t.equal(edge.server.inFlight, 0)
  t.equal(edge.budget.used, 0)
})

t.test('a sender that was paused is read on until the answer is out', async (t) => {
  const paused: EdgeRoute = {
    method: 'POST',
    path: '/paused',
    handle(exchange) {
      exchange.body.consume({ onChunk: () => exchange.body.pause(), onError() {} })
      setTimeout(() => exchange.reply({ status: 200, body: '{}' }), 100)
    },
  }
  const edge = await startEdge(t, [paused])
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  for (const round of [1, 2, 3]) {
    const status = await new Promise((resolve, reject) => {
      const outgoing = request({ port: edge.port, method: 'POST', path: '/paused', agent }, (incoming) => {
        incoming.resume().on('end', () => resolve(incoming.statusCode))
      })
      outgoing.on('error', reject)
      outgoing.setHeader('content-length', 5 * MIB)
      outgoing.end(Buffer.alloc(5 * MIB))
    })
    t.equal(status, 200, `round ${round}`)
    await sleep(20)
  }
  t.equal(edge.server.inFlight, 0)
})
