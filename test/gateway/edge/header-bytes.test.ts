import t, { type Test } from 'tap'
import type { EdgeRoute } from '../../../src/gateway/edge/server.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'

const DECIDING = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'traceparent',
  'X-LK-Purpose',
  'X-LK-Request-ID',
]

/** Bytes that are no visible ASCII and that the parser lets pass: UTF-8, Latin-1, and one of each kind on its own. */
const BYTES: Readonly<Record<string, string>> = {
  'ü in UTF-8': '\xc3\xbc',
  'ü in Latin-1': '\xfc',
  'first over ASCII': '\x80',
  'no-break space': '\xa0',
  last: '\xff',
  DEL: '\x7f',
  'an emoji': '\xf0\x9f\x98\x80',
}

/** Their places in a value. */
const PLACES: Readonly<Record<string, (bytes: string) => string>> = {
  'at the end': (bytes) => `order-${bytes}`,
  'at the beginning': (bytes) => `${bytes}order`,
  inside: (bytes) => `or${bytes}der`,
  alone: (bytes) => bytes,
  'behind a blank at the end': (bytes) => `order ${bytes}`,
  'before blanks at the end': (bytes) => `order${bytes} \t `,
  'before a blank at the beginning': (bytes) => `${bytes} order`,
  'at both ends': (bytes) => `${bytes}order${bytes}`,
}

async function start(t: Test) {
  const handled: string[] = []
  const routes = (['GET', 'POST'] as const).map(
    (method): EdgeRoute => ({
      method,
      path: '/v1/me',
      handle(exchange) {
        handled.push(exchange.method)
        exchange.reply({ status: 200, body: JSON.stringify(exchange.headers) })
      },
    }),
  )
  return { ...(await startEdge(t, routes)), handled }
}

/** The answer to the lines of a head after its Host, and a body. */
async function ask(client: RawClient, lines: readonly string[], body = '', method = 'GET') {
  const head = [`${method} /v1/me?x=y HTTP/1.1`, 'Host: a', ...lines, '', ''].join('\r\n')
  await client.send(head + body)
  const response = await client.response()
  return { status: response?.status, headers: response?.headers ?? {}, json: JSON.parse(`${response?.body}`) }
}

t.test('a header that decides something is refused with any byte but visible ASCII, wherever', async (t) => {
  const { port, handled, logged } = await start(t)
  const client = await RawClient.connect(port)
  t.teardown(() => client.destroy())
  for (const name of DECIDING) {
    for (const [kind, bytes] of Object.entries(BYTES)) {
      for (const [place, fill] of Object.entries(PLACES)) {
        const lines = [`${name}: ${fill(bytes)}`]
        for (const around of [lines, ['Accept: */*', ...lines, 'X-Other: b'], [`${name}:${fill(bytes)}`]]) {
          const { status, json, headers } = await ask(client, around)
          if (status !== 400) t.equal(status, 400, `${name}, ${kind}, ${place}`)
          if (json.error?.param !== name) t.match(json, { error: { code: 'INVALID_REQUEST', param: name } })
          if (!/^req_/.test(headers['x-lk-request-id'] ?? '')) t.fail('the id is a new one')
        }
      }
    }
    t.pass(name)
  }
  t.same(handled, [], 'no route sees one')
  t.same(logged, [])
})

t.test(
  'so is it with a body after the head, of any bytes, and in the last of several segments',
  async (t) => {
    const { port, handled } = await start(t)
    const body = Buffer.from(Array.from({ length: 4096 }, (_, i) => i % 256)).toString('latin1')
    for (const padding of Array.from({ length: 8 }, (_, i) => 'p'.repeat(i))) {
      const client = await RawClient.connect(port)
      const lines = [`X-Padding: ${padding}`, 'Idempotency-Key: order-\xfc', `Content-Length: ${body.length}`]
      const { status, json } = await ask(client, lines, body, 'POST')
      t.match([status, json], [400, { error: { param: 'Idempotency-Key' } }])
      const plain = await ask(
        client,
        [`Content-Length: ${body.length}`, 'Idempotency-Key: order-'],
        body,
        'POST',
      )
      t.match(
        [plain.status, plain.json],
        [200, { 'idempotency-key': 'order-' }],
        'and on the same connection',
      )
      client.destroy()
    }
    t.equal(handled.length, 8)
  },
)

