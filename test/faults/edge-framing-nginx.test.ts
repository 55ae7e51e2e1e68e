import t from 'tap'
import { bytesOf, VECTORS } from '../gateway/edge/framing-vectors.ts'
import { countedEdge, cutsOf, leftOpen, outcomesOf, unfinishedHeads } from '../support/edge-outcome.ts'
import { startNginx } from '../support/nginx-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'

/** Then every cut is tried, also of what is tens of kilobytes of one letter. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'

t.test(
  'behind nginx each vector has its outcome, whole or cut anywhere, and what is refused has no effect',
  { skip: withoutServers, timeout: LONG ? 1_800_000 : 120_000 },
  async (t) => {
    const edge = await countedEdge(t)
    const nginx = await startNginx(t, [edge.port, edge.port, edge.port])
    for (const [id, raw, direct, behindNginx = direct] of VECTORS) {
      edge.handled.length = 0
      const bytes = bytesOf(raw)
      const seen = await outcomesOf(nginx.port, bytes, cutsOf(bytes, LONG), behindNginx)
      const wrong = [...seen].filter(([, outcome]) => outcome !== behindNginx)
      t.same(wrong, [], `${id} is "${behindNginx}", whole and cut at ${seen.size - 1} places`)
      const runs = behindNginx.match(/200/g)?.length ?? 0
      t.equal(edge.handled.length, runs * seen.size, `${id} runs ${runs} handlers`)
      // Where there is no second answer there is no second request.
      const hidden = behindNginx.includes(', 200')
        ? []
        : edge.handled.filter((run) => run.startsWith('/smug'))
      t.same(hidden, [], `${id} smuggles nothing`)
    }
  },
)

/** Requests that nginx or the edge refuses, beside those of the vectors, and the status that the caller is told. */
const REFUSED: Readonly<Record<string, readonly [raw: string, status: number]>> = {
  'an unknown method': ['BREW / HTTP/1.1⏎Host: a⏎⏎', 405],
  'a method that nginx refuses': ['TRACE / HTTP/1.1⏎Host: a⏎⏎', 405],
  'an unknown path': ['GET /nowhere HTTP/1.1⏎Host: a⏎⏎', 404],
  "a path of nginx's own": ['GET /.larkway/internal HTTP/1.1⏎Host: a⏎⏎', 404],
  'no length': ['P¹ ⏎', 411],
  'a path above the root': ['GET /../x HTTP/1.1⏎Host: a⏎⏎', 400],
  'a long target': ['GET /<a×20000> HTTP/1.1⏎Host: a⏎⏎', 400],
  'a long header': ['G¹ X: <a×20000>⏎⏎', 400],
  'HTTP/1.0 without a host': ['GET / HTTP/1.0⏎⏎', 400],
  'a control character in a header': ['G¹ Idempotency-Key: a\x01b⏎⏎', 400],
  'a control character in the console': ['GET /console HTTP/1.1⏎Host: a⏎Cookie: a\x1fb⏎⏎', 400],
  'bytes over ASCII in a key': ['G¹ Idempotency-Key: order-\xfc⏎⏎', 400],
  'bytes over ASCII in an id': ['G¹ X-LK-Request-ID: order-\xfc⏎⏎', 400],
}

t.test('behind nginx every refusal is JSON in the one form', { skip: withoutServers }, async (t) => {
  const edge = await countedEdge(t)
  const nginx = await startNginx(t, [edge.port, edge.port, edge.port])
  const vectors = VECTORS.map(([id, raw, direct, behind = direct]) => [id, raw, behind] as const)
  const refused = [
    ...Object.entries(REFUSED).map(([id, [raw, status]]) => [id, raw, `${status}`] as const),
    ...vectors.filter(([, , behind]) => /^[45]\d\d/.test(behind)),
  ]
  for (const [id, raw, expected] of refused) {
    const client = await RawClient.connect(nginx.port)
    await client.send(bytesOf(raw))
    const answer = await client.response()
    client.destroy()
    t.match(`${answer?.status}`, expected.slice(0, 3), id)
    t.equal(answer?.headers['content-type'], 'application/json', id)
    const { error } = JSON.parse(`${answer?.body}`)
    t.match(error, { code: /^[A-Z_]+$/, category: /./, message: /./, type: error.category, details: {} }, id)
    t.equal(answer?.headers['x-lk-request-id'], error.request_id, id)
    t.equal(answer?.headers['x-should-retry'], `${error.retryable}`, id)
  }

  const plain = await RawClient.connect(nginx.port)
  await plain.send('GET /\r\n\r\n')
  t.match(JSON.parse(await plain.rest(1_000)), { error: { code: 'INVALID_REQUEST' } }, 'HTTP/0.9 has no head')
  const many = await RawClient.connect(nginx.port)
  await many.send(bytesOf('G¹ <300 hdrs>⏎⏎'))
  t.equal((await many.response())?.status, 200, "what nobody reads does not reach the parser's limit")
  plain.destroy()
  many.destroy()
})

t.test(
  'nor does nginx keep a connection that makes no request',
  { skip: withoutServers, timeout: 60_000 },
  async (t) => {
    const edge = await countedEdge(t)
    const nginx = await startNginx(t, [edge.port, edge.port, edge.port])
    t.same(await leftOpen(nginx.port, unfinishedHeads()), [], 'none is open after 13 s')
    t.same(edge.handled, [])
  },
)
