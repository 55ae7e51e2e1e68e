import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { untilHeldBack } from './held-back.ts'

t.setTimeout(180_000)

async function ask(port: number, path: string): Promise<RawClient> {
  const client = await RawClient.connect(port)
  await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
  return client
}

const finished: string[] = []

const route: EdgeRoute = {
  method: 'GET',
  path: '/*',
  handle(exchange) {
    const { path } = exchange
    exchange.onFinished(() => finished.push(path))
    const headers = { 'content-type': 'audio/mpeg' }
    exchange.reply({ status: 200, headers, body: { stream: pieces(path) } })
  },
}

async function* pieces(path: string): AsyncGenerator<string | Uint8Array> {
  if (path === '/pause') {
    yield 'before'
    await sleep(65_000)
    yield 'after'
  } else if (path === '/late') {
    await sleep(65_000)
    yield 'late'
  } else if (path === '/left') {
    yield 'first'
    await sleep(170_000, undefined, { ref: false })
  } else if (path === '/rest') yield* untilHeldBack()
  else for (let left = 8_000_000; left > 0; left -= 8_000) yield Buffer.alloc(8_000, 'x')
}

t.test('pauses of more than a minute, and readers that rest at the end', { timeout: 150_000 }, async (t) => {
  const edge = await startEdge(t, [route])
  const whole = async (path: string, expected: string) => {
    const client = await ask(edge.port, path)
    t.equal(String((await client.response({ timeoutMs: 90_000 }))?.body), expected, path)
    await client.send('GET /a HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await client.response({ timeoutMs: 20_000 }))?.body.length, 8_000_000, 'and serves on')
    client.destroy()
  }
  const left = async () => {
    const client = await ask(edge.port, '/left')
    await sleep(62_000)
    t.notOk(client.closed)
    client.destroy()
    t.ok(await waitUntil(() => finished.includes('/left'), 1_500), 'a client that leaves is noticed')
  }
  // A reader that takes none of the last bytes for longer than uWS's timer loses none of them.
  const resting = async () => {
    const client = await RawClient.connect(edge.port)
    client.socket.pause()
    await client.send('GET /rest HTTP/1.1\r\nHost: a\r\n\r\n')
    await sleep(25_000)
    client.socket.resume()
    t.match(await client.rest(2_000), /\r\n1\r\n!\r\n0\r\n\r\n$/, 'a reader that rests for 25 s')
    client.destroy()
  }
  // As a player that takes its audio at its own pace, at the end of it too.
  const playing = async () => {
    const client = await RawClient.connect(edge.port)
    const { socket } = client
    socket.pause()
    await client.send('GET /play HTTP/1.1\r\nHost: a\r\n\r\n')
    let received = ''
    let bytes = 0
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      received = (received + chunk.toString('latin1')).slice(-20)
    })
    for (let second = 0; second < 100 && !received.endsWith('\r\n0\r\n\r\n') && !client.closed; second += 1) {
      const until = bytes + 150_000
      socket.resume()
      await waitUntil(() => bytes >= until, 1_000)
      socket.pause()
      await sleep(900)
    }
    t.ok(received.endsWith('x\r\n0\r\n\r\n'), `a slow player gets the end, after ${bytes} bytes`)
    client.destroy()
  }
  await Promise.all([whole('/pause', 'beforeafter'), whole('/late', 'late'), left(), resting(), playing()])
  t.same(edge.logged, [])
  t.ok(await waitUntil(() => edge.server.inFlight === 0))
})
