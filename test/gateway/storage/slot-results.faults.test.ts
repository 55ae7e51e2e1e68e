import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { StoredResult } from '../../../src/contracts/ledger.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import type { WholeResult } from '../../../src/contracts/slot-results.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createSlotResults } from '../../../src/gateway/storage/kept-texts.ts'
import { createS3Objects } from '../../../src/gateway/storage/s3.ts'
import { type S3Server, startS3 } from '../../support/s3-server.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { keysOf, MIB } from './rig.ts'

const INLINE_BYTES = 16 * 1024
const HEADERS = { 'content-type': 'application/json', 'x-lk-policy-version-id': 'pv_0123456789abcdef' }
const resultOf = (text: string, status = 200): WholeResult => ({ status, headers: HEADERS, text })

function start(objects: Objects) {
  const budget = createBudget(64 * MIB)
  return { objects, budget, results: createSlotResults({ objects, budget }) }
}

async function startFolder(t: Test) {
  return start(await createFileObjects(await tempFolder(t)))
}

/** The key of the object that holds a result; fails when it is inline. */
function keyOf({ body }: StoredResult): string {
  if ('text' in body) throw new Error('the result is inline')
  return body.object
}

/** The result of `keep` goes through the state as JSON. */
const throughState = (result: StoredResult): StoredResult => JSON.parse(JSON.stringify(result))

/** Texts around the longest inline one, by their bytes. */
const TEXTS: Record<string, { text: string; inline: boolean }> = {
  'the limit': { text: 'x'.repeat(INLINE_BYTES), inline: true },
  'one byte more': { text: 'x'.repeat(INLINE_BYTES + 1), inline: false },
  'the limit in two bytes each': { text: 'ü'.repeat(INLINE_BYTES / 2), inline: true },
  'one character more': { text: 'ü'.repeat(INLINE_BYTES / 2 + 1), inline: false },
  'a byte order mark, and every kind of character': {
    text: `\ufeff${'a ü € 😀 \u0000 \u2028 "\\ \r\n'.repeat(2_000)}`,
    inline: false,
  },
  nothing: { text: '', inline: true },
  'three MiB': { text: 'lärm '.repeat(MIB / 2), inline: false },
}

/** Holds for every store. */
async function keepsAndOpens(t: Test, { objects, budget, results }: ReturnType<typeof start>): Promise<void> {
  for (const [name, { text, inline }] of Object.entries(TEXTS)) {
    const kept = throughState(await results.keep('acme', resultOf(text, 201)))
    t.equal('text' in kept.body, inline, name)
    if (!inline) t.match(keyOf(kept), /^slot\/acme\/call_[0-9a-z]{26}\/0$/)
    const opened = await results.open(kept)
    t.same({ ...opened, text: null }, { status: 201, headers: HEADERS, text: null })
    t.ok(opened !== null && Buffer.from(opened.text).equals(Buffer.from(text)), 'byte for byte')
    await results.drop(kept)
    if (!inline) t.equal(await results.open(kept), null, 'gone is no failure')
    await results.drop(kept)
  }
  t.same(await keysOf(objects), [])
  t.equal(budget.used, 0)
}

t.test('a folder gives back what was kept', async (t: Test) => {
  await keepsAndOpens(t, await startFolder(t))
})

t.test('any text at all', async (t: Test) => {
  const { results, budget } = await startFolder(t)
  const text = fc
    .tuple(fc.string({ unit: 'binary', maxLength: 60 }), fc.integer({ min: 1, max: 1_500 }))
    .map(([text, times]) => text.repeat(times))
  await fc.assert(
    fc.asyncProperty(text, async (text) => {
      const kept = throughState(await results.keep('acme', resultOf(text)))
      const opened = await results.open(kept)
      await results.drop(kept)
      return opened !== null && opened.text === text
    }),
    { numRuns: 60 },
  )
  t.equal(budget.used, 0)
})

t.test('a result is filed under its workspace, whatever that is called', async (t: Test) => {
  const { results, objects } = await startFolder(t)
  for (const workspace of ['../../etc', 'a/b', '', 'ü'.repeat(300)]) {
    const kept = await results.keep(workspace, resultOf('x'.repeat(20_000)))
    t.match(keyOf(kept), /^slot\/[A-Za-z0-9_-]{1,64}\/call_[0-9a-z]{26}\/0$/)
    t.match(await results.open(kept), { status: 200 })
  }
  t.equal((await keysOf(objects, 'slot/')).length, 4, 'no two share a key')
})

