import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { AudioRef } from '../../../src/contracts/audio.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { LeafHasher } from '../../../src/contracts/media.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { createAudioDigester } from '../../../src/gateway/storage/audio-digest.ts'
import { createAudioReader } from '../../../src/gateway/storage/audio-reader.ts'
import { createWorkers, type Workers } from '../../../src/gateway/workers/pool.ts'
import { digestOf } from '../../support/digests.ts'
import { turnsWithin } from '../../support/loop-turns.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { createRig, MIB, noise, type RigOptions, store } from './rig.ts'
import { SPELLINGS } from './spellings.ts'

const { signal } = new AbortController()
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()

type Tier = 'memory' | 'object'
const TIERS: readonly Tier[] = ['memory', 'object']
const FORMS = ['identity', ...Object.keys(SPELLINGS)]

let workers: Workers
t.before(() => {
  workers = createWorkers()
})
t.after(() => workers.close())

/** A digester over a real spool and store; `hasher` and `objects` may be watched or broken. */
async function start(
  t: Test,
  { hasher = workers.hasher, ...options }: RigOptions & { hasher?: LeafHasher } = {},
) {
  const rig = await createRig(t, options)
  const { decoder } = workers
  const reader = createAudioReader({ objects: rig.objects, decoder, memory: rig })
  const { blocks, budget } = rig
  const digester = createAudioDigester({ reader, hasher, blocks, budget })

  /** Puts `audio` into a body, `offset` bytes after its beginning. */
  async function keep(audio: Buffer, form: string, tier: Tier, offset = 0) {
    const text = asText(audio, form)
    const body = Buffer.concat([noise(offset), text, noise(11)])
    // An overdrawn budget sends the body to the store.
    if (tier === 'object') budget.charge(budget.limit + 1)
    const { source, release } = await store(rig.open(body.length), body)
    if (tier === 'object') budget.refund(budget.limit + 1)
    if (source.kind !== tier) throw new Error(`kept in ${source.kind}`)
    const identity = form === 'identity'
    const ref: AudioRef = {
      source,
      offset,
      length: text.length,
      encoding: identity ? 'identity' : 'base64',
      decodedBytes: audio.length,
      canonical: identity || form === 'canonical',
      mediaType: null,
      filename: null,
    }
    return { ref, release }
  }
  return { ...rig, digester, keep }
}

function asText(audio: Buffer, form: string): Buffer {
  const spell = SPELLINGS[form]
  return spell === undefined ? audio : Buffer.from(spell(audio.toString('base64')), 'latin1')
}

const SIZES = [1, 2, 3, 64 * 1024 - 1, 64 * 1024, 200_000, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]
const OFFSETS = [0, 1, 3, MIB - 1, MIB - 70_000]

t.test('the same audio has one digest, in every form and wherever it rests', async (t: Test) => {
  const { digester, keep, budget } = await start(t)
  for (const [i, size] of SIZES.entries()) {
    const audio = noise(size)
    const expected = digestOf(audio)
    for (const tier of TIERS) {
      for (const form of FORMS) {
        const { ref, release } = await keep(audio, form, tier, OFFSETS[i % OFFSETS.length])
        t.equal(await digester.digest(ref, signal), expected, `${size} bytes, ${form}, ${tier}`)
        release()
      }
    }
  }
  t.equal(budget.used, 0)
})

t.test('as it passes, cut anywhere, it has the same one', async (t: Test) => {
  const { digester } = await start(t)
  for (const size of SIZES) {
    const audio = noise(size)
    const expected = digestOf(audio)
    for (const form of FORMS) {
      const text = asText(audio, form)
      const encoding = form === 'identity' ? 'identity' : 'base64'
      for (const chunk of [text.length, 65_537, 4_096 + (size % 5)]) {
        const passing = digester.passing()
        const view = Buffer.alloc(chunk)
        for (let at = 0; at < text.length; at += chunk) {
          const length = text.copy(view, 0, at)
          passing.take(view.subarray(0, length), encoding)
          view.fill(0x2a)
        }
        t.equal(passing.finish(), expected, `${size} bytes, ${form}, in chunks of ${chunk}`)
      }
    }
  }
})

t.test('nothing at all has a digest too', async (t: Test) => {
  const { digester, keep } = await start(t)
  const empty = sha256(Buffer.alloc(0)).toString('hex')
  t.equal(digester.passing().finish(), empty)
  for (const tier of TIERS) {
    const { ref, release } = await keep(Buffer.alloc(0), 'identity', tier)
    t.equal(await digester.digest(ref, signal), empty)
    release()
  }
})

