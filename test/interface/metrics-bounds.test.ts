import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Pool } from 'undici'
import { type MeteredNode, startMeteredNode } from '../support/metered-node.ts'
import { RawClient } from '../support/raw-client.ts'

const HOSTILE = process.env.LARKWAY_TEST_LONG === '1' ? 10_000 : 2_000
const AT_ONCE = 32
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'PATCH', 'OPTIONS', 'TRACE']
const HELLO = [{ role: 'user', content: 'hello' }]

/** A request as a caller may make it up, the same for the same number. */
function madeUp(node: MeteredNode, i: number) {
  const word = `w${(i * 2_654_435_761) % 4_294_967_296}`
  const paths = [
    `/${word}`,
    `/v1/${word}?${word}=${word}`,
    `/v1/transcription/jobs/${word}`,
    `/workspace/${word}/stt-webhook`,
    `/results/${word}`,
    `/v1/me/${word}`,
    '/v1/chat',
    '/v1/me',
  ]
  const path = paths[i % paths.length]!
  // Not so many of those that a provider is asked for.
  const calls = path === '/v1/chat' && i % 5 === 0
  const method = calls ? 'POST' : METHODS[(i >> 3) % METHODS.length]!
  const authorization = i % 3 === 0 ? `Bearer ${word}` : node.authorization
  return {
    path,
    method: method as 'GET',
    headers: {
      authorization: calls ? node.authorization : authorization,
      'content-type': calls ? 'application/json' : `text/${word}`,
      'x-lk-request-id': word,
      'x-lk-purpose': word,
      'idempotency-key': word,
      'user-agent': word,
      traceparent: `00-${word.padStart(32, '0')}-${word.padStart(16, '0')}-01`,
      [`x-${word}`]: word,
    },
    ...(calls
      ? { body: JSON.stringify({ messages: HELLO, purpose: word, model: word, [word]: word, user: word }) }
      : {}),
  }
}

async function seriesOf(node: MeteredNode): Promise<Set<string>> {
  const { samples } = await node.scrape()
  // Node decides how many are open, and how often it collects.
  const own = samples.filter(({ name }) => !name.startsWith('nodejs_'))
  return new Set(own.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`))
}

t.test('nothing that a caller makes up makes a series', { timeout: 180_000 }, async (t) => {
  const node = await startMeteredNode(t)
  const pool = new Pool(node.url, { connections: AT_ONCE, pipelining: 1 })
  t.teardown(() => pool.destroy())
  const ask = async (i: number) => {
    const { body } = await pool.request(madeUp(node, i)).catch(async () => pool.request(madeUp(node, i)))
    await body.dump()
  }
  const askAll = (from: number, to: number) => {
    let next = from
    const asking = async () => {
      while (next < to) await ask(next++)
    }
    return Promise.all(Array.from({ length: AT_ONCE }, asking))
  }

  // Each kind once: from here on there is nothing new but words.
  const kinds = 8 * METHODS.length * 15
  await askAll(0, kinds)
  await sleep(100)
  const before = await seriesOf(node)
  await askAll(kinds, kinds + HOSTILE)
  await sleep(100)
  const after = await seriesOf(node)
  t.same(
    [...after].filter((one) => !before.has(one)),
    [],
    'nothing was added',
  )
  t.equal(after.size, before.size)
  t.ok(after.size < 2_000, `${after.size} series`)
  t.notMatch([...after].join('\n'), /w\d{6,}/, 'no word of theirs')
  const { value } = await node.scrape()
  t.ok((value('larkway_requests_total') ?? 0) >= HOSTILE, 'all were counted')

  await t.test('methods that nobody knows', async (t) => {
    for (const method of ['BREW', 'GET\u0000', 'x'.repeat(100), 'PROPFIND', 'get']) {
      const client = await RawClient.connect(node.port)
      await client.send(`${method} /v1/me HTTP/1.1\r\nhost: a\r\n\r\n`)
      await client.response({ timeoutMs: 200 })
      client.socket.destroy()
    }
    const added = [...(await seriesOf(node))].filter((one) => !before.has(one))
    t.same(
      added.filter((one) => !one.includes('"method":"_OTHER"')),
      [],
      'they count as one, whatever they are called',
    )
    t.ok(added.length < 50, `${added.length} series`)
  })
})
