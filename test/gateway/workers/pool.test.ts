import { createHash, randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { speechForm } from '../../../src/gateway/media/speech-form.ts'
import { createWorkers, HASH_OFFLOAD_BYTES, OFFLOAD_BYTES } from '../../../src/gateway/workers/pool.ts'

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

t.test(
  'a task for which no thread can be started is refused, and no later thread runs it',
  async (t: Test) => {
    const threads: { Worker: unknown } = createRequire(import.meta.url)('node:worker_threads')
    const { Worker } = threads
    const restore = () => {
      threads.Worker = Worker
    }
    t.teardown(restore)
    threads.Worker = class {
      constructor() {
        throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
      }
    }
    const { decoder, encoders, close } = createWorkers()
    t.teardown(close)
    const text = shared(ascii(Buffer.alloc(OFFLOAD_BYTES, 'a').toString('base64')))
    const out = shared(OFFLOAD_BYTES)
    await t.rejects(async () => decoder.decode(text, out), {
      code: 'OVERLOADED',
      message: 'no thread can be started',
    })
    const encoder = encoders.begin(null, speechForm('mp3_24000_48')!)
    await t.rejects(encoder.end(), { code: 'OVERLOADED' })
    encoder.close()
    restore()

    // Its memory is another's from here on.
    out.fill(0x62)
    t.equal(await decoder.decode(text, shared(OFFLOAD_BYTES)), OFFLOAD_BYTES)
    t.ok(out.every((byte) => byte === 0x62))
  },
)

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

/** SHA-256 of each MiB. */
function leavesOf(audio: Buffer): Buffer {
  const leaves: Buffer[] = []
  for (let at = 0; at < audio.length; at += MIB)
    leaves.push(
      createHash('sha256')
        .update(audio.subarray(at, at + MIB))
        .digest(),
    )
  return Buffer.concat(leaves)
}

const same = (hashes: Uint8Array, expected: Buffer) => Buffer.compare(hashes, expected) === 0

t.test('hashes bytes and text leaf by leaf, here or in a thread', async (t: Test) => {
  const { hasher, close } = createWorkers()
  t.teardown(close)
  for (const length of [
    0,
    1,
    49_153,
    HASH_OFFLOAD_BYTES - 1,
    HASH_OFFLOAD_BYTES,
    MIB - 1,
    MIB,
    3 * MIB + 7,
  ]) {
    const audio = randomBytes(length)
    const expected = leavesOf(audio)
    for (const encoding of ['identity', 'base64'] as const) {
      const bytes = encoding === 'identity' ? audio : ascii(audio.toString('base64'))
      for (const input of [bytes, shared(bytes)]) {
        const answer = hasher.hash([input], encoding)
        const offloaded = input.buffer instanceof SharedArrayBuffer && input.length >= HASH_OFFLOAD_BYTES
        t.equal(answer instanceof Promise, offloaded, `${length} bytes, ${encoding}: who hashes`)
        t.ok(same(await answer, expected))
      }
    }
  }
})

t.test('views that are cut anywhere hash as one', async (t: Test) => {
  const { hasher, close } = createWorkers()
  t.teardown(close)
  const audio = randomBytes(MIB + 100_001)
  const expected = leavesOf(audio)
  const text = shared(ascii(audio.toString('base64')))
  const bytes = shared(audio)
  const cuts = fc.array(
    fc.oneof(
      fc.nat({ max: text.length }),
      fc.nat({ max: 9 }),
      fc.nat({ max: 9 }).map((n) => MIB - n),
    ),
    { maxLength: 12 },
  )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('identity', 'base64'), cuts, async (encoding, cuts) => {
      const whole = encoding === 'identity' ? bytes : text
      const ends = [...cuts, whole.length].map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b)
      const views = ends.map((end, i) => whole.subarray(ends[i - 1] ?? 0, end))
      return same(await hasher.hash(views, encoding), expected)
    }),
    { numRuns: 60 },
  )
  const hashing = hasher.begin()
  for (let at = 0; at < audio.length; at += 70_001) hashing.update(audio.subarray(at, at + 70_001))
  t.ok(same(hashing.finish(), expected))
})

t.test('text that is no base64 has no hash, here or in a thread', async (t: Test) => {
  const { hasher, close } = createWorkers()
  t.teardown(close)
  for (const length of [1_000, 300_000]) {
    const text = shared(ascii(randomBytes(length).toString('base64')))
    text[500] = 0x20
    await t.rejects(async () => hasher.hash([text], 'base64'), { message: /no base64/ })
    await t.rejects(async () => hasher.hash([text.subarray(0, 400), text.subarray(501, 503)], 'base64'), {
      message: /no base64/,
    })
  }
})
