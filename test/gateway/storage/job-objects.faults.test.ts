import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Audio, StoredBody } from '../../../src/contracts/audio.ts'
import { newJobId } from '../../../src/contracts/ids.ts'
import type { FiledJob } from '../../../src/contracts/job-objects.ts'
import type { Job, JobWork } from '../../../src/contracts/jobs.ts'
import type { KeptText, Objects } from '../../../src/contracts/objects.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createJobObjects } from '../../../src/gateway/storage/job-objects.ts'
import { startS3 } from '../../support/s3-server.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { bytesOf, createRig, keysOf, MIB, noise, openS3, store } from './rig.ts'

const KIB = 1024
const fresh = () => AbortSignal.timeout(60_000)
const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }

async function start(t: Test, { objects, budgetBytes }: { objects?: Objects; budgetBytes?: number } = {}) {
  const rig = await createRig(t, {
    ...(objects === undefined ? {} : { objects }),
    ...(budgetBytes === undefined ? {} : { budgetBytes, timing: { memoryWaitMs: 0 } }),
  })
  return { ...rig, jobs: createJobObjects({ objects: rig.objects, budget: rig.budget }) }
}

const newJob = (workspace = 'acme'): FiledJob => ({ id: newJobId('tj', workspace), workspace })

/** Audio that is `range` of a stored body. */
function audioOf({ source, length }: StoredBody, range: { offset?: number; length?: number } = {}): Audio {
  const { offset = 0, length: taken = length - offset } = range
  return {
    source,
    offset,
    length: taken,
    encoding: 'identity',
    decodedBytes: taken,
    canonical: true,
    mediaType: 'audio/wav',
    filename: 'a.wav',
    format: 'wav',
    durationSeconds: 1,
    channels: 1,
  }
}

function keyOf(kept: Audio | KeptText): string {
  if ('source' in kept && kept.source.kind === 'object') return kept.source.key
  if ('object' in kept) return kept.object
  throw new Error('not in an object')
}

async function readBack(kept: Audio, objects: Objects): Promise<Buffer> {
  const { source, offset, length } = kept
  const whole = await bytesOf({ source, length: offset + length }, objects)
  return whole.subarray(offset)
}

/** No more of a job than the places look at. */
const recordOf = (filed: FiledJob, work: JobWork, result: KeptText | null): Job =>
  ({ ...filed, work, result }) as Job

const transcription = (audio: Audio | { url: string }): JobWork =>
  ({ operation: 'transcription', options: {}, audio }) as JobWork

/** Holds for every store. */
async function keepsAudio(t: Test, objects: Objects): Promise<void> {
  for (const [tier, budgetBytes] of Object.entries({ memory: 64 * MIB, object: 0 })) {
    const { jobs, spool, budget } = await start(t, { objects, budgetBytes })
    const body = noise(3 * MIB + 77)
    const ranges = [{}, { offset: 1 }, { offset: MIB - 3, length: MIB + 6 }, { offset: 200, length: 8 * KIB }]
    for (const range of [...ranges, { offset: body.length - 1 }]) {
      const job = newJob()
      const stored = await store(spool.open({ ...job, contentLength: body.length }), body)
      t.equal(stored.source.kind, tier)
      const given = audioOf(stored, range)
      const kept = await jobs.keepAudio(given, job, fresh())
      const said = `${tier}: ${JSON.stringify(range)}`
      t.match(keyOf(kept), new RegExp(`^job/acme/${job.id}/[0-9a-f]{16}$`), said)
      t.same({ ...kept, source: 0 }, { ...given, source: 0, offset: 0 }, 'it is the same audio')
      stored.release()
      const bytes = body.subarray(given.offset, given.offset + given.length)
      t.ok((await readBack(kept, objects)).equals(bytes), 'exactly its bytes')
      t.same(await keysOf(objects, 'job/'), [keyOf(kept)])
      t.equal(await jobs.keepAudio(kept, job, fresh()), kept, 'what is there stays as it is')
      const other = newJob()
      const copy = await jobs.keepAudio(kept, other, fresh())
      t.not(keyOf(copy), keyOf(kept), "another job's is copied")
      await jobs.drop(kept)
      t.ok((await readBack(copy, objects)).equals(bytes))
      await jobs.drop(copy)
      await jobs.drop(copy)
      t.same(await keysOf(objects, 'job/'), [])
    }
    await spool.close()
    t.equal(budget.used, 0)
  }
  t.same(await keysOf(objects), [])
}

