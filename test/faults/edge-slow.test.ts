import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Dice } from '../support/dice.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { RawClient, type RawResponse } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { type EdgeProduct, startEdgeProduct } from './edge-product.ts'
import { type EdgeRequest, edgeRequests, lastingRequests, openaiRequests, textOf } from './edge-requests.ts'

/** Then slow senders take the minutes that they need. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const ABORTS = LONG ? 10_000 : 1_000
const AT_ONCE = 30
const SEED = Number(process.env.ABORTS_SEED ?? Math.floor(Math.random() * 2 ** 31))

t.setTimeout(LONG ? 900_000 : 120_000)

/** How a client leaves: rudely, politely, by sending no more, or after it has read some of its answer. */
const MANNERS = ['resets', 'closes', 'half-closes', 'reads a little'] as const

async function leave(port: number, request: EdgeRequest, dice: Dice): Promise<void> {
  const client = await RawClient.connect(port)
  const text = textOf(request)
  const whole = dice.chance(0.5)
  const manner = dice.one(MANNERS)
  await client.send(whole ? text : text.slice(0, dice.below(text.length)))
  if (manner === 'half-closes') client.socket.end()
  if (manner === 'reads a little') await client.receives(200)
  else await sleep(dice.below(80))
  if (manner === 'resets') client.socket.resetAndDestroy()
  else client.destroy()
}

/** Ends the product, and asserts that nothing was left, neither in memory nor in its spool. */
async function assertNothingLeft(t: Test, product: EdgeProduct): Promise<void> {
  const spooled = async () => {
    const files = await readdir(product.dataFolder, { recursive: true, withFileTypes: true })
    return files.filter((file) => file.isFile() && file.parentPath.includes('spool')).map(({ name }) => name)
  }
  await waitUntil(async () => (await spooled()).length === 0)
  t.same(await spooled(), [], 'no object is left')
  await assertStopsClean(t, product)
}

t.test(`${ABORTS} clients that leave at any moment, of every route`, async (t) => {
  const product = await startEdgeProduct(t, { entry: { delay_ms: 20, piece_delay_ms: 5 } })
  const makers = [edgeRequests, openaiRequests, lastingRequests]
  const requests = makers.flatMap((make) => make(product.authorization))
  t.comment(`seed ${SEED}`)
  let next = 0
  const client = async () => {
    while (next < ABORTS) {
      const index = next++
      const request = requests[index % requests.length] as EdgeRequest
      await leave(product.port, request, new Dice(SEED + index))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  t.equal((await fetch(`${product.url}/healthz`)).status, 200)
  await assertNothingLeft(t, product)
})

/** Sends a request and reads its answer with rests in between. */
async function readSlowly(port: number, request: string, restMs: number): Promise<RawResponse | null> {
  const client = await RawClient.connect(port)
  await client.send(request)
  const reader = (async () => {
    for (let rests = 0; rests < 4; rests += 1) {
      client.socket.pause()
      await sleep(restMs)
      client.socket.resume()
      await sleep(1)
    }
  })()
  const answer = await client.response({ timeoutMs: 60_000 })
  await reader
  client.destroy()
  return answer
}

t.test('slow readers of large answers and of events get all of them', async (t) => {
  const product = await startEdgeProduct(t)
  const post = (path: string, fields: object) => {
    const body = JSON.stringify(fields)
    const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: ${product.authorization}\r\n`
    return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
  const words = 'paris '.repeat(60).trim()
  const messages = [{ role: 'user', content: words.repeat(8) }]
  const requests = {
    speech: post('/v1/speech', { input: words, speed: 0.5 }),
    'speech of the OpenAI door': post('/openai/v1/audio/speech', {
      model: 'any',
      input: words,
      voice: 'alloy',
    }),
    chat: post('/v1/chat', { messages }),
    'events of a chat': post('/v1/chat', { messages, stream: true }),
  }
  const restMs = LONG ? 14_000 : 700
  const readers = Object.entries(requests).map(async ([name, request]) => {
    const fast = await readSlowly(product.port, request, 0)
    const slow = await readSlowly(product.port, request, restMs)
    const shown = ({ body }: RawResponse) => body.toString('latin1').replaceAll(/req_[0-9a-z]{26}/g, '')
    t.equal(fast?.status, 200, name)
    t.ok((fast?.body.length ?? 0) > 10_000, `${name}: ${fast?.body.length} bytes`)
    t.ok(
      fast !== null && slow !== null && shown(slow) === shown(fast),
      `${name} is the same to a slow reader`,
    )
  })
  await Promise.all(readers)
  await assertNothingLeft(t, product)
})

t.test(
  'a body of 6 kB/s is taken, one of 200 B/s is cut',
  { skip: LONG ? false : 'takes minutes' },
  async (t) => {
    const product = await startEdgeProduct(t)
    const send = async (bytes: number, bytesPerSecond: number) => {
      const client = await RawClient.connect(product.port)
      const head = `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${product.authorization}\r\n`
      await client.send(`${head}Content-Type: audio/wav\r\nContent-Length: ${bytes}\r\n\r\n`)
      const startedMs = performance.now()
      for (let sent = 0; sent < bytes && !client.closed; sent += bytesPerSecond) {
        await client.send(Buffer.alloc(Math.min(bytesPerSecond, bytes - sent)))
        if (await client.receives(1_000)) break
      }
      const answer = await client.response({ timeoutMs: 20_000 })
      client.destroy()
      return { answer, seconds: (performance.now() - startedMs) / 1_000 }
    }
    const [slow, tooSlow] = await Promise.all([send(2_000_000, 6_000), send(2_000_000, 200)])
    // Silence is no wav: it was read to its end.
    t.match(String(slow.answer?.body), /UNSUPPORTED_AUDIO_FORMAT/, `taken in ${Math.round(slow.seconds)} s`)
    t.match(String(tooSlow.answer?.body), /REQUEST_TIMEOUT/, `refused after ${Math.round(tooSlow.seconds)} s`)
    t.equal(tooSlow.answer?.status, 408)
    t.ok(tooSlow.seconds < 60)
    await assertNothingLeft(t, product)
  },
)