t.test('what is held is accounted for while it is', async (t: Test) => {
  const { objects } = await startFolder(t)
  const seen: number[] = []
  const slow: Objects = {
    ...objects,
    async put(...put) {
      seen.push(budget.used)
      await objects.put(...put)
    },
    async get(...range) {
      seen.push(budget.used)
      return await objects.get(...range)
    },
  }
  const { results, budget } = start(slow)
  const kept = await results.keep('acme', resultOf('x'.repeat(MIB)))
  await results.open(kept)
  t.same(seen, [MIB, MIB])
  t.equal(budget.used, 0)
})

t.test('a store that fails, or is slow, is unavailable; what it holds half is nothing', async (t: Test) => {
  const { objects } = await startFolder(t)
  const large = resultOf('x'.repeat(MIB))
  const kept = await start(objects).results.keep('acme', large)

  async function* short() {
    yield Buffer.alloc(1_000)
  }
  async function* hanging() {
    yield Buffer.alloc(1_000)
    await new Promise(() => {})
  }
  const broken: Record<string, Partial<Objects>> = {
    'the disk is full': { put: async () => Promise.reject(new Error('ENOSPC')) },
    'cut short': { get: async () => short() },
    'no answer': { put: (_key, _body, _length, { signal }) => rejectsWhenAborted(signal) },
    'no end': { get: async () => hanging() },
  }
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => clearInterval(alive))
  await Promise.all(
    Object.entries(broken).map(async ([name, faults]) => {
      const { results, budget } = start({ ...objects, ...faults })
      const startMs = performance.now()
      const act: () => Promise<unknown> =
        faults.put === undefined ? () => results.open(kept) : () => results.keep('acme', large)
      await t.rejects(act, { code: 'DEPENDENCY_UNAVAILABLE' }, name)
      t.ok(performance.now() - startMs < 8_000, `${name}: within bounds`)
      t.equal(budget.used, 0)
    }),
  )
  const deaf = start({ ...objects, remove: async () => Promise.reject(new Error('away')) })
  await t.resolves(deaf.results.drop(kept), 'a drop never fails')
  t.ok(await deaf.results.open(kept), 'and what it could not delete is still there')
})

function rejectsWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

function bucketOf({ endpoint, region, bucket, accessKeyId, secretAccessKey }: S3Server): Objects {
  return createS3Objects({ endpoint, region, bucket, accessKeyId, secretAccessKey })
}

t.test('an S3 store', { skip: withoutServers, timeout: 180_000 }, async (t: Test) => {
  const server = await startS3(t)
  const objects = bucketOf(server)
  t.teardown(() => objects.close())
  const started = start(objects)
  const { results, budget } = started
  await keepsAndOpens(t, started)

  const large = resultOf('lärm '.repeat(MIB))
  const kept = await results.keep('acme', large)
  async function isUnavailable(name: string): Promise<void> {
    const startMs = performance.now()
    await Promise.all([
      t.rejects(results.keep('acme', large), { code: 'DEPENDENCY_UNAVAILABLE' }, `${name}: keep`),
      t.rejects(results.open(kept), { code: 'DEPENDENCY_UNAVAILABLE' }, `${name}: open`),
    ])
    const tookMs = performance.now() - startMs
    t.ok(tookMs < 12_000, `${name}: ${Math.round(tookMs)} ms`)
    t.match(
      await results.keep('acme', resultOf('short')),
      { body: { text: 'short' } },
      'short ones need no store',
    )
    t.equal(budget.used, 0)
  }
  server.freeze()
  await isUnavailable('frozen')
  server.thaw()
  await server.kill()
  await isUnavailable('killed')
  await server.restart()
  for (let left = 50; left > 0; left -= 1) {
    const opened = await results.open(kept).catch(() => null)
    if (opened?.text === large.text) break
    await sleep(200)
  }
  t.equal((await results.open(kept))?.text, large.text, 'what was kept is there again')
})
