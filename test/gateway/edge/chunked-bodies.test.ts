import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { ChunkedBodies } from '../../../src/gateway/edge/chunk-framing.ts'
import type { Exchange } from '../../../src/gateway/edge/exchange.ts'
import { startEdge } from '../../support/edge.ts'
import { RawClient } from '../../support/raw-client.ts'
import { bytesOf } from './framing-vectors.ts'

/** How long an answer is made that is not there at once: until what follows the request has been read. */
const ANSWER_MS = 40

/** Times in a row that segments may be joined. */
const JOINED_MAX = 5

/** The edge with a route that answers how many bytes it was sent. */
async function startCounting(t: Test, chunked?: ChunkedBodies, answerMs = 0): Promise<number> {
  const handle = (exchange: Exchange) =>
    exchange.body.consume({
      onChunk: async (_, last) => {
        if (!last) return
        if (answerMs > 0) await sleep(answerMs)
        exchange.reply({ status: 200, body: `${exchange.receivedBytes}` })
      },
      onError: (error) => exchange.replyError(error),
    })
  const routes = [{ method: 'POST', path: '/', handle }] as const
  return (await startEdge(t, routes, chunked === undefined ? {} : { chunked })).port
}

/** Status and body of what a request in segments is answered. */
async function answerTo(port: number, ...segments: string[]): Promise<string> {
  const client = await RawClient.connect(port)
  await client.send(...segments.map(bytesOf))
  const { status, body } = (await client.response()) ?? { status: 0, body: '' }
  client.destroy()
  return status === 200 ? `${status} ${body}` : `${status} ${JSON.parse(`${body}`).error.code}`
}

/** The same of segments that have to come apart, which the kernel joins now and then. */
async function answerApart(port: number, expected: string, segments: readonly string[]): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    const answer = await answerTo(port, ...segments)
    if (answer === expected || tries === JOINED_MAX) return answer
  }
}

/** A body in segments, and what becomes of it strictly and otherwise. */
const BODIES: Readonly<Record<string, readonly [segments: string[], strict: string, seen: string]>> = {
  'is whole': [['C¹ 5⏎hello⏎0⏎⏎'], '200 5', '200 5'],
  'has chunks in segments': [['C¹ ', '5⏎hello⏎', '2⏎ab⏎', '0⏎⏎'], '200 7', '200 7'],
  'has line ends in segments': [['C¹ ', '5⏎hello', '⏎', '2⏎ab', '⏎', '0⏎⏎'], '200 7', '200 7'],
  'has a size in two segments': [['C¹ 5⏎hello⏎1', '0⏎0123456789abcdef⏎0⏎⏎'], '200 21', '200 21'],
  'has a line end in two segments': [['C¹ 5⏎hello\r', '\n2⏎ab⏎0⏎⏎'], '200 7', '200 7'],
  'has a line of its own': [['C¹ ', '5⏎', 'hello⏎0⏎⏎'], '400 INVALID_REQUEST', '200 5'],
  'has an extension of its own': [
    ['C¹ ', '2;c⏎', `${'a'.repeat(700)}⏎0⏎⏎`],
    '400 INVALID_REQUEST',
    '200 700',
  ],
  'has an extension in two segments': [
    ['C¹ 5⏎hello⏎2;', `c⏎${'a'.repeat(700)}⏎0⏎⏎`],
    '400 INVALID_REQUEST',
    '200 705',
  ],
}

t.test('a body is taken strictly where every size was seen before its data', async (t) => {
  const strict = await startCounting(t, 'strict')
  const seen = await startCounting(t, 'seen')
  const refuse = await startCounting(t, 'refuse')
  for (const [name, [segments, strictly, otherwise]] of Object.entries(BODIES)) {
    t.equal(await answerApart(strict, strictly, segments), strictly, `${name}, strict`)
    t.equal(await answerApart(seen, otherwise, segments), otherwise, `${name}, seen`)
    t.equal(await answerTo(refuse, ...segments), '411 LENGTH_REQUIRED', `${name}, refuse`)
  }
  t.equal(await answerTo(refuse, 'P¹ CL: 5⏎⏎hello'), '200 5', 'a length is taken everywhere')
})

t.test('trailers do not take the answer with them, at once or later', async (t) => {
  for (const answerMs of [0, ANSWER_MS]) {
    const port = await startCounting(t, 'strict', answerMs)
    t.equal(await answerTo(port, 'C¹ 5⏎hello⏎0⏎X: y⏎⏎'), '200 5', `${answerMs} ms`)
    t.equal(
      await answerTo(port, 'C¹ ', '5⏎hello⏎', '0⏎X: y⏎⏎'),
      '200 5',
      `${answerMs} ms, with the last chunk`,
    )
    t.equal(await answerTo(port, 'C¹ 5⏎hello⏎0⏎', '⏎'), '200 5', `${answerMs} ms, without one`)
    t.equal(await answerTo(port, 'C¹ 5⏎hello⏎0⏎X: y⏎', '⏎'), '200 5', `${answerMs} ms, in two segments`)
  }
})

t.test('a trailer that comes later than the last chunk is ignored where the answer is out', async (t) => {
  const port = await startCounting(t)
  t.equal(await answerTo(port, 'C¹ 5⏎hello⏎0⏎', 'X: y⏎⏎'), '200 5')
})
