import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { newJobId } from '../../../src/contracts/ids.ts'
import type { JobWork, KnownJob } from '../../../src/contracts/jobs.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { type SweeperOptions, startSweeper, sweep, sweepOrphans } from '../../../src/gateway/storage/sweep.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { sharedS3 } from '../../support/shared-s3.ts'
import { clockAhead, VirtualClock } from '../../support/virtual-clock.ts'
import { chunksOf } from './objects.contract.ts'
import { keysOf, openS3, sweepOnce } from './rig.ts'

const log = pino({ level: 'silent' })
const HOUR_MS = 60 * 60_000
const UPLOADER = fileURLToPath(new URL('./uploader.ts', import.meta.url))

const put = (objects: Objects, key: string) =>
  objects.put(key, chunksOf(Buffer.from('abc')), 3, { signal: AbortSignal.timeout(10_000) })

/** A process that has one finished spool object, one job object, and uploads of every kind under way; then kill -9. */
async function crashUnderUploads(store: object): Promise<void> {
  const child = spawn(process.execPath, [UPLOADER, JSON.stringify(store)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
}

t.test('a folder after kill -9: the next start removes all that was unfinished', async (t: Test) => {
  const root = await tempFolder(t)
  await crashUnderUploads({ root })
  t.ok((await readdir(join(root, 'tmp'))).length >= 2, 'the crash left something')
  const objects = await createFileObjects(root)
  t.equal((await keysOf(objects, 'spool/')).length, 1)
  const sweeper = await startSweeper({ objects, log, alone: true })
  t.same(await readdir(join(root, 'tmp')), [])
  t.same(await keysOf(objects), ['job/acme/tj_1/1'], 'what is durable stays')
  await sweeper.stop()
})

t.test(
  'an S3 store after kill -9: the sweep ends uploads, and objects once they are old',
  { skip: withoutServers, timeout: 120_000 },
  async (t: Test) => {
    const server = await sharedS3(t)
    const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
    const options = { endpoint, region, bucket, accessKeyId, secretAccessKey }
    const objects = openS3(t, options)
    await crashUnderUploads({ s3: options })
    t.equal((await keysOf(objects, 'spool/')).length, 1, 'a put that was cut is no object')

    await sweepOnce({ objects, log, alone: false })
    t.equal((await keysOf(objects, 'spool/')).length, 1, 'it may be of another node')
    await sweepOnce({ objects, log, alone: false, clock: clockAhead(HOUR_MS + 5_000) })
    t.same(await keysOf(objects), ['job/acme/tj_1/1'])
    t.equal(await objects.abortUploads('', new Date(Date.now() + HOUR_MS)), 0, 'no upload is open')
  },
)

t.test('a start waits for no round, and a stop ends it early', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  const endless: Objects = {
    ...objects,
    async *list(prefix) {
      yield* objects.list(prefix)
      while (prefix === 'result/') {
        yield { key: 'result/acme/tj_1/1', bytes: 1, modifiedAt: new Date() }
        await setImmediate()
      }
    },
  }
  await put(objects, 'spool/acme/a/1')
  const sweeper = await startSweeper({ objects: endless, log, alone: true })
  t.same(await keysOf(objects), [], 'bodies of an earlier boot are gone')
  await sweeper.stop()
})

t.test('only spool objects go, and only those from before', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  for (const kind of ['spool', 'job', 'result', 'slot']) await put(objects, `${kind}/acme/a/1`)
  t.same(await sweep(objects, new Date(Date.now() - 60_000)), { objects: 0, uploads: 0 })
  t.same(await sweep(objects, new Date(Date.now() + 60_000)), { objects: 1, uploads: 0 })
  t.same((await keysOf(objects)).sort(), ['job/acme/a/1', 'result/acme/a/1', 'slot/acme/a/1'])
})

t.test(
  'audio that was sent ahead of its jobs goes after a day, and nothing else with it',
  async (t: Test) => {
    const objects = await createFileObjects(await tempFolder(t))
    const kept = ['job/acme/a/1', 'slot/acme/a/1']
    for (const key of [...kept, 'upload/acme/upl_1/0', 'upload/acme/upl_2/0']) await put(objects, key)
    const round = async (aheadHours: number) => {
      const clock = clockAhead(aheadHours * HOUR_MS)
      await sweepOnce({ objects, log, alone: true, clock })
      return await keysOf(objects, 'upload/')
    }
    t.equal((await round(0)).length, 2, 'a node that starts finds it of use')
    t.equal((await round(24)).length, 2, 'its last minute is not its end by every clock')
    t.same(await round(25), [])
    t.same((await keysOf(objects)).sort(), kept)
  },
)

/** Lets a sweeper start, so far ahead of the store's clock, and go through at least so many rounds more. */
async function sweepRounds(
  objects: Objects,
  rounds: number,
  { aheadMs = 0, ...options }: Pick<SweeperOptions, 'knownJobs'> & { readonly aheadMs?: number },
): Promise<void> {
  const clock = new VirtualClock(Date.now() + aheadMs)
  const intervalMs = 60_000
  const sweeper = await startSweeper({ objects, log, alone: false, clock, intervalMs, ...options })
  await clock.advance(1.1 * rounds * intervalMs)
  await sweeper.round()
  await sweeper.stop()
}