t.test('a length or a host with such a byte ends the connection', async (t) => {
  const { port, handled } = await start(t)
  for (const line of ['Content-Length: 5\xfc', 'Content-Length: \xa05', 'Transfer-Encoding: chunked\xff']) {
    const client = await RawClient.connect(port)
    const { status, json } = await ask(client, [line], '5\r\nhello\r\n0\r\n\r\n', 'POST')
    t.match([status, json], [400, { error: { code: 'INVALID_REQUEST', param: null } }], line)
    t.ok(await client.closes())
    client.destroy()
  }
  const client = await RawClient.connect(port)
  await client.send('GET /v1/me HTTP/1.1\r\nHost: a\xfc\r\n\r\n')
  t.equal((await client.response())?.status, 400)
  client.destroy()
  t.same(handled, [])
})

t.test('blanks, other headers and what stood in the memory before are no reason', async (t) => {
  const { port } = await start(t)
  const client = await RawClient.connect(port)
  t.teardown(() => client.destroy())
  const accepted: readonly (readonly string[])[] = [
    [],
    ['Authorization: Bearer x'],
    ['Authorization:   Bearer x  '],
    ['Authorization:Bearer x'],
    ['Content-Type: multipart/form-data; boundary="a b"'],
    ['X-LK-Purpose: a\tb'],
    ['X-LK-Purpose:\t a \t'],
    ['X-LK-Purpose:'],
    ['X-Other: order-\xfc', 'Idempotency-Key: order-'],
    ['Accept: \xfc\xff', 'Idempotency-Key: "order-"'],
    ['Idempotency-Key: a', 'Idempotency-Key: b'],
    ['X-Long: '.padEnd(9_000, 'x'), 'Idempotency-Key: a'],
  ]
  for (const lines of accepted) {
    await ask(client, ['X-LK-Purpose: support\xfc', 'X-Rest: '.padEnd(10_000, '\xfd')])
    const { status } = await ask(client, lines)
    t.equal(status, 200, JSON.stringify(lines).slice(0, 80))
  }
  const whole = 'GET /v1/me HTTP/1.1\r\nHost: a\r\nX-LK-Purpose: support\r\nIdempotency-Key: order-1\r\n\r\n'
  for (let cut = 1; cut < whole.length; cut += 1) {
    await ask(client, ['X-LK-Purpose: support\xfc'])
    await client.send(whole.slice(0, cut), whole.slice(cut))
    const status = (await client.response())?.status
    if (status !== 200) t.equal(status, 200, `in two segments, cut at ${cut}`)
  }
  // The segment before leaves a line without a name after the end of the head.
  for (const rest of ['\n', '\r\n', '\n\r\n']) {
    await ask(client, ['X-Rest: '.padEnd(10_000, 'x')])
    const end = '\r\n\r\n'.slice(0, -rest.length)
    await client.send('GET /v1/me HTTP/1.1\r\nHost: a\r\nX-', `${'L'.repeat(rest.length)}: b${end}`, rest)
    const answer = await client.response()
    t.equal(answer?.status, 200, `${JSON.stringify(rest)} alone: ${answer?.body}`)
  }
  await client.send('GET /v1/me HTTP/1.1\r\nHo', 'st: a\r\n: b\r\n\r\n')
  t.equal((await client.response())?.status, 400, 'a line without a name in the last segment')
})

t.test('an unknown method is answered in JSON, and so is one that is not a token', async (t) => {
  const { port, handled } = await start(t)
  const client = await RawClient.connect(port)
  t.teardown(() => client.destroy())
  for (const method of ['BREW', 'get', 'Post', 'PROPFIND', 'M-SEARCH', 'A'.repeat(300)]) {
    const { status, json, headers } = await ask(client, ['Content-Length: 5'], 'hello', method)
    t.match([status, json], [405, { error: { code: 'METHOD_NOT_ALLOWED' } }], method.slice(0, 20))
    t.match(headers, { allow: 'GET, HEAD, POST', 'content-type': 'application/json' })
    await client.send(`${method} /nowhere HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.equal((await client.response())?.status, 404)
  }
  t.equal((await ask(client, [])).status, 200, 'and the connection serves on')
  for (const method of ['G@T', 'G(T', '']) {
    const other = await RawClient.connect(port)
    const { status, json } = await ask(other, [], '', method)
    t.match([status, json], [400, { error: { code: 'INVALID_REQUEST' } }], method)
    t.ok(await other.closes())
    other.destroy()
  }
  t.same(handled, ['GET'])
})
