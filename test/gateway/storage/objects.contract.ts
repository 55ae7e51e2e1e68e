import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { digest, keysOf, MIB, noise } from './rig.ts'

const PART = 5 * MIB
const fresh = () => AbortSignal.timeout(60_000)

export async function* chunksOf(body: Uint8Array, size = 100_000): AsyncGenerator<Uint8Array> {
  const reused = Buffer.alloc(size)
  for (let at = 0; at < body.length; at += size) {
    // A store may read a chunk only until it asks for the next one.
    reused.fill(0xee)
    const part = body.subarray(at, at + size)
    reused.set(part)
    yield reused.subarray(0, part.length)
  }
}

async function read(objects: Objects, key: string, start: number, end: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of await objects.get(key, start, end, fresh())) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }

/** The contract of every object store; run against the folder and against a real S3 server. */
export async function testObjects(t: Test, objects: Objects): Promise<void> {
  const keys = async (prefix: string) => (await keysOf(objects, prefix)).sort()

  await t.test('an object comes out as it went in', async (t: Test) => {
    for (const length of [0, 1, 65_536, MIB + 1, 26 * MIB + 3]) {
      const body = noise(length)
      const key = `job/acme/whole-${length}/1`
      await objects.put(key, chunksOf(body, 700_001), length, { signal: fresh() })
      t.equal(digest(await read(objects, key, 0, length)), digest(body), `${length} bytes`)
      await objects.remove(key)
    }
  })

  await t.test('ranges are half open', async (t: Test) => {
    const body = noise(300_000)
    await objects.put('result/acme/r/1', chunksOf(body), body.length, { signal: fresh() })
    const ranges = [
      [0, 1],
      [299_999, 300_000],
      [65_535, 65_537],
      [10, 10],
      [0, 300_000],
    ] as const
    for (const [start, end] of ranges) {
      t.ok(
        (await read(objects, 'result/acme/r/1', start, end)).equals(body.subarray(start, end)),
        `${start}-${end}`,
      )
    }
    await t.rejects(read(objects, 'result/acme/r/1', 299_999, 300_001), unavailable, 'beyond the end')
    const file = objects.fileOf('result/acme/r/1')
    if (file !== null) t.ok(body.equals(await readFile(file)), 'others can read its file')
    await objects.remove('result/acme/r/1')
  })

  await t.test('a range that its reader leaves early, and one that is aborted', async (t: Test) => {
    const body = noise(5 * MIB)
    await objects.put('result/acme/r/2', chunksOf(body), body.length, { signal: fresh() })
    for await (const _ of await objects.get('result/acme/r/2', 0, body.length, fresh())) break
    const controller = new AbortController()
    const reason = new Error('the client left')
    controller.abort(reason)
    await t.rejects(objects.get('result/acme/r/2', 0, 10, controller.signal), reason)
    await objects.remove('result/acme/r/2')
  })

  await t.test('lists what is below a prefix, with sizes and times', async (t: Test) => {
    const before = Date.now() - 5_000
    for (const key of ['spool/acme/a/1', 'spool/acme/b/1', 'spool/other/a/1', 'job/acme/a/1']) {
      await objects.put(key, chunksOf(Buffer.from('12345')), 5, { signal: fresh() })
    }
    t.same(await keys('spool/acme/'), ['spool/acme/a/1', 'spool/acme/b/1'])
    t.same(await keys('spool/'), ['spool/acme/a/1', 'spool/acme/b/1', 'spool/other/a/1'])
    for await (const { bytes, modifiedAt } of objects.list('job/')) {
      t.equal(bytes, 5)
      t.ok(modifiedAt.getTime() > before && modifiedAt.getTime() < Date.now() + 5_000)
    }
    for (const key of await keys('')) await objects.remove(key)
    t.same(await keys(''), [])
  })

  await t.test('files of usage are in partitions, and one that is put again is replaced', async (t: Test) => {
    const put = (key: string, text: string) =>
      objects.put(key, chunksOf(Buffer.from(text)), text.length, { signal: fresh() })
    const [today, yesterday] = ['usage/date=2026-11-22/', 'usage/date=2026-11-21/']
    await put(`${today}seg_1.parquet`, 'first')
    await put(`${today}seg_1.parquet`, 'second')
    await put(`${today}seg_2.parquet`, '2')
    await put(`${yesterday}seg_1.parquet`, '1')
    await put('aggregate/2026-11-22/seg_1', 'sums')
    t.equal((await read(objects, `${today}seg_1.parquet`, 0, 6)).toString(), 'second')
    t.same(await keys(today), [`${today}seg_1.parquet`, `${today}seg_2.parquet`])
    t.same(await keys('usage/'), [`${yesterday}seg_1.parquet`, ...(await keys(today))])
    t.same(await keys('usage/date=2026-11-2'), await keys('usage/'))
    t.same(await keys('usage/date=2026-11-20/'), [])
    for (const key of await keys('')) await objects.remove(key)
    t.same(await keys(''), [])
    await put(`${today}seg_1.parquet`, 'again')
    await objects.remove(`${today}seg_1.parquet`)
    for (const key of [
      'usage/seg_1',
      'usage/date=2026-11-22',
      'usage/date=../seg_1',
      'job/date=2026-11-22/1',
    ])
      await t.rejects(put(key, 'x'), key)
  })

  await t.test('an absent object: removed without an error, read with one', async (t: Test) => {
    await objects.remove('spool/acme/none/1')
    await t.rejects(objects.get('spool/acme/none/1', 0, 1, fresh()), unavailable)
  })

  await t.test('a body that fails, is too short, too long or aborted leaves nothing', async (t: Test) => {
    const body = noise(3 * MIB)
    const failing = async function* () {
      yield* chunksOf(body.subarray(0, MIB))
      throw new GatewayError('AUDIO_TOO_LARGE')
    }
    const put = (chunks: AsyncIterable<Uint8Array>, signal = fresh()) =>
      objects.put('spool/acme/cut/1', chunks, body.length, { signal })
    await t.rejects(put(failing()), { code: 'AUDIO_TOO_LARGE' })
    await t.rejects(put(chunksOf(body.subarray(0, body.length - 1))), unavailable)
    await t.rejects(put(chunksOf(noise(body.length + 1))), unavailable)
    const controller = new AbortController()
    const reason = new Error('the client left')
    const hanging = async function* () {
      yield* chunksOf(body.subarray(0, 2 * MIB))
      setTimeout(() => controller.abort(reason), 20)
      await new Promise(() => {})
    }
    await t.rejects(put(hanging(), controller.signal), reason)
    await t.rejects(put(chunksOf(body), controller.signal), reason, 'aborted before it began')
    t.same(await keys(''), [])
    t.equal(await objects.abortUploads('', new Date(Date.now() + 60_000)), 0, 'nothing half written either')
  })

  await t.test('parts make one object, which appears with the last of them', async (t: Test) => {
    const body = noise(2 * PART + 12_345)
    const upload = await objects.upload('spool/acme/parts/1', { signal: fresh() })
    for (let at = 0; at < body.length; at += PART) {
      const part = body.subarray(at, at + PART)
      const blocks = [part.subarray(0, MIB), part.subarray(MIB)]
      await upload.part(blocks, fresh())
      t.same(await keys('spool/'), [])
    }
    await upload.complete(fresh())
    t.equal(digest(await read(objects, 'spool/acme/parts/1', 0, body.length)), digest(body))
    await upload.abort()
    t.same(await keys('spool/'), ['spool/acme/parts/1'], 'an abort behind completion changes nothing')
    await objects.remove('spool/acme/parts/1')
  })

  await t.test('an aborted upload leaves nothing, whatever was under way', async (t: Test) => {
    const part = [noise(PART)]
    for (const delayMs of [0, 1, 5, 20, 60]) {
      const upload = await objects.upload('spool/acme/parts/2', { signal: fresh() })
      const first = upload.part(part, fresh()).catch(() => {})
      await sleep(delayMs)
      await Promise.all([upload.abort(), upload.abort()])
      await first
      await t.rejects(upload.part(part, fresh()), 'no part after it')
    }
    const controller = new AbortController()
    const starting = objects.upload('spool/acme/parts/3', { signal: controller.signal })
    controller.abort(new Error('the client left'))
    await t.rejects(starting, new Error('the client left'))
    t.equal(await objects.abortUploads('', new Date(Date.now() + 60_000)), 0)
    t.same(await keys(''), [])
  })

  await t.test('open uploads are found by prefix and age', async (t: Test) => {
    const begun = Date.now()
    const spool = await objects.upload('spool/acme/open/1', { signal: fresh() })
    const job = await objects.upload('job/acme/open/1', { signal: fresh() })
    t.equal(await objects.abortUploads('', new Date(begun - 60_000)), 0, 'too young')
    t.equal(await objects.abortUploads('spool/', new Date(Date.now() + 60_000)), 1)
    t.equal(await objects.abortUploads('', new Date(Date.now() + 60_000)), 1)
    await t.rejects(job.complete(fresh()), unavailable)
    await Promise.all([spool.abort(), job.abort()])
  })

  await t.test('keys that could leave their place are refused before anything happens', async (t: Test) => {
    const bad = ['', 'spool', 'spool/', 'other/a/1', 'spool/../job/a', 'spool/./a', 'spool//a', '/etc/passwd']
    for (const key of [...bad, 'spool/a\0b', 'spool/a b', 'spool/..', `spool/${'a'.repeat(300)}`]) {
      await t.rejects(
        objects.put(key, chunksOf(Buffer.from('x')), 1, { signal: fresh() }),
        JSON.stringify(key),
      )
      await t.rejects(
        Promise.resolve().then(() => objects.get(key, 0, 1, fresh())),
        key,
      )
      await t.rejects(
        Promise.resolve().then(() => objects.remove(key)),
        key,
      )
      await t.rejects(
        Promise.resolve().then(() => objects.upload(key, { signal: fresh() })),
        key,
      )
    }
    t.same(await keys(''), [])
  })

  await t.test('many at once', async (t: Test) => {
    const bodies = Array.from({ length: 24 }, (_, i) => noise(i * 50_000))
    await Promise.all(
      bodies.map((body, i) =>
        objects.put(`spool/acme/many/${i}`, chunksOf(body), body.length, { signal: fresh() }),
      ),
    )
    const read1 = (body: Buffer, i: number) => read(objects, `spool/acme/many/${i}`, 0, body.length)
    const copies = await Promise.all(bodies.map(read1))
    t.ok(copies.every((copy, i) => copy.equals(bodies[i]!)))
    await Promise.all(bodies.map((_, i) => objects.remove(`spool/acme/many/${i}`)))
    t.same(await keys(''), [])
  })

  await t.test('ping answers', async () => {
    await objects.ping(fresh())
  })
}