t.test('rounds follow one another, also after one that failed', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  let rounds = 0
  const failing: Objects = {
    ...objects,
    async *list(prefix) {
      rounds += 1
      if (rounds === 1) throw new Error('the store is away')
      yield* objects.list(prefix)
    },
  }
  await put(objects, 'spool/acme/a/1')
  await sweepRounds(failing, 1, { aheadMs: 2 * HOUR_MS })
  t.same(await keysOf(objects), [])
})

t.test('a clock that is set forward takes no body that may still be received', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  const clock = new VirtualClock(Date.now())
  const intervalMs = 60_000
  const sweeper = await startSweeper({ objects, log, alone: true, clock, intervalMs })
  await put(objects, 'spool/acme/a/1')
  clock.set(48 * HOUR_MS)
  await clock.advance(2 * intervalMs)
  t.same(await keysOf(objects), ['spool/acme/a/1'])
  await clock.advance(2 * HOUR_MS)
  await sweeper.round()
  await sweeper.stop()
  t.same(await keysOf(objects), [], 'and it goes when its time has passed')
})

t.test('answers for replay go when no slot replays them, by what is in force now', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  await put(objects, 'slot/acme/call_1/0')
  await put(objects, 'result/acme/tj_1/1')
  let ttlSeconds = 24 * 3600
  let aheadMs = 0
  const round = async (options: { slotTtlSeconds?: () => number }) => {
    const clock = clockAhead(aheadMs)
    await sweepOnce({ objects, log, alone: true, clock, ...options })
    return (await keysOf(objects)).sort()
  }
  const slotTtlSeconds = () => ttlSeconds
  const both = ['result/acme/tj_1/1', 'slot/acme/call_1/0']
  t.same(await round({ slotTtlSeconds }), both, 'not at once')
  aheadMs = 24.5 * HOUR_MS
  t.same(
    await round({ slotTtlSeconds }),
    both,
    'not at the end of its time: the slot may have been stored later',
  )
  aheadMs = 26 * HOUR_MS
  t.same(await round({}), both, 'not where it is not known how long they are replayed')
  t.same(await round({ slotTtlSeconds: () => Number.NaN }), both, 'not when that is no number')
  ttlSeconds = 48 * 3600
  t.same(await round({ slotTtlSeconds }), both, 'not when the time is longer now')
  ttlSeconds = 24 * 3600
  t.same(await round({ slotTtlSeconds }), ['result/acme/tj_1/1'])
})

/** A job that a worker has. */
const NEEDS_INPUT: KnownJob = {
  status: 'processing',
  kind: 'transcription',
  fence: 1,
  result: null,
  work: null,
}

t.test('what jobs kept goes once there is no record of them, and not before', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  const [known, gone] = [newJobId('tj', 'acme'), newJobId('qj', 'acme')]
  const strange = ['job/acme/mine/1', 'job/loose', 'result/acme/vid_1/0']
  const ofKnown = [`job/acme/${known}/a`, `result/acme/${known}/1-a`]
  const ofGone = [`job/acme/${gone}/a`, `job/acme/${gone}/b`, `result/acme/${gone}/2-a`]
  for (const key of [...strange, ...ofKnown, ...ofGone]) await put(objects, key)
  const all = (await keysOf(objects)).sort()
  const left = async () => (await keysOf(objects)).sort()
  const asked: string[][] = []
  let away = true
  const knownJobs = async (ids: readonly string[]) => {
    asked.push([...ids])
    if (away) throw new Error('the state is away')
    return new Map([[known, NEEDS_INPUT]])
  }
  const aheadMs = HOUR_MS + 60_000
  await sweepRounds(objects, 8, { knownJobs })
  t.same(asked, [], 'the state is not asked about young ones')
  await sweepRounds(objects, 4, { knownJobs, aheadMs })
  t.ok(asked.length > 0)
  t.same(await left(), all, 'a state that is away deletes nothing')
  await sweepRounds(objects, 8, { aheadMs })
  t.same(await left(), all, 'and nothing goes where there is no one to ask')
  asked.length = 0
  away = false
  await sweepRounds(objects, 2, { knownJobs, aheadMs })
  t.same(await left(), [...strange, ...ofKnown].sort())
  t.same([...asked[0]!].sort(), [known, gone].sort(), 'each job is asked for once')
})

t.test('a node that has just started deletes nothing of jobs', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  await put(objects, `job/acme/${newJobId('tj', 'acme')}/a`)
  const clock = clockAhead(2 * HOUR_MS)
  const knownJobs = () => Promise.reject(new Error('not to be asked'))
  await sweepOnce({ objects, log, alone: true, clock, knownJobs })
  t.equal((await keysOf(objects)).length, 1)
})