/** Holds for every store. */
async function keepsTexts(t: Test, objects: Objects): Promise<void> {
  const { jobs, budget } = await start(t, { objects })
  const job = newJob()
  const texts = {
    short: { text: 'x'.repeat(16 * KIB), inline: true },
    long: { text: `${'x'.repeat(16 * KIB)}y`, inline: false },
    'long in bytes': { text: 'ü'.repeat(8 * KIB + 1), inline: false },
    'three MiB': { text: 'lärm \ud83d\ude00'.repeat(MIB / 4), inline: false },
  }
  for (const [name, { text, inline }] of Object.entries(texts)) {
    const kept = [await jobs.keepPayload(text, job), await jobs.keepResult(text, job, 3)]
    for (const one of kept) {
      t.equal('text' in one, inline, name)
      t.equal(await jobs.open(JSON.parse(JSON.stringify(one))), text, 'as it was')
    }
    if (inline) continue
    t.match(keyOf(kept[0]!), new RegExp(`^job/acme/${job.id}/[0-9a-f]{16}$`))
    t.match(keyOf(kept[1]!), new RegExp(`^result/acme/${job.id}/3-[0-9a-f]{16}$`))
    for (const one of kept) {
      await jobs.drop(one)
      t.equal(await jobs.open(one), null, 'gone is no failure')
    }
  }
  const first = await jobs.keepResult(texts.long.text, job, 1)
  const again = await jobs.keepResult(texts['long in bytes'].text, job, 1)
  await jobs.drop(first)
  t.equal(await jobs.open(again), texts['long in bytes'].text, 'two tries of one claim are two objects')
  await jobs.drop(again)
  await jobs.drop(null)
  t.same(await keysOf(objects), [])
  t.equal(budget.used, 0)
}

/** Holds for every store. */
async function removesWhatIsNamed(t: Test, objects: Objects): Promise<void> {
  const { jobs, open } = await start(t, { objects })
  const long = 'x'.repeat(20_000)
  const job = newJob()
  const body = await store(open(MIB), noise(MIB))
  const audio = await jobs.keepAudio(audioOf(body), job, fresh())
  body.release()
  const [payload, result, other] = await Promise.all([
    jobs.keepPayload(long, job),
    jobs.keepResult(long, job, 1),
    jobs.keepResult(long, newJob(), 1),
  ])
  const record = recordOf(job, transcription(audio), result)
  await jobs.removeInput(record)
  await jobs.removeInput(record)
  t.same((await keysOf(objects)).sort(), [payload, other, result].map(keyOf).sort(), 'the audio alone')
  await jobs.removeAll(record)
  await jobs.removeAll(record)
  t.same((await keysOf(objects)).sort(), [payload, other].map(keyOf).sort(), 'the result too')
  const chat = recordOf(job, { operation: 'chat', payload }, { text: 'short' })
  await jobs.removeInput(recordOf(job, transcription({ url: 'https://a.example/a' }), null))
  await jobs.removeAll(chat)
  t.same(await keysOf(objects), [keyOf(other)])
  await jobs.drop(other)
}

async function holdsEverywhere(t: Test, objects: Objects): Promise<void> {
  await t.test('audio', (t: Test) => keepsAudio(t, objects))
  await t.test('texts', (t: Test) => keepsTexts(t, objects))
  await t.test('removal', (t: Test) => removesWhatIsNamed(t, objects))
}

