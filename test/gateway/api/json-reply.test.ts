import fc from 'fast-check'
import t from 'tap'
import {
  jsonPieces,
  jsonText,
  largeBase64,
  largeList,
  largeMember,
  largeRows,
  largeText,
} from '../../../src/gateway/api/json-reply.ts'
import { prepareAnswer } from '../../../src/gateway/edge/reply.ts'
import { turnsWithin } from '../../support/loop-turns.ts'

/** The bytes of an answer made of the pieces, as they go out, parsed. */
async function sent(value: object): Promise<unknown> {
  const answer = prepareAnswer(
    { status: 200, headers: { 'content-type': 'application/json' }, body: await jsonPieces(value) },
    'req_1',
  )
  const kept: Buffer[] = []
  // A slice is only valid until the next one.
  for (const slice of answer.slices()) kept.push(Buffer.from(slice))
  return JSON.parse(Buffer.concat(kept).toString())
}

t.test('large members come out as what they are', async (t) => {
  const text = `"\\\u0000\u2028${'Grüße 🐦\n'.repeat(40_000)}`
  const rows = Array.from({ length: 300 }, (_, i) =>
    Array.from({ length: 200 }, (_, j) => Math.sin(i * j) / 3),
  )
  const bytes = [Buffer.from('abc'), Buffer.alloc(100_000, 3), Buffer.from('z')]
  t.same(
    await sent({
      first: 'large 00000000-0000-0000-0000-000000000000',
      text: largeText(text),
      list: [{ base64: largeBase64(bytes) }, { base64: largeText('short') }],
      embeddings: largeRows(rows),
      none: largeRows([]),
      one: largeRows([[1, -0.5]]),
      last: null,
    }),
    {
      first: 'large 00000000-0000-0000-0000-000000000000',
      text,
      list: [{ base64: Buffer.concat(bytes).toString('base64') }, { base64: 'short' }],
      embeddings: rows,
      none: [],
      one: [[1, -0.5]],
      last: null,
    },
  )
})

t.test('any text survives, wherever it is cut', async (t) => {
  const pad = fc.nat(6).map((length) => 'x'.repeat(65_536 - 3 + length))
  await fc.assert(
    fc.asyncProperty(pad, fc.string({ unit: 'binary', maxLength: 8 }), async (before, text) => {
      const whole = before + text.toWellFormed()
      t.same(await sent({ whole: largeText(whole) }), { whole })
    }),
    { numRuns: 50 },
  )
})

t.test('a large answer leaves the loop to others', async (t) => {
  const rows = Array.from({ length: 1_000 }, () => Array.from({ length: 1_500 }, Math.random))
  const { turns } = await turnsWithin(() => jsonPieces({ rows: largeRows(rows) }))
  t.ok(turns >= 10, `the loop turned ${turns} times meanwhile`)
})

t.test('long lists come out as they are, and those within their items', async (t) => {
  const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)
  const nested = (count: number) => ({ count, inner: largeList(count, () => numbers(count)), last: true })
  const plain = (count: number) => ({ count, inner: numbers(count), last: true })
  for (const count of [0, 1, 63, 64, 65, 511, 512, 513, 576, 2_000]) {
    const value = {
      list: largeList(count, () => numbers(count)),
      named: largeList(
        count,
        () => numbers(count),
        (index) => ({ index }),
      ),
      // Made of much, and little itself.
      few: largeList(100_000, () => numbers(count)),
      deep: largeList(100_000, () => [nested(count), nested(0), nested(count)]),
      member: largeMember(100_000, () => nested(count)),
      text: largeText('x'.repeat(count * 100)),
    }
    const expected = {
      list: numbers(count),
      named: numbers(count).map((index) => ({ index })),
      few: numbers(count),
      deep: [plain(count), plain(0), plain(count)],
      member: plain(count),
      text: 'x'.repeat(count * 100),
    }
    t.equal(await jsonText(value), JSON.stringify(expected), `${count} items`)
  }
  t.equal(jsonText({ list: largeList(2, () => [1, 2]) }), '{"list":[1,2]}', 'a short one at once')
})
