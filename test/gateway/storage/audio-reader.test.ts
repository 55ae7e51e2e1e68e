import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { AudioRef } from '../../../src/contracts/audio.ts'
import type { Base64Decoder } from '../../../src/contracts/media.ts'
import { createAudioReader } from '../../../src/gateway/storage/audio-reader.ts'
import { createWorkers } from '../../../src/gateway/workers/pool.ts'
import { createRig, MIB, noise, store } from './rig.ts'
import { SPELLINGS } from './spellings.ts'

const signal = new AbortController().signal
const MIN_CHUNK = 64 * 1024

interface Sample {
  readonly audio: Buffer
  readonly ref: AudioRef
  readonly release: () => void
}

async function sampleOf(
  t: Test,
  rig: Awaited<ReturnType<typeof createRig>>,
  {
    bytes,
    spelling,
    offset,
    tier,
  }: { bytes: number; spelling: string; offset: number; tier: 'memory' | 'object' },
): Promise<Sample> {
  const audio = noise(bytes)
  const spell = SPELLINGS[spelling]
  const stored = spell === undefined ? audio : Buffer.from(spell(audio.toString('base64')), 'latin1')
  const body = Buffer.concat([noise(offset), stored, noise(11)])
  if (tier === 'object') rig.budget.charge(rig.budget.limit + 1)
  const whole = await store(rig.open(body.length), body)
  if (tier === 'object') rig.budget.refund(rig.budget.limit + 1)
  t.equal(whole.source.kind, tier)
  const ref: AudioRef = {
    source: whole.source,
    offset,
    length: stored.length,
    encoding: spell === undefined ? 'identity' : 'base64',
    decodedBytes: bytes,
    canonical: spelling === 'canonical' || spell === undefined,
    mediaType: null,
    filename: null,
  }
  return { audio, ref, release: () => whole.release() }
}

/** Reads as a socket does: a chunk is used until the one after the next is asked for. */
async function drain(chunks: AsyncGenerator<Uint8Array>): Promise<{ bytes: Buffer; sizes: number[] }> {
  const copies: Buffer[] = []
  const inUse: { view: Uint8Array; copy: Buffer }[] = []
  for await (const view of chunks) {
    for (const chunk of inUse) if (!chunk.copy.equals(chunk.view)) throw new Error('overwritten while in use')
    const copy = Buffer.from(view)
    copies.push(copy)
    inUse.push({ view, copy })
    if (inUse.length > 1) inUse.shift()
    await new Promise(setImmediate)
  }
  for (const { view, copy } of inUse) if (!copy.equals(view)) throw new Error('overwritten after the end')
  return { bytes: Buffer.concat(copies), sizes: copies.map(({ length }) => length) }
}

const SIZES = [1, 2, 3, 1_000, MIN_CHUNK, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]
const OFFSETS = [0, 1, 3, MIB - 1, MIB - 70_000]

t.test('reads every spelling out of memory and store', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  for (const tier of ['memory', 'object'] as const) {
    const rig = await createRig(t)
    const reader = createAudioReader({ objects: rig.objects, decoder: workers.decoder, memory: rig })
    for (const spelling of ['identity', ...Object.keys(SPELLINGS)]) {
      for (const [i, bytes] of SIZES.entries()) {
        const offset = OFFSETS[i % OFFSETS.length]!
        const sample = await sampleOf(t, rig, { bytes, spelling, offset, tier })
        const name = `${tier}, ${spelling}, ${bytes} bytes at ${offset}`
        const plain = await drain(reader.bytes(sample.ref, signal))
        t.ok(plain.bytes.equals(sample.audio), name)
        t.ok(
          plain.sizes.slice(0, -1).every((size) => size >= MIN_CHUNK),
          'chunk sizes',
        )
        const text = await drain(reader.base64(sample.ref, signal))
        t.equal(text.bytes.toString('latin1'), sample.audio.toString('base64'), `${name}, as base64`)
        t.ok(
          text.sizes.slice(0, -1).every((size) => size >= MIN_CHUNK),
          'chunk sizes',
        )
        sample.release()
      }
    }
    t.equal(rig.budget.used, 0)
  }
})

t.test('25 MiB of base64, decoded by workers while it is read', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const rig = await createRig(t)
  const reader = createAudioReader({ objects: rig.objects, decoder: workers.decoder, memory: rig })
  const sample = await sampleOf(t, rig, {
    bytes: 25 * MIB,
    spelling: 'canonical',
    offset: 37,
    tier: 'memory',
  })
  const reads = await Promise.all([1, 2, 3].map(() => drain(reader.bytes(sample.ref, signal))))
  for (const { bytes } of reads) t.ok(bytes.equals(sample.audio))
  sample.release()
  t.equal(rig.budget.used, 0)
})