/** Aborts at random points; afterwards nothing is there that was not reported as kept. */
async function aborted(
  t: Test,
  objects: Objects,
  { count, spanMs }: { count: number; spanMs: number },
): Promise<void> {
  for (const budgetBytes of [64 * MIB, 0]) {
    const { jobs, spool, budget } = await start(t, { objects, budgetBytes })
    const length = 2 * MIB
    const body = await store(spool.open({ ...newJob(), contentLength: length }), noise(length))
    const outcomes = { kept: 0, left: 0 }
    const one = async () => {
      const controller = new AbortController()
      const leaving = new Error('the client left')
      setTimeout(() => controller.abort(leaving), Math.random() * spanMs)
      const kept = await jobs
        .keepAudio(audioOf(body), newJob(), controller.signal)
        .catch((error: unknown) => {
          t.equal(error, leaving)
          return null
        })
      outcomes[kept === null ? 'left' : 'kept'] += 1
      await jobs.drop(kept)
    }
    for (let left = count; left > 0; left -= 8) await Promise.all(Array.from({ length: 8 }, one))
    t.comment(JSON.stringify(outcomes))
    t.ok(outcomes.left > 0)
    body.release()
    await spool.close()
    t.ok(await waitUntil(async () => (await keysOf(objects)).length === 0), 'no object is left')
    t.equal(await objects.abortUploads('', new Date(Date.now() + 60_000)), 0)
    t.equal(budget.used, 0)
  }
}

t.test('a folder keeps what jobs need', async (t: Test) => {
  await holdsEverywhere(t, await createFileObjects(await tempFolder(t)))
})

t.test('a folder after aborts', async (t: Test) => {
  await aborted(t, await createFileObjects(await tempFolder(t)), { count: 120, spanMs: 40 })
})

t.test('a job is filed under its workspace, whatever that is called', async (t: Test) => {
  const { jobs, objects } = await start(t)
  for (const workspace of ['../../etc', 'a/b', '', 'ü'.repeat(300)]) {
    const kept = await jobs.keepPayload('x'.repeat(20_000), newJob(workspace))
    t.match(keyOf(kept), /^job\/[A-Za-z0-9_-]{1,64}\/tj_[0-9a-z]{26}\/[0-9a-f]{16}$/)
  }
  t.equal((await keysOf(objects)).length, 4)
})

t.test('held audio is put from where it lies', async (t: Test) => {
  const { objects } = await start(t)
  const memory = new Set<ArrayBufferLike>()
  const seen: Objects = {
    ...objects,
    async put(key, body, length, options) {
      async function* looked() {
        for await (const chunk of body) {
          memory.add(chunk.buffer)
          t.ok(chunk.length <= 256 * KIB, 'in pieces that a slow store takes in time')
          yield chunk
        }
      }
      await objects.put(key, looked(), length, options)
    },
  }
  const { jobs, open } = await start(t, { objects: seen })
  const body = await store(open(4 * MIB), noise(4 * MIB))
  await jobs.keepAudio(audioOf(body, { offset: 100 }), newJob(), fresh())
  const { source } = body
  t.same(memory, new Set(source.kind === 'memory' ? source.blocks.map(({ buffer }) => buffer) : []))
  body.release()
})

t.test('a burst goes to the store a few at a time, and no workspace waits for another', async (t: Test) => {
  const { objects } = await start(t)
  let now = 0
  let most = 0
  const done: string[] = []
  const slow: Objects = {
    ...objects,
    async put(key) {
      now += 1
      most = Math.max(most, now)
      await sleep(20)
      now -= 1
      done.push(key.split('/')[1]!)
    },
  }
  const { jobs } = await start(t, { objects: slow })
  const text = 'x'.repeat(20_000)
  const loud = Array.from({ length: 400 }, () => jobs.keepPayload(text, newJob('loud')))
  const quiet = Array.from({ length: 4 }, () => jobs.keepPayload(text, newJob('quiet')))
  await Promise.all([...loud, ...quiet])
  t.equal(most, 64)
  t.ok(done.lastIndexOf('quiet') < 200, `the quiet one's were done as number ${done.lastIndexOf('quiet')}`)
})

