import t from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { Target } from '../../../src/contracts/provider.ts'
import { nextTurn, systemClock } from '../../../src/contracts/time.ts'
import { inOwnTurn, parseInTurns } from '../../../src/gateway/call/attempt/large-answer.ts'
import { type AttemptOptions, runOperation } from '../../../src/gateway/call/attempt/operation.ts'

const STEP = { request: { method: 'POST', url: 'http://127.0.0.1:1/', headers: {} }, state: null } as const
const KIB = 1024

for (const [what, bytes, steps, most] of [
  ['large answers that come together are parsed in a turn each', 256 * KIB, 1, 1],
  ['also as a later step', 256 * KIB, 2, 1],
  ['small ones are not kept waiting', 255 * KIB, 1, 3],
] as const)
  t.test(what, async (t) => {
    let turn = 0
    let isOver = false
    const counting = (async () => {
      for (; !isOver; turn += 1) await nextTurn()
    })()
    const parsedIn: number[] = []
    const operation = {
      start: () => ({ kind: 'send', ...STEP, state: steps }) as const,
      next(left: unknown) {
        parsedIn.push(turn)
        const step = Number(left) - 1
        return step > 0
          ? ({ kind: 'send', ...STEP, state: step } as const)
          : ({ kind: 'done', result: turn } as const)
      },
    }
    const reply = { status: 200, headers: {}, body: [new Uint8Array(bytes - 1), new Uint8Array(1)] }
    const options: AttemptOptions = {
      send: async () => reply,
      clock: systemClock,
      signal: new Cancellation(),
      traceContext: undefined,
      deadlineAtMs: systemClock.now() + 60_000,
      memory: { held: () => 0, charge: () => {}, release: () => {}, turn: () => null },
      checkpoint: null,
    }
    const runs = Array.from({ length: 3 }, () =>
      runOperation(operation as never, null, {} as Target, options),
    )
    for (const end of await Promise.all(runs)) t.ok('result' in end)
    isOver = true
    await counting
    t.equal(parsedIn.length, 3 * steps)
    const counts = parsedIn.map((one) => parsedIn.filter((other) => other === one).length)
    t.equal(Math.max(...counts), most)
  })

const bytesOf = (text: string) => [Buffer.from(text)]

/** What the platform makes of a text; null: it is no JSON. */
function parsedAtOnce(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const WORDS = Array.from({ length: 6_000 }, (_, at) => ({
  word: ['"[{]}\\', 'слово', 'w', '\u{1f600}\\"'][at % 4],
  at: [at / 3, [-at, 1e-7, null, true], {}, []],
}))
/** Long arrays at several depths, in one another and beside one another, with what only looks like structure. */
const LARGE = {
  words: WORDS,
  deep: [{ alternatives: [{ words: WORDS, text: '[{"'.repeat(40_000) }, { words: [] }] }, WORDS, [WORDS, 1]],
  vectors: Array.from({ length: 40 }, (_, row) => Array.from({ length: 900 }, (_, at) => at / 7 + row)),
  texts: ['place 0', ...WORDS.map(({ word }) => word)],
  ['__proto__']: WORDS.slice(0, 9),
}

t.test('JSON that is parsed in turns is what it is when it is parsed at once', async (t) => {
  for (const text of [
    JSON.stringify(LARGE),
    JSON.stringify(LARGE, null, 1),
    `\n ${JSON.stringify(LARGE.deep)}\t`,
    JSON.stringify('"'.repeat(200_000)),
    '[[],[]]',
    '7',
  ]) {
    const whole = await parseInTurns(bytesOf(text))
    t.ok(JSON.stringify(whole) === JSON.stringify(JSON.parse(text)), text.slice(0, 20))
  }
  const bytes = Buffer.from(JSON.stringify(LARGE))
  const pieces = Array.from({ length: 99 }, (_, at) =>
    bytes.subarray((at * bytes.length) / 99, ((at + 1) * bytes.length) / 99),
  )
  t.ok(JSON.stringify(await parseInTurns(pieces)) === bytes.toString(), 'in pieces')
})

t.test('and what is no JSON at once is none in turns', async (t) => {
  const items = `${'{"a":[1]},'.repeat(9_000)}{"a":[]}`
  const good = `{"b":[${items}],"c":"d"}`
  t.not(parsedAtOnce(good), null)
  // Ends of items around the first piece that is parsed, the end of the array, and the rest.
  const ends = [65_530, 65_540, 65_550].map((from) => good.indexOf(',{', from))
  const places = [0, ends[0]! - 1, ends[0]! + 1, ...ends, ...[10, 9, 8, 0].map((back) => good.length - back)]
  const puts = [...'[]{},"\\.5e ', '.5', 'e5', ',,', '}]', '],[', '},{', 'null', ':1']
  for (const [at, put] of places.flatMap((at) => puts.map((put) => [at, put] as const))) {
    const added = good.slice(0, at) + put + good.slice(at)
    const changed = good.slice(0, at) + put + good.slice(at + put.length)
    for (const text of [added, changed])
      t.ok(
        JSON.stringify(await parseInTurns(bytesOf(text))) === JSON.stringify(parsedAtOnce(text)),
        `${put} at ${at}`,
      )
  }
  for (const at of places.slice(0, -1)) t.equal(await parseInTurns(bytesOf(good.slice(0, at))), null)
  t.equal(await parseInTurns(bytesOf('['.repeat(20_000) + ']'.repeat(20_000))), null)
  t.equal(await parseInTurns([]), null)
})

t.test('a batch of embeddings leaves turns to others while it is parsed', async (t) => {
  const row = JSON.stringify({ embedding: Array.from({ length: 1_536 }, (_, at) => at / 7) })
  const body = bytesOf(`{"data":[${Array.from({ length: 400 }, () => row).join(',')}]}`)
  let turns = 0
  let isOver = false
  const counting = (async () => {
    for (; !isOver; turns += 1) await nextTurn()
  })()
  const { json } = await inOwnTurn({ status: 200, headers: { 'content-type': 'application/json' }, body })
  isOver = true
  await counting
  t.equal((json as { data: unknown[] }).data.length, 400)
  t.ok(turns >= 10, `${turns} turns`)
  const audio = await inOwnTurn({ status: 200, headers: { 'content-type': 'audio/mpeg' }, body })
  t.notOk('json' in audio, 'what does not say that it is JSON is not parsed')
})
