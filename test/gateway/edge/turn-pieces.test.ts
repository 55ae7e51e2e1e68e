import t from 'tap'
import { ImmediateBatch } from '../../../src/gateway/edge/immediate-batch.ts'
import { TurnPieces } from '../../../src/gateway/edge/turn-pieces.ts'

type Piece = string | Uint8Array

/** A source that answers as it is told to, and counts how often it was asked. */
class Source implements AsyncIterator<Piece, unknown> {
  asked = 0
  left = 0
  readonly #open: PromiseWithResolvers<IteratorResult<Piece, unknown>>[] = []
  readonly #answers: Promise<IteratorResult<Piece, unknown>>[] = []

  next() {
    this.asked += 1
    const answer = this.#answers.shift()
    if (answer !== undefined) return answer
    const open = Promise.withResolvers<IteratorResult<Piece, unknown>>()
    this.#open.push(open)
    return open.promise
  }

  async return() {
    this.left += 1
    return { value: undefined, done: true as const }
  }

  give(...pieces: Piece[]): void {
    for (const value of pieces) this.#answer(Promise.resolve({ value, done: false }))
  }

  end(): void {
    this.#answer(Promise.resolve({ value: undefined, done: true }))
  }

  fail(): void {
    const failed = Promise.reject(new RangeError('broken'))
    failed.catch(() => {})
    this.#answer(failed)
  }

  #answer(answer: Promise<IteratorResult<Piece, unknown>>): void {
    const open = this.#open.shift()
    if (open === undefined) this.#answers.push(answer)
    else open.resolve(answer)
  }
}

const turn = () => new Promise(setImmediate)

function start() {
  const source = new Source()
  return { source, pieces: new TurnPieces(source, new ImmediateBatch()) }
}

t.test('pieces of one turn come together, those of the next apart', async (t) => {
  const { source, pieces } = start()
  source.give('a', 'b', 'c')
  t.same(await pieces.next(), { value: 'abc', done: false })
  const later = pieces.next()
  await turn()
  source.give('d')
  t.same(await later, { value: 'd', done: false })
  const mixed = pieces.next()
  source.give('e', Buffer.from('f'), 'g')
  t.same(Buffer.from((await mixed).value as Uint8Array).toString(), 'efg')
})

t.test('it asks for one piece ahead of a reader that does not come back', async (t) => {
  const { source, pieces } = start()
  source.give('a')
  await pieces.next()
  t.equal(source.asked, 2)
  source.give('b', 'c', 'd')
  await turn()
  t.equal(source.asked, 2, 'b is held, and no other')
  t.same(await pieces.next(), { value: 'bcd', done: false })
})

t.test('a large piece does not wait, nor is another one asked for', async (t) => {
  const { source, pieces } = start()
  const large = Buffer.alloc(16_384, 'x')
  source.give(large, 'b')
  let isHere = false
  void pieces.next().then(({ value }) => (isHere = value === large))
  for (let ticks = 0; ticks < 20 && !isHere; ticks += 1) await null
  t.ok(isHere, 'before the turn is over')
  t.equal(source.asked, 1)
})

t.test('a source may overwrite a large piece when it is asked for more', async (t) => {
  const sizes = [10, 3_000, 16_384, 100, 16_383, 40_000, 1, 2, 3]
  const block = Buffer.alloc(40_000)
  async function* overwriting() {
    for (const [index, size] of sizes.entries()) {
      yield size < 16_384 ? Buffer.alloc(size, index) : block.fill(index, 0, size).subarray(0, size)
      block.fill(255)
    }
  }
  const pieces = new TurnPieces(overwriting(), new ImmediateBatch())
  const taken: Buffer[] = []
  for (let step = await pieces.next(); !step.done; step = await pieces.next()) {
    await turn()
    taken.push(Buffer.from(step.value as Uint8Array))
  }
  t.same(Buffer.concat(taken), Buffer.concat(sizes.map((size, index) => Buffer.alloc(size, index))))
  t.ok(taken.length < sizes.length, 'small ones were joined')
})

t.test('the end and a failure come after what came before them', async (t) => {
  const { source, pieces } = start()
  source.give('a')
  source.end()
  t.same(await pieces.next(), { value: 'a', done: false })
  t.same(await pieces.next(), { value: undefined, done: true })

  const broken = start()
  broken.source.give('a', 'b')
  broken.source.fail()
  t.same(await broken.pieces.next(), { value: 'ab', done: false })
  await t.rejects(broken.pieces.next(), { message: 'broken' })
})

t.test('a failure that no reader has come for yet crashes nothing', async (t) => {
  const { source, pieces } = start()
  source.give('a')
  await pieces.next()
  source.fail()
  await turn()
  await t.rejects(pieces.next(), { message: 'broken' })
  await pieces.return()
  t.equal(source.left, 1)
})