t.test('what a job does not need goes, whoever was killed before it could delete it', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  const kept = (key: string) => ({ object: key, bytes: 1 })
  const work = (key: string): JobWork => ({ operation: 'chat', payload: kept(key) })
  const cases: readonly [
    string,
    (id: string) => KnownJob,
    needed: readonly string[],
    needless: readonly string[],
  ][] = [
    ['queued', () => ({ ...NEEDS_INPUT, status: 'queued', fence: 0 }), ['job/a'], []],
    ['queued again', () => ({ ...NEEDS_INPUT, status: 'queued' }), ['job/a', 'result/1-a'], []],
    [
      'taken over',
      () => ({ ...NEEDS_INPUT, fence: 12 }),
      ['job/a', 'result/12-a'],
      ['result/1-a', 'result/2-b'],
    ],
    ['cancelled', () => ({ ...NEEDS_INPUT, status: 'cancelled' }), [], ['job/a', 'job/b', 'result/1-a']],
    ['poisoned', () => ({ ...NEEDS_INPUT, status: 'failed', fence: 3 }), [], ['job/a', 'result/3-a']],
    [
      'done',
      (id) => ({ ...NEEDS_INPUT, status: 'succeeded', result: kept(`result/acme/${id}/1-a`) }),
      ['result/1-a'],
      ['job/a', 'job/fetched', 'result/1-b', 'result/2-a'],
    ],
    [
      'done, and short',
      () => ({ ...NEEDS_INPUT, status: 'succeeded', result: { text: '{}' } }),
      [],
      ['job/a', 'result/1-a'],
    ],
    [
      'dead',
      (id) => ({ ...NEEDS_INPUT, status: 'failed', kind: 'queue', work: work(`job/acme/${id}/a`) }),
      ['job/a'],
      ['job/fetched', 'result/1-a'],
    ],
  ]
  const known = new Map<string, KnownJob>()
  const expected: string[] = []
  let needlessCount = 0
  for (const [, jobOf, needed, needless] of cases) {
    const id = newJobId('tj', 'acme')
    const named = (name: string) => name.replace('/', `/acme/${id}/`)
    known.set(id, jobOf(id))
    for (const name of [...needed, ...needless]) await put(objects, named(name))
    expected.push(...needed.map(named))
    needlessCount += needless.length
  }
  const count = await sweepOrphans(objects, new Date(Date.now() + HOUR_MS), async () => known)
  t.same((await keysOf(objects)).sort(), expected.sort())
  t.equal(count, needlessCount)
})

t.test('what nothing names goes within the hour, and not in the first half of it', async (t: Test) => {
  const MINUTE_MS = 60_000
  const clock = new VirtualClock()
  const bornMs = new Map<string, number>()
  const ages: number[] = []
  const objects: Objects = {
    ...(await createFileObjects(await tempFolder(t))),
    async *list(prefix) {
      for (const [key, born] of bornMs)
        if (key.startsWith(prefix)) yield { key, bytes: 1, modifiedAt: new Date(born) }
    },
    fileOf: () => null,
    abortUploads: async () => 0,
    async remove(key) {
      ages.push((clock.wallNow() - (bornMs.get(key) ?? Number.NaN)) / MINUTE_MS)
      bornMs.delete(key)
    },
  }
  const options = { log, alone: false, clock, knownJobs: async () => new Map() }
  const sweeper = await startSweeper({ objects, ...options })
  for (let minute = 0; minute < 180; minute++) {
    // At every moment between two looks.
    const id = newJobId('tj', 'acme')
    const keys = [`job/acme/${id}/a`, `result/acme/${id}/1-a`, `spool/acme/req_${minute}/0`]
    if (minute < 60) for (const key of keys) bornMs.set(key, clock.wallNow())
    await clock.advance(MINUTE_MS)
  }
  await sweeper.round()
  await sweeper.stop()
  t.equal(ages.length, 180)
  t.ok(Math.min(...ages) > 30 && Math.max(...ages) < 60, `${Math.min(...ages)} to ${Math.max(...ages)} min`)
})

t.test('many jobs are asked for in batches', async (t: Test) => {
  const jobs = Array.from({ length: 1_234 }, (_, i) => newJobId(i % 2 === 0 ? 'tj' : 'qj', `w${i % 7}`))
  const removed: string[] = []
  const many: Objects = {
    ...(await createFileObjects(await tempFolder(t))),
    async *list(prefix) {
      for (const id of jobs) yield { key: `${prefix}acme/${id}/a`, bytes: 1, modifiedAt: new Date(0) }
    },
    remove: async (key) => void removed.push(key),
  }
  const sizes: number[] = []
  const kept = new Set(jobs.filter((_, i) => i % 3 === 0))
  const knownJobs = async (ids: readonly string[]) => {
    sizes.push(ids.length)
    return new Map(ids.filter((id) => kept.has(id)).map((id) => [id, NEEDS_INPUT]))
  }
  const count = await sweepOrphans(many, new Date(), knownJobs)
  // The results have no fence in their names, so that they are of no claim.
  t.equal(count, 2 * jobs.length - kept.size)
  const lost = jobs.filter((id) => !kept.has(id))
  const expected = [...jobs.map((id) => `result/acme/${id}/a`), ...lost.map((id) => `job/acme/${id}/a`)]
  t.same(removed.sort(), expected.sort())
  t.ok(Math.max(...sizes) <= 500)
})
