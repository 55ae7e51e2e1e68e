import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { createWorkers, OFFLOAD_BYTES } from '../../src/workers/pool.ts'

const MIB = 1024 * 1024

function shared(bytes: Uint8Array | number): Uint8Array<SharedArrayBuffer> {
  const length = typeof bytes === 'number' ? bytes : bytes.length
  const view = new Uint8Array(new SharedArrayBuffer(length + 8), 4, length)
  if (typeof bytes !== 'number') view.set(bytes)
  return view
}

const ascii = (text: string) => Buffer.from(text, 'latin1')

t.test('decodes what was encoded, at every length around the slices and the threshold', async (t: Test) => {
  const { decoder, close } = createWorkers()
  t.teardown(close)
  const lengths = [0, 1, 2, 3, 4, 49_151, 49_152, 49_153, MIB, (OFFLOAD_BYTES / 4) * 3, 3 * MIB + 2]
  for (const length of lengths) {
    const bytes = randomBytes(length)
    const text = ascii(bytes.toString('base64'))
    for (const [input, out] of [
      [text, Buffer.alloc(length)],
      [shared(text), shared(length)],
    ] as const) {
      const answer = decoder.decode(input, out)
      const shares = input.buffer instanceof SharedArrayBuffer
      t.equal(
        answer instanceof Promise,
        shares && text.length >= OFFLOAD_BYTES,
        `${length} bytes: who decodes`,
      )
      t.equal(await answer, length)
      t.ok(bytes.equals(out))
    }
  }
})

t.test('agrees with the definition of base64 on arbitrary text', async (t: Test) => {
  const { decoder, close } = createWorkers()
  t.teardown(close)
  const chars = fc.constantFrom(...'AZaz09+/==  \n\\"-_é'.split(''))
  const text = fc.oneof(fc.string({ unit: chars, maxLength: 24 }), fc.base64String({ maxLength: 64 }))
  fc.assert(
    fc.property(text, (text) => {
      const out = Buffer.alloc(64)
      const written = decoder.decode(ascii(text), out) as number
      const valid = /^(?:[\w+/-]{4})*(?:[\w+/-]{2}==|[\w+/-]{3}=)?$/.test(text)
      if (!valid) return written === -1
      return written >= 0 && out.subarray(0, written).equals(Buffer.from(text, 'base64'))
    }),
    { numRuns: 2_000 },
  )
})

t.test('one wrong character anywhere is found, by a worker too', async (t: Test) => {
  const { decoder, close } = createWorkers()
  t.teardown(close)
  const text = shared(ascii(randomBytes(MIB).toString('base64')))
  const out = shared(MIB)
  t.equal(await decoder.decode(text, out), MIB)
  for (const at of [0, 1, 65_535, 65_536, text.length - 5, text.length - 1]) {
    const before = text[at]!
    for (const wrong of ' ."\u0000\u00ff=') {
      if (at === text.length - 1 && wrong === '=') continue
      text[at] = wrong.charCodeAt(0)
      t.equal(await decoder.decode(text, out), -1, `${JSON.stringify(wrong)} at ${at}`)
    }
    text[at] = before
  }
})

t.test('an output that is too short is an answer, not a cut', async (t: Test) => {
  const { decoder, close } = createWorkers()
  t.teardown(close)
  t.equal(decoder.decode(ascii('AAAA'), Buffer.alloc(2)), -1)
})

t.test('many at once, each into its own memory', async (t: Test) => {
  const { decoder, close } = createWorkers()
  t.teardown(close)
  const bodies = Array.from({ length: 20 }, () => randomBytes(MIB))
  const outs = bodies.map(() => shared(MIB))
  const answers = bodies.map((body, i) => decoder.decode(shared(ascii(body.toString('base64'))), outs[i]!))
  t.same(
    await Promise.all(answers),
    bodies.map(() => MIB),
  )
  t.ok(bodies.every((body, i) => body.equals(outs[i]!)))
})