t.test('ranges equal the slice of the whole, wherever they begin and end', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const rig = await createRig(t)
  const reader = createAudioReader({ objects: rig.objects, decoder: workers.decoder, memory: rig })
  for (const tier of ['memory', 'object'] as const) {
    for (const spelling of ['identity', 'canonical', 'line breaks escaped']) {
      const sample = await sampleOf(t, rig, { bytes: 2 * MIB + 5, spelling, offset: MIB - 3, tier })
      const edge = fc.oneof(
        fc.integer({ min: -2, max: 2 * MIB + 20 }),
        fc.constantFrom(0, 1, 2, 3, MIB, 2 * MIB + 4, 2 * MIB + 5),
      )
      await fc.assert(
        fc.asyncProperty(edge, edge, async (start, end) => {
          const range = await reader.range(sample.ref, start, end, signal)
          const expected = sample.audio.subarray(Math.max(0, start), Math.max(0, end))
          return Buffer.compare(range, start < end ? expected : Buffer.alloc(0)) === 0
        }),
        { numRuns: 40 },
      )
      t.pass(`${tier}, ${spelling}`)
      sample.release()
    }
  }
})

t.test('any short audio in any spelling, cut at any place by the blocks', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const rig = await createRig(t)
  const reader = createAudioReader({ objects: rig.objects, decoder: workers.decoder, memory: rig })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 400 }),
      fc.constantFrom(...Object.keys(SPELLINGS)),
      fc.integer({ min: MIB - 300, max: MIB + 3 }),
      async (bytes, spelling, offset) => {
        const sample = await sampleOf(t, rig, { bytes, spelling, offset, tier: 'memory' })
        const { bytes: read } = await drain(reader.bytes(sample.ref, signal))
        sample.release()
        return read.equals(sample.audio)
      },
    ),
    { numRuns: 60 },
  )
})

t.test('a read that is left early waits for its worker and keeps its memory from others', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  let working = 0
  const decoder: Base64Decoder = {
    async decode(text, out) {
      working += 1
      try {
        return await workers.decoder.decode(text, out)
      } finally {
        working -= 1
      }
    },
  }
  const rig = await createRig(t)
  const reader = createAudioReader({ objects: rig.objects, decoder, memory: rig })
  const sample = await sampleOf(t, rig, { bytes: 6 * MIB, spelling: 'canonical', offset: 0, tier: 'memory' })
  const held = rig.budget.used
  for (let chunks = 1; chunks < 12; chunks += 1) {
    const read = reader.bytes(sample.ref, signal)
    let last: Uint8Array = new Uint8Array(0)
    for (let i = 0; i < chunks; i += 1) last = (await read.next()).value as Uint8Array
    const copy = Buffer.from(last)
    await read.return(undefined)
    t.equal(working, 0, 'no worker writes any more')
    t.ok(rig.budget.used >= held + 2 * MIB, 'what a socket may be sending is still charged')
    // The memory of the next readers, all of it written to.
    const others = [1, 2, 3].map(() => rig.blocks.take(MIB))
    for (const block of others) block.fill(0xee)
    t.ok(copy.equals(last), 'the chunk is still what a socket may be sending')
    for (const block of others) rig.blocks.give(block)
  }
  for (let left = 100; left > 0 && rig.budget.used > held; left -= 1) await sleep(50)
  t.equal(rig.budget.used, held, 'and some time later it is not')
  sample.release()
})

t.test('an aborted read ends with the reason of its signal', async (t: Test) => {
  const workers = createWorkers()
  t.teardown(() => workers.close())
  const rig = await createRig(t)
  const reader = createAudioReader({ objects: rig.objects, decoder: workers.decoder, memory: rig })
  for (const tier of ['memory', 'object'] as const) {
    for (const spelling of ['identity', 'canonical']) {
      const sample = await sampleOf(t, rig, { bytes: 4 * MIB, spelling, offset: 0, tier })
      const controller = new AbortController()
      const reason = new Error('the client left')
      const read = reader.bytes(sample.ref, controller.signal)
      await read.next()
      controller.abort(reason)
      await t.rejects(read.next(), reason)
      await t.rejects(reader.range(sample.ref, 0, 10, controller.signal), reason)
      sample.release()
    }
  }
})