t.test('any short text in any spelling, cut at any places', async (t: Test) => {
  const { digester } = await start(t)
  const audio = fc.uint8Array({ minLength: 1, maxLength: 300 })
  const cuts = fc.array(fc.nat({ max: 1_500 }), { maxLength: 12 })
  fc.assert(
    fc.property(audio, fc.constantFrom(...Object.keys(SPELLINGS)), cuts, (bytes, form, cuts) => {
      const audio = Buffer.from(bytes)
      const text = asText(audio, form)
      const passing = digester.passing()
      let from = 0
      for (const cut of [...cuts, text.length].sort((a, b) => a - b)) {
        passing.take(text.subarray(from, cut), 'base64')
        from = Math.min(cut, text.length)
      }
      return passing.finish() === digestOf(audio)
    }),
    { numRuns: 500 },
  )
})

t.test('text that the blocks cut at any place within its groups', async (t: Test) => {
  const { digester, keep } = await start(t)
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 400_000 }),
      fc.constantFrom(...FORMS),
      fc.integer({ min: MIB - 300, max: MIB + 3 }),
      async (size, form, offset) => {
        const audio = noise(size)
        const { ref, release } = await keep(audio, form, 'memory', offset)
        const digest = await digester.digest(ref, signal)
        release()
        return digest === digestOf(audio)
      },
    ),
    { numRuns: 60 },
  )
})

t.test('one other bit anywhere makes another digest', async (t: Test) => {
  const { digester, keep } = await start(t)
  const audio = noise(2 * MIB + 9)
  const seen = new Set([digestOf(audio)])
  const places = [0, 1, 65_535, MIB - 1, MIB, 2 * MIB, 2 * MIB + 8]
  for (const [i, at] of places.entries()) {
    audio[at]! ^= 1 << i
    const { ref, release } = await keep(audio, 'identity', 'memory')
    const passing = digester.passing()
    passing.take(audio, 'identity')
    const digest = await digester.digest(ref, signal)
    t.equal(passing.finish(), digest)
    seen.add(digest)
    release()
    audio[at]! ^= 1 << i
  }
  t.equal(seen.size, places.length + 1)
})

t.test('leaves in another order, or cut elsewhere, make another digest', async (t: Test) => {
  const { digester } = await start(t)
  const [one, two] = [noise(MIB), noise(MIB)]
  const of = (...pieces: Buffer[]) => {
    const passing = digester.passing()
    for (const piece of pieces) passing.take(piece, 'identity')
    return passing.finish()
  }
  t.not(of(one, two), of(two, one))
  t.not(of(one), sha256(one).toString('hex'), 'not the hash of the file itself')
  t.equal(of(one, two), of(Buffer.concat([one, two])))
})

/** Holds no more than it may while it runs, and nothing afterwards. */
function watchPeak(budget: { readonly used: number }, before: number) {
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, budget.used - before)
  }, 1)
  return () => {
    clearInterval(timer)
    return peak
  }
}

t.test(
  '64 digests of 25 MiB at a time hold 2 MiB each and what they read into, and give them back',
  { timeout: 180_000 },
  async (t) => {
    const { digester, keep, budget, blocks } = await start(t, { budgetBytes: 128 * MIB })
    const audio = noise(25 * MIB)
    const expected = digestOf(audio)
    for (const [form, tier] of [
      ['identity', 'object'],
      ['identity', 'memory'],
      ['canonical', 'memory'],
      ['canonical', 'object'],
    ] as const) {
      const { ref, release } = await keep(audio, form, tier, 37)
      const before = budget.used
      const peak = watchPeak(budget, before)
      const digests = await Promise.all(Array.from({ length: 64 }, () => digester.digest(ref, signal)))
      const held = peak()
      const reading = tier === 'object' ? MIB / 2 : 0
      t.ok(held <= 64 * (2 * MIB + reading), `${form}, ${tier}: ${held / MIB} MiB at most`)
      if (tier === 'object') t.ok(held >= 2 * MIB, 'and they are accounted for')
      t.ok(digests.every((digest) => digest === expected))
      t.equal(budget.used, before, 'all is given back')
      release()
    }
    t.equal(budget.used, 0)
    t.equal(blocks.usedBytes, 0)
  },
)