t.test(
  'a store that fails, or is slow, is unavailable; nothing stays, nothing is leaked',
  async (t: Test) => {
    const { objects } = await start(t)
    const removed: string[] = []
    const never = (signal: AbortSignal) =>
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const put = async () => Promise.reject(new Error('ENOSPC'))
    const remove = async (key: string) => void removed.push(key)
    const text = 'x'.repeat(20_000)
    const broken: Record<string, Partial<Objects>> = {
      'the disk is full': { put, remove },
      'no answer': { put: (_key, _body, _length, { signal }) => never(signal), remove },
    }
    await Promise.all(
      Object.entries(broken).map(async ([name, faults]) => {
        const { jobs, open, budget } = await start(t, { objects: { ...objects, ...faults } })
        const body = await store(open(MIB), noise(MIB))
        const heldBytes = budget.used
        const startMs = performance.now()
        const acts: Promise<unknown>[] = [
          jobs.keepAudio(audioOf(body), newJob(), fresh()),
          jobs.keepPayload(text, newJob()),
          jobs.keepResult(text, newJob(), 1),
        ]
        await Promise.all(acts.map((act) => t.rejects(act, unavailable, name)))
        t.ok(performance.now() - startMs < 15_000, `${name}: in time`)
        t.equal(budget.used, heldBytes, 'the body is not given away')
        body.release()
        t.equal(budget.used, 0)
      }),
    )
    t.equal(removed.length, 6, 'what may be there all the same is deleted')

    const away: Partial<Objects> = { remove: async () => Promise.reject(new Error('away')) }
    const { jobs } = await start(t, { objects: { ...objects, ...away } })
    const result = await jobs.keepResult(text, newJob(), 1)
    const record = recordOf(newJob(), transcription({ url: 'https://a.example/a' }), result)
    await t.resolves(jobs.drop(result))
    await t.resolves(jobs.removeInput(record))
    await t.rejects(jobs.removeAll(record), 'a purge is told, so that it does not forget the record')
  },
)

t.test('audio whose spool object is gone is unavailable', async (t: Test) => {
  const { jobs, open, spool, objects, budget } = await start(t, { budgetBytes: 0 })
  const body = await store(open(MIB), noise(MIB))
  body.release()
  await spool.close()
  await t.rejects(jobs.keepAudio(audioOf(body), newJob(), fresh()), unavailable)
  t.ok(await waitUntil(async () => (await keysOf(objects)).length === 0))
  t.equal(budget.used, 0)
})

t.test('an S3 store', { skip: withoutServers, timeout: 180_000 }, async (t: Test) => {
  const server = await startS3(t)
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
  const objects = openS3(t, { endpoint, region, bucket, accessKeyId, secretAccessKey })
  await holdsEverywhere(t, objects)
  await t.test('after aborts', (t: Test) => aborted(t, objects, { count: 160, spanMs: 300 }))

  await t.test('frozen, and killed', async (t: Test) => {
    const { jobs, open, budget } = await start(t, { objects })
    const body = await store(open(MIB), noise(MIB))
    const text = 'x'.repeat(20_000)
    const result = await jobs.keepResult(text, newJob(), 1)
    async function isUnavailable(name: string): Promise<void> {
      const startMs = performance.now()
      await Promise.all([
        t.rejects(jobs.keepAudio(audioOf(body), newJob(), fresh()), unavailable, `${name}: audio`),
        t.rejects(jobs.keepResult(text, newJob(), 1), unavailable, `${name}: result`),
        t.rejects(jobs.open(result), unavailable, `${name}: open`),
      ])
      const tookMs = Math.round(performance.now() - startMs)
      t.ok(tookMs < 15_000, `${name}: ${tookMs} ms`)
    }
    server.freeze()
    await isUnavailable('frozen')
    server.thaw()
    await server.kill()
    await isUnavailable('killed')
    await server.restart()
    t.ok(await waitUntil(async () => (await jobs.open(result).catch(() => null)) === text, 30_000))
    body.release()
    t.equal(budget.used, 0)
  })
})
