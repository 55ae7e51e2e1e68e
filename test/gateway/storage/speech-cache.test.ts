import { readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { EmbeddedPermits } from '../../../src/gateway/state/embedded/permits.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createSpeechCache } from '../../../src/gateway/storage/speech-cache.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024
const TERMS = { ttlSeconds: 60, maxBytes: 100 * MIB }
const digestOf = (n: number) => n.toString(16).padStart(64, '0')
const placeOf = (n: number, workspace = 'acme') => ({ workspace, digest: digestOf(n) })
const speechOf = (n: number, bytes = 1_000) => ({ audio: Buffer.alloc(bytes, n), mediaType: 'audio/mpeg' })

async function rig(
  t: Test,
  { memory = 64 * MIB, root = t.testdir({}), objects = null as Objects | null } = {},
) {
  const budget = createBudget(memory)
  const clock = new VirtualClock(Date.now())
  const evicted = { count: 0 }
  const store = objects ?? (await createFileObjects(root))
  const open = () =>
    createSpeechCache({
      objects: store,
      budget,
      permits: new EmbeddedPermits(),
      watch: {
        evicted() {
          evicted.count += 1
        },
      },
      clock,
    })
  return { root, budget, clock, evicted, store, open, cache: open() }
}

t.test('a node finds what it kept in memory, another one in the store', async (t) => {
  const { cache, open, budget } = await rig(t)
  t.equal(cache.recall(placeOf(1), TERMS), null)
  t.equal(await cache.find(placeOf(1), TERMS), null)
  await cache.keep(placeOf(1), TERMS, speechOf(1))
  t.match(cache.recall(placeOf(1), TERMS), speechOf(1))
  const other = open()
  t.equal(other.recall(placeOf(1), TERMS), null)
  t.match(await other.find(placeOf(1), TERMS), speechOf(1))
  t.match(other.recall(placeOf(1), TERMS), speechOf(1), 'from then on in memory')
  t.equal(await other.find(placeOf(1, 'other'), TERMS), null, 'of another workspace')
  await cache.keep(placeOf(1), TERMS, speechOf(2))
  t.match(await open().find(placeOf(1), TERMS), speechOf(2), 'it is replaced')
  t.ok(budget.used > 0)
  cache.close()
  other.close()
  t.equal(cache.recall(placeOf(1), TERMS), null)
})

t.test('what is too old is never given', async (t) => {
  const { cache, open, clock } = await rig(t)
  await cache.keep(placeOf(1), TERMS, speechOf(1))
  await clock.advance(59_999)
  t.ok(cache.recall(placeOf(1), TERMS))
  t.ok(await open().find(placeOf(1), TERMS))
  t.equal(cache.recall(placeOf(1), { ...TERMS, ttlSeconds: 59 }), null, 'by what the route says now')
  await clock.advance(1)
  t.equal(cache.recall(placeOf(1), TERMS), null)
  t.equal(await open().find(placeOf(1), TERMS), null)
  await clock.advance(-10 * 60_000)
  t.equal(await open().find(placeOf(1), TERMS), null, 'nor what was kept by a clock that is far ahead')
})

t.test('an object that was cut short or changed is never given', async (t) => {
  const { cache, open, root } = await rig(t)
  await cache.keep(placeOf(1), TERMS, speechOf(1))
  const [name = ''] = await readdir(join(root, 'cache'))
  const file = join(root, 'cache', name)
  const whole = await readFile(file)
  const isGiven = async () => (await open().find(placeOf(1), TERMS)) !== null
  t.ok(await isGiven())
  for (const length of [whole.length - 1, whole.length - 1_000, 512, 511, 10, 0]) {
    await truncate(file, length)
    t.notOk(await isGiven(), `${length} bytes`)
    await writeFile(file, whole)
  }
  for (const at of [0, 20, 60, 512, whole.length - 1]) {
    const changed = Buffer.from(whole)
    changed[at] = changed[at]! ^ 1
    await writeFile(file, changed)
    t.notOk(await isGiven(), `byte ${at}`)
  }
  await writeFile(file, whole)
  t.ok(await isGiven())
})

t.test('a workspace keeps no more than it may, and loses the oldest first', async (t) => {
  const { cache, store, open, evicted } = await rig(t)
  const terms = { ttlSeconds: 600, maxBytes: 20_000 }
  const sizes = async (workspace = 'acme') => {
    let sum = 0
    for await (const { bytes } of store.list(`cache/${workspace}/`)) sum += bytes
    return sum
  }
  await cache.keep(placeOf(0, 'other'), terms, speechOf(0, 5_000))
  // The clock of a folder may be a few milliseconds coarse.
  const tick = () => new Promise((resolve) => setTimeout(resolve, 5))
  for (let n = 1; n <= 12; n += 1) {
    await cache.keep(placeOf(n), terms, speechOf(n, 3_000))
    await tick()
    t.ok(await waitUntil(async () => (await sizes()) <= terms.maxBytes, 5_000), `after ${n}`)
  }
  const left = await Promise.all(
    Array.from({ length: 12 }, async (_, at) => (await open().find(placeOf(at + 1), terms)) !== null),
  )
  const first = left.indexOf(true)
  t.ok(first > 5 && left.slice(first).every(Boolean), `the newest are there: ${left}`)
  t.equal(evicted.count, first)
  t.equal(await sizes('other'), 5_512, 'no other workspace loses anything')
  await cache.keep(placeOf(99), terms, speechOf(9, 20_000))
  t.equal(await open().find(placeOf(99), terms), null, 'what is larger than all is not kept')

  const another = open()
  for (let n = 20; n < 26; n += 1) {
    await cache.keep(placeOf(n), terms, speechOf(n, 3_000))
    await another.keep(placeOf(n + 100), terms, speechOf(n, 3_000))
    await tick()
  }
  t.ok(
    await waitUntil(async () => (await sizes()) <= terms.maxBytes * 1.25, 5_000),
    'two nodes pass it by an eighth each at most',
  )
})

t.test('memory has its bounds', async (t) => {
  const { cache, budget } = await rig(t, { memory: 16 * MIB })
  for (let n = 1; n <= 40; n += 1) {
    await cache.keep(placeOf(n), TERMS, speechOf(n, 100_000))
    // Used all the time.
    cache.recall(placeOf(1), TERMS)
    t.ok(budget.used <= MIB, `${budget.used} bytes`)
  }
  t.ok(cache.recall(placeOf(1), TERMS), 'what is asked for stays')
  t.ok(cache.recall(placeOf(40), TERMS))
  t.notOk(cache.recall(placeOf(20), TERMS))
  await cache.keep(placeOf(50), TERMS, speechOf(5, 200_000))
  t.notOk(cache.recall(placeOf(50), TERMS), 'nothing takes more than its part')
  budget.charge(15 * MIB)
  await cache.keep(placeOf(60), TERMS, speechOf(6))
  t.equal(budget.used, 15 * MIB, 'all of it makes room for bodies')
  budget.refund(15 * MIB)
  t.equal(budget.used, 0)
})

t.test('without its store it keeps in memory alone, and does not wait for it twice', async (t) => {
  let asked = 0
  const hang = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      asked += 1
      signal.addEventListener('abort', () => reject(new GatewayError('DEPENDENCY_UNAVAILABLE')))
    })
  const objects = {
    get: (_key: string, _start: number, _end: number, signal: AbortSignal) => hang(signal),
    put: async () => {
      throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    },
  } as unknown as Objects
  const { cache, clock } = await rig(t, { objects })
  await cache.keep(placeOf(1), TERMS, speechOf(1))
  t.ok(cache.recall(placeOf(1), TERMS))
  const finding = cache.find(placeOf(2), TERMS)
  await clock.advance(1_000)
  t.equal(await finding, null)
  t.equal(await cache.find(placeOf(2), TERMS), null)
  t.equal(asked, 1)
  await clock.advance(6_000)
  const again = cache.find(placeOf(2), TERMS)
  await clock.advance(1_000)
  t.equal(await again, null)
  t.equal(asked, 2, 'it is asked again later')
  cache.close()
})