t.test('aborted digests give everything back and end with the reason', async (t: Test) => {
  const reason = new GatewayError('CLIENT_CLOSED')
  let hashing = 0
  let started = 0
  let onHash: (nth: number) => void = () => {}
  const hasher: LeafHasher = {
    ...workers.hasher,
    async hash(views, encoding) {
      started += 1
      onHash(started)
      hashing += 1
      try {
        return await workers.hasher.hash(views, encoding)
      } finally {
        hashing -= 1
      }
    },
  }
  const { digester, keep, budget } = await start(t, { hasher })
  const audio = noise(12 * MIB)
  for (const tier of TIERS) {
    for (const form of ['identity', 'canonical', 'line breaks escaped']) {
      const { ref, release } = await keep(audio, form, tier)
      const before = budget.used
      await t.rejects(digester.digest(ref, AbortSignal.abort(reason)), reason)
      for (const last of [1, 2, 3]) {
        const controller = new AbortController()
        started = 0
        onHash = (nth) => {
          if (nth === last) controller.abort(reason)
        }
        const name = `${tier}, ${form}, at hash ${last}`
        await t.rejects(digester.digest(ref, controller.signal), reason, name)
        t.equal(hashing, 0, 'no worker reads the blocks any more')
        t.equal(started, last, 'and none is asked again')
        // The memory that was read into rests for a moment, as chunks of it may be on a socket that is being closed.
        t.ok(await waitUntil(() => budget.used === before), `${name}: all is given back`)
      }
      release()
    }
  }
})

t.test('a store or a worker that fails ends the digest and leaves nothing', async (t: Test) => {
  const broken: { after: number } = { after: Number.POSITIVE_INFINITY }
  const failing = (objects: Objects): Objects => ({
    ...objects,
    async get(...range) {
      const chunks = await objects.get(...range)
      return (async function* () {
        let bytes = 0
        for await (const chunk of chunks) {
          bytes += chunk.length
          if (bytes > broken.after) throw new Error('the disk is gone')
          yield chunk
        }
      })()
    },
  })
  const { objects } = await createRig(t)
  const hasher: LeafHasher = {
    ...workers.hasher,
    hash: async () => {
      throw new Error('the thread died')
    },
  }
  const audio = noise(4 * MIB)
  const stored = await start(t, { objects: failing(objects) })
  for (const after of [0, MIB - 1, 2 * MIB + 5]) {
    broken.after = Number.POSITIVE_INFINITY
    const { ref, release } = await stored.keep(audio, 'identity', 'object')
    broken.after = after
    await t.rejects(stored.digester.digest(ref, signal), { code: 'DEPENDENCY_UNAVAILABLE' })
    t.equal(stored.budget.used, 0)
    release()
  }
  broken.after = Number.POSITIVE_INFINITY
  const dying = await start(t, { objects, hasher })
  for (const tier of TIERS) {
    const { ref, release } = await dying.keep(audio, 'identity', tier)
    const before = dying.budget.used
    await t.rejects(dying.digester.digest(ref, signal), { message: 'the thread died' })
    t.equal(dying.budget.used, before)
    release()
  }
})

t.test('audio that is not as long as it was is no audio', async (t: Test) => {
  const { digester, keep, budget } = await start(t)
  const { ref, release } = await keep(noise(3 * MIB), 'identity', 'object')
  for (const [decodedBytes, word] of [
    [3 * MIB - 1, 'longer'],
    [3 * MIB + 1, 'shorter'],
  ] as const)
    await t.rejects(digester.digest({ ...ref, decodedBytes }, signal), { message: new RegExp(word) })
  t.equal(budget.used, 0)
  release()
})

t.test('25 MiB do not hold up the event loop', async (t: Test) => {
  const inline: number[] = []
  const hasher: LeafHasher = {
    ...workers.hasher,
    hash(views, encoding) {
      const answer = workers.hasher.hash(views, encoding)
      if (!(answer instanceof Promise)) inline.push(views.reduce((sum, view) => sum + view.length, 0))
      return answer
    },
  }
  const { digester, keep } = await start(t, { hasher })
  for (const tier of TIERS) {
    for (const form of ['identity', 'canonical', 'line breaks escaped']) {
      const { ref, release } = await keep(noise(25 * MIB), form, tier)
      const { turns } = await turnsWithin(() => digester.digest(ref, signal))
      const isGathered = tier === 'object' || form === 'line breaks escaped'
      t.ok(turns >= (isGathered ? 25 : 7), `${tier}, ${form}: the loop turned ${turns} times meanwhile`)
      release()
    }
  }
  t.same(inline, [], 'nothing was hashed on it')
})
