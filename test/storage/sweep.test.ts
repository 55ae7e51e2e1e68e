import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Objects } from '../../src/schema/objects.ts'
import { createFileObjects } from '../../src/storage/files.ts'
import { createS3Objects } from '../../src/storage/s3.ts'
import { startSweeper, sweep } from '../../src/storage/sweep.ts'
import { startS3 } from '../support/s3-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { chunksOf } from './objects.contract.ts'
import { keysOf } from './rig.ts'

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
    const server = await startS3(t)
    const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
    const options = { endpoint, region, bucket, accessKeyId, secretAccessKey }
    const objects = createS3Objects(options)
    t.teardown(() => objects.close())
    await crashUnderUploads({ s3: options })
    t.equal((await keysOf(objects, 'spool/')).length, 1, 'a put that was cut is no object')

    const young = await startSweeper({ objects, log, alone: false })
    await young.stop()
    t.equal((await keysOf(objects, 'spool/')).length, 1, 'it may be of another node')
    const old = await startSweeper({ objects, log, alone: false, now: () => Date.now() + HOUR_MS + 5_000 })
    await old.stop()
    t.same(await keysOf(objects), ['job/acme/tj_1/1'])
    t.equal(await objects.abortUploads('', new Date(Date.now() + HOUR_MS)), 0, 'no upload is open')
  },
)

t.test('only spool objects go, and only those from before', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  for (const kind of ['spool', 'job', 'result', 'slot']) await put(objects, `${kind}/acme/a/1`)
  t.same(await sweep(objects, new Date(Date.now() - 60_000)), { objects: 0, uploads: 0 })
  t.same(await sweep(objects, new Date(Date.now() + 60_000)), { objects: 1, uploads: 0 })
  t.same((await keysOf(objects)).sort(), ['job/acme/a/1', 'result/acme/a/1', 'slot/acme/a/1'])
})

t.test('rounds go on, also after one that failed', async (t: Test) => {
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
  const now = () => Date.now() + 2 * HOUR_MS
  const sweeper = await startSweeper({ objects: failing, log, alone: false, now, intervalMs: 20 })
  const alive = setInterval(() => {}, 1_000)
  while ((await keysOf(objects)).length > 0) await new Promise((resolve) => setTimeout(resolve, 10))
  clearInterval(alive)
  await sweeper.stop()
  t.ok(rounds >= 2)
})

t.test('answers for replay go when no slot replays them, by what is in force now', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  await put(objects, 'slot/acme/call_1/0')
  await put(objects, 'result/acme/tj_1/1')
  let ttlSeconds = 24 * 3600
  let aheadMs = 0
  const round = async (options: { slotTtlSeconds?: () => number }) => {
    const now = () => Date.now() + aheadMs
    await (await startSweeper({ objects, log, alone: true, now, ...options })).stop()
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
  t.same(await round({}), both, 'not where nobody says how long they are replayed')
  t.same(await round({ slotTtlSeconds: () => Number.NaN }), both, 'not when that is no number')
  ttlSeconds = 48 * 3600
  t.same(await round({ slotTtlSeconds }), both, 'not when the time is longer now')
  ttlSeconds = 24 * 3600
  t.same(await round({ slotTtlSeconds }), ['result/acme/tj_1/1'])
})
