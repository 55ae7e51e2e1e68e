import { readFile, writeFile } from 'node:fs/promises'
import fc from 'fast-check'
import t from 'tap'
import type { BodySource } from '../../../src/contracts/audio.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { bodyBytes } from '../../../src/gateway/storage/body-bytes.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createSlotResults } from '../../../src/gateway/storage/kept-texts.ts'
import { tallied, WrittenTally } from '../../../src/gateway/storage/written.ts'
import { tempFolder } from '../../support/scratch.ts'

const signal = new AbortController().signal
const SMALL_BYTES = 64 * 1024

/** A store of one object, in chunks of these sizes, that overwrites a large chunk as soon as it may. */
function storeOf(object: Uint8Array, sizes: readonly number[]) {
  return {
    async get(_: string, start: number, end: number) {
      return (async function* () {
        const lent: Uint8Array[] = []
        for (let at = start, i = 0; at < end; i += 1) {
          const chunk = Uint8Array.from(object.subarray(at, Math.min(at + sizes[i % sizes.length]!, end)))
          at += chunk.length
          if (lent.length === 2) {
            const old = lent.shift()!
            if (old.length >= SMALL_BYTES) old.fill(0xee)
          }
          lent.push(chunk)
          yield chunk
        }
      })()
    },
  }
}

/** Reads as a socket does: a large chunk is in use until the one after the next is asked for, a small one for good. */
async function read(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<Buffer> {
  const bytes: Buffer[] = []
  const small: { view: Uint8Array; copy: Buffer }[] = []
  let previous: { view: Uint8Array; copy: Buffer } | null = null
  for await (const view of chunks) {
    for (const used of [...small, ...(previous === null ? [] : [previous])])
      if (!used.copy.equals(used.view)) throw new Error('overwritten while in use')
    const copy = Buffer.from(view)
    previous = { view, copy }
    if (view.length < SMALL_BYTES) small.push(previous)
    bytes.push(copy)
  }
  return Buffer.concat(bytes)
}

async function writtenOf(object: Uint8Array) {
  const tally = new WrittenTally()
  await read(tallied([object.subarray(0, 1_000), object.subarray(1_000)], tally))
  return tally.written
}

const cases = fc.record({
  bytes: fc.integer({ min: 100, max: 400_000 }),
  /** Of 1,000: where the audio begins and ends. */
  from: fc.integer({ min: 0, max: 200 }),
  to: fc.integer({ min: 800, max: 1_000 }),
  flip: fc.integer({ min: 0, max: 999 }),
  sizes: fc.array(fc.oneof(fc.integer({ min: 1_000, max: 70_000 }), fc.constant(131_072)), {
    minLength: 1,
    maxLength: 4,
  }),
})

t.test('what is read whole is as it was written, or its end is never read', async (t) => {
  await fc.assert(
    fc.asyncProperty(cases, async ({ bytes, from, to, flip, sizes }) => {
      const object = Buffer.alloc(bytes, (from % 200) + 1)
      for (let at = 0; at < bytes; at += 7) object[at] = at % 256
      const source: BodySource = { kind: 'object', key: 'job/a/b/c', written: await writtenOf(object) }
      const [start, end] = [Math.floor((bytes * from) / 1_000), Math.ceil((bytes * to) / 1_000)]
      const whole = object.subarray(start, end)
      const given = await read(bodyBytes(storeOf(object, sizes), source, start, end, signal))
      if (!given.equals(whole)) throw new Error('other bytes')

      const flipped = Buffer.from(object)
      flipped[Math.floor((bytes * flip) / 1_000)]! ^= 1
      let passed = 0
      const reading = (async () => {
        for await (const chunk of bodyBytes(storeOf(flipped, sizes), source, start, end, signal))
          passed += chunk.length
      })()
      const refused = await reading.then(
        () => false,
        (error: { code?: string }) => error.code === 'DEPENDENCY_UNAVAILABLE',
      )
      if (!refused || passed >= whole.length)
        throw new Error(`${passed} of ${whole.length} bytes were passed on`)
    }),
    { numRuns: 150 },
  )
  t.pass()
})

t.test('a small range is read by itself, and compared with nothing', async (t) => {
  const object = Buffer.alloc(300_000, 1)
  const source: BodySource = { kind: 'object', key: 'job/a/b/c', written: await writtenOf(object) }
  object[0] = 2
  t.equal((await read(bodyBytes(storeOf(object, [65_536]), source, 0, 100_000, signal))).length, 100_000)
  await t.rejects(read(bodyBytes(storeOf(object, [65_536]), source, 0, 200_000, signal)), {
    code: 'DEPENDENCY_UNAVAILABLE',
  })
})

t.test('an answer that is not as it was kept is not given', async (t) => {
  const objects = await createFileObjects(await tempFolder(t))
  const results = createSlotResults({ objects, budget: createBudget(64 * 1024 ** 2, 0, systemClock) })
  const text = 'sos '.repeat(10_000)
  const kept = await results.keep('acme', { status: 200, headers: {}, text })
  t.equal((await results.open(kept))?.text, text)
  if (!('object' in kept.body)) throw new Error('it is not in the store')
  const file = objects.fileOf(kept.body.object)!
  const bytes = await readFile(file)
  bytes[1]! ^= 1
  await writeFile(file, bytes)
  await t.rejects(results.open(kept), { code: 'DEPENDENCY_UNAVAILABLE' })
  const { crc32: _, ...former } = kept.body
  t.match((await results.open({ ...kept, body: former }))?.text, 'sns', 'one of the last version is as it is')
})
