import t from 'tap'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { type QueueApi, startQueueApi } from './queue-api.ts'

const MAX = 2_097_152

/** A body whose payload has so many bytes, white space around it not counted. */
function bodyOf(payloadBytes: number): Buffer {
  const payload = '{"input":""}'
  const filled = payload.replace('""', `"${'a'.repeat(payloadBytes - payload.length)}"`)
  return Buffer.from(`{"endpoint":"embeddings", "payload":  ${filled}  ,"mode":"bulk"}`)
}

interface Sending {
  /** Content-Length; null: chunked coding, undefined: the truth. */
  readonly declared?: number | null | undefined
  /** Bytes of the body that are sent at all. */
  readonly sent?: number
}

async function send(
  { port, authorization }: QueueApi,
  body: Buffer,
  { declared, sent = body.length }: Sending = {},
) {
  const client = await RawClient.connect(port)
  const framing =
    declared === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${declared ?? body.length}`
  const head =
    'POST /v1/queue HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n' +
    `Authorization: ${authorization}\r\n${framing}\r\n\r\n`
  const bytes = body.subarray(0, sent)
  const framed = declared === null ? [`${bytes.length.toString(16)}\r\n`, bytes, '\r\n0\r\n\r\n'] : [bytes]
  await client.send(head, ...framed)
  const response = await client.response({ timeoutMs: 30_000 })
  client.destroy()
  if (response === null) throw new Error('there was no answer')
  return { status: response.status, body: JSON.parse(response.body.toString()) }
}

t.test('the payload may have so many bytes, however they are declared', async (t) => {
  const api = await startQueueApi(t)
  for (const declared of [undefined, null]) {
    t.equal((await send(api, bodyOf(MAX), { declared })).status, 202, 'at the limit')
    const over = await send(api, bodyOf(MAX + 1), { declared })
    t.match(over, {
      status: 413,
      body: {
        error: {
          code: 'REQUEST_TOO_LARGE',
          param: 'payload',
          details: { limit: 'queue_max_payload_bytes', limit_bytes: MAX },
        },
      },
    })
    t.ok(over.body.error.details.received_bytes > MAX)
  }
  const early = await send(api, bodyOf(10 * MAX), { declared: 20 * MAX, sent: 2 * MAX })
  t.match(
    early,
    { status: 413, body: { error: { details: { limit: 'queue_max_payload_bytes' } } } },
    'it is not read to its end',
  )
  const whole = await send(api, bodyOf(MAX + 1), { declared: 52_428_801, sent: 100 })
  t.match(whole, { status: 413, body: { error: { details: { limit: 'max_request_body_bytes' } } } })
  t.equal(await api.jobs.waiting(), 2)
  t.equal((await api.kept()).length, 2, 'nothing is stored of what is refused')
  t.equal(api.budgetUsed(), 0)
})

t.test('what is around the payload is bounded, too', async (t) => {
  const api = await startQueueApi(t)
  const spaced = (spaces: number) =>
    Buffer.from(`{"endpoint":"speech","payload":{"input":"a"}${' '.repeat(spaces)}}`)
  t.equal((await send(api, spaced(60_000))).status, 202)
  for (const body of [
    spaced(70_000),
    Buffer.from(`{"note":"${'x'.repeat(70_000)}","endpoint":"speech","payload":{"input":"a"}}`),
  ])
    t.match(await send(api, body), {
      status: 400,
      body: { error: { code: 'INVALID_REQUEST', message: /65536 bytes without its payload/ } },
    })
})

t.test('the limit is the configured one, below that of any body', async (t) => {
  const limits = { queue_max_payload_bytes: 5_000_000, max_request_body_bytes: 1_000_000 }
  const api = await startQueueApi(t, { limits })
  t.equal((await send(api, bodyOf(900_000))).status, 202)
  t.match(await send(api, bodyOf(1_000_000), { declared: null }), {
    status: 413,
    body: { error: { details: { limit: 'max_request_body_bytes', limit_bytes: 1_000_000 } } },
  })
})

t.test('a payload is no deeper, and has no more values, than any other body', async (t) => {
  const api = await startQueueApi(t)
  const deep = `{"endpoint":"chat","payload":{"messages":${'['.repeat(200)}${']'.repeat(200)}}}`
  t.match(await send(api, Buffer.from(deep)), { status: 400, body: { error: { message: /128 levels/ } } })
  const many = `{"endpoint":"chat","payload":{"messages":[${'{},'.repeat(300_000)}{}]}}`
  t.match(await send(api, Buffer.from(many)), { status: 400, body: { error: { message: /500000 values/ } } })
})

t.test('whoever leaves early leaves nothing', async (t) => {
  const api = await startQueueApi(t)
  const client = await RawClient.connect(api.port)
  const body = bodyOf(MAX)
  await client.send(
    `POST /v1/queue HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: ${api.authorization}\r\n` +
      `Content-Length: ${body.length}\r\n\r\n`,
    body.subarray(0, MAX / 2),
  )
  client.destroy()
  t.equal((await send(api, bodyOf(100))).status, 202, 'the next one is served')
  t.equal(await api.jobs.waiting(), 1)
  t.ok(await waitUntil(() => api.budgetUsed() === 0), 'all memory is given back')
})
