import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { largeText } from '../../../src/gateway/api/json-reply.ts'
import { type EventStream, eventStreamReply } from '../../../src/gateway/api/sse.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import { startEdge } from '../../support/edge.ts'
import { eventsOf } from '../../support/event-source.ts'
import { waitUntil } from '../../support/wait-until.ts'

const DONE = { type: 'done', text: 'x'.repeat(200_000) }

/** The real edge with one path that answers with such a stream. */
async function startStream(
  t: Test,
  given: Partial<EventStream<string>> & Pick<EventStream<string>, 'deltas'>,
) {
  const context = new CallContext({ requestId: 'req_1', signal: new AbortController().signal })
  let finished = false
  const stream: EventStream<string> = {
    event: (text) => ({ type: 'delta', text }),
    done: () => [{ ...DONE, text: largeText(DONE.text) }],
    terminator: '[DONE]',
    ...given,
  }
  const edge = await startEdge(t, [
    {
      method: 'GET',
      path: '/stream',
      handle(exchange) {
        exchange.onFinished(() => {
          finished = true
        })
        exchange.reply(eventStreamReply(stream, exchange, context))
      },
    },
  ])
  const get = (signal?: AbortSignal) => fetch(`${edge.origin}/stream`, signal === undefined ? {} : { signal })
  return { context, get, finished: () => waitUntil(() => finished), logged: edge.logged }
}

async function* texts(...given: (string | Error)[]): AsyncGenerator<string, void> {
  for (const text of given) {
    if (text instanceof Error) throw text
    yield text
  }
}

t.test('events, the last one in pieces, with and without a terminator', async (t) => {
  const ended = await startStream(t, { deltas: texts('a', 'b') })
  t.same(await eventsOf(await ended.get()), [
    { type: 'delta', text: 'a' },
    { type: 'delta', text: 'b' },
    DONE,
    '[DONE]',
  ])
  t.ok(await ended.finished())
  t.equal(ended.context.failure, null)
  const open = await startStream(t, { deltas: texts(), terminator: null })
  t.same(await eventsOf(await open.get()), [DONE])
  const framed = await startStream(t, {
    deltas: texts('a'),
    opening: [{ type: 'begin' }],
    done: () => [{ type: 'last' }, { ...DONE, text: largeText(DONE.text) }],
    headers: { 'x-lk-model': 'm' },
  })
  const response = await framed.get()
  t.equal(response.headers.get('x-lk-model'), 'm')
  t.equal(response.headers.get('content-type'), 'text/event-stream')
  t.same(await eventsOf(response), [
    { type: 'begin' },
    { type: 'delta', text: 'a' },
    { type: 'last' },
    DONE,
    '[DONE]',
  ])
})

t.test('events with names, several of a piece, and a failure in words of their own', async (t) => {
  const text = 'x'.repeat(200_000)
  const named = await startStream(t, {
    deltas: texts('a', '', 'b', new GatewayError('UPSTREAM_TIMEOUT')),
    opening: [{ type: 'begin', text: largeText(text) }],
    event: (piece) => (piece === '' ? [] : [{ type: 'one', piece }, { type: 'two' }]),
    failed: ({ error: { code } }) => [{ type: 'error', code }, { type: 'failed' }],
    named: true,
  })
  const blocks = (await (await named.get()).text()).split('\n\n')
  t.same(blocks.pop(), '', 'each event ends')
  t.same(
    blocks.map((block) => block.split('\n')),
    [
      ['event: begin', `data: {"type":"begin","text":"${text}"}`],
      ...['a', 'b'].flatMap((piece) => [
        ['event: one', `data: {"type":"one","piece":"${piece}"}`],
        ['event: two', 'data: {"type":"two"}'],
      ]),
      ['event: error', 'data: {"type":"error","code":"UPSTREAM_TIMEOUT"}'],
      ['event: failed', 'data: {"type":"failed"}'],
    ],
  )
  t.ok(await named.finished())
  t.equal(named.context.failure?.code, 'UPSTREAM_TIMEOUT')
})

t.test('a failure is told, and noted; what is not meant for the caller stays inside', async (t) => {
  const known = new GatewayError('UPSTREAM_TIMEOUT')
  const unknown = new Error('secret')
  const rows: [string, Partial<EventStream<string>> & Pick<EventStream<string>, 'deltas'>, string][] = [
    ['of the source', { deltas: texts('a', known) }, 'UPSTREAM_TIMEOUT'],
    ['of the source, unforeseen', { deltas: texts('a', unknown) }, 'INTERNAL'],
    [
      'of the last event',
      {
        deltas: texts('a'),
        done() {
          throw unknown
        },
      },
      'INTERNAL',
    ],
  ]
  for (const [name, given, code] of rows) {
    const stream = await startStream(t, given)
    const events = await eventsOf(await stream.get())
    t.match(events, [{ type: 'delta' }, { type: 'error', error: { code, request_id: /^req_/ } }], name)
    t.equal(events.length, 2)
    t.notMatch(JSON.stringify(events), /secret/)
    t.ok(await stream.finished())
    t.equal(stream.context.failure?.code, code)
  }
})

t.test('a client that leaves ends the source', async (t) => {
  let left = false
  async function* endless(): AsyncGenerator<string, void> {
    try {
      for (;;) {
        yield 'more'
        await sleep(20)
      }
    } finally {
      left = true
    }
  }
  const stream = await startStream(t, { deltas: endless() })
  const leaving = new AbortController()
  await stream.get(leaving.signal)
  leaving.abort()
  t.ok(await waitUntil(() => left))
  t.ok(await stream.finished())
  t.equal(stream.context.failure?.code, 'CLIENT_CLOSED')
})
