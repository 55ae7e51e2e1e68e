import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { newId } from '../../../src/contracts/ids.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { UPLOAD_SECONDS, UPLOAD_URL_PREFIX } from '../../../src/contracts/uploads.ts'
import { pieceName, Uploads, type UploadTerms } from '../../../src/gateway/long/uploads.ts'
import { bodyBytes, chunksOf, copyBytes } from '../../../src/gateway/storage/body-bytes.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { startSweeper } from '../../../src/gateway/storage/sweep.ts'
import { tempFolder } from '../../support/scratch.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const OWNER = { workspace: 'acme', app: 'web' }
const USER = { ...OWNER, maxBytes: 1_000_000 }
const QUOTA = 1_000_000
const SECRET_KEYS = [Buffer.alloc(32, 9)]
const SIGNAL = new AbortController().signal

async function openStore(t: Test) {
  const clock = new VirtualClock()
  const root = await tempFolder(t)
  const objects = await createFileObjects(root, undefined, clock)
  const uploads = new Uploads(objects, SECRET_KEYS, clock)
  const add = (id: string, start: number, bytes: Uint8Array) => {
    const random = createHash('sha256').update(bytes).update(String(start)).digest('hex').slice(0, 16)
    const key = `resumable/acme/${id}/${pieceName(start, start + bytes.length)}${random}`
    return objects.put(key, chunksOf(bytes), bytes.length, { signal: SIGNAL })
  }
  const make = async (terms: UploadTerms, quota = QUOTA) => {
    const id = newId('upl', clock.wallNow())
    await uploads.create(id, OWNER, terms, quota, SIGNAL)
    return id
  }
  const read = async (id: string, start = 0, end?: number) => {
    const audio = await uploads.at(UPLOAD_URL_PREFIX + id, USER, SIGNAL)
    const to = end ?? audio!.length
    const bytes = await copyBytes(bodyBytes(objects, audio!.source, start, to, SIGNAL), to - start)
    return Buffer.from(bytes).toString()
  }
  return { clock, objects, uploads, add, make, read }
}

const text = (value: string) => Buffer.from(value)
const plain = (length: number): UploadTerms => ({ length, metadata: '' })

t.test('the offset is where the pieces that follow one another end', async (t) => {
  const { uploads, add, make } = await openStore(t)
  const id = await make(plain(10))
  const offset = async () => (await uploads.find(id, OWNER, SIGNAL)).offset
  t.equal(await offset(), 0)
  await add(id, 4, text('efg'))
  t.equal(await offset(), 0, 'what is behind a gap does not count')
  await add(id, 0, text('ab'))
  t.equal(await offset(), 2)
  await add(id, 2, text('cd'))
  t.equal(await offset(), 7, 'until it is closed')
})

t.test('of pieces that overlap the longest counts, and each byte is read once', async (t) => {
  const { add, make, read } = await openStore(t)
  const id = await make(plain(10))
  for (const [start, bytes] of [
    [0, 'ab'],
    [0, 'abcd'],
    [1, 'bc'],
    [3, 'defg'],
    [4, 'ef'],
    [6, 'ghij'],
  ] as const)
    await add(id, start, text(bytes))
  t.equal(await read(id), 'abcdefghij')
  for (let start = 0; start < 10; start += 1)
    for (let end = start + 1; end <= 10; end += 1)
      t.equal(await read(id, start, end), 'abcdefghij'.slice(start, end), `${start} to ${end}`)
})

t.test('a final upload is its parts one after the other, as often as each is named', async (t) => {
  const { clock, uploads, add, make, read } = await openStore(t)
  const one = await make({ ...plain(3), concat: 'partial' })
  const two = await make({ ...plain(2), concat: 'partial' })
  await add(one, 0, text('abc'))
  await add(two, 0, text('x'))
  const id = await make({ ...plain(8), concat: { parts: [one, two, one] } })
  await t.rejects(read(id), { code: 'INVALID_REQUEST', extra: { param: 'audio.upload_id' } })
  await add(two, 1, text('y'))
  t.equal(await read(id), 'abcxyabc')
  await t.rejects(read(one), { code: 'INVALID_REQUEST' }, 'a partial one is no audio')
  await clock.advance(3_600_000)
  const later = await make({ ...plain(3), concat: { parts: [one] } })
  const { expiresAtMs } = await uploads.find(one, OWNER, SIGNAL)
  t.equal(
    (await uploads.find(later, OWNER, SIGNAL)).expiresAtMs,
    expiresAtMs,
    'no longer than its parts are there',
  )
  await uploads.remove(two, OWNER)
  await t.rejects(read(id), { code: 'NOT_FOUND' }, 'nothing is left out where a part is gone')
  await clock.advance(UPLOAD_SECONDS * 1000 - 3_600_000)
  await t.rejects(uploads.find(later, OWNER, SIGNAL), { code: 'NOT_FOUND' })
})

t.test('an upload is its app’s, and ends a day after it began', async (t) => {
  const { clock, uploads, add, make, read, objects } = await openStore(t)
  const id = await make(plain(3))
  await add(id, 0, text('abc'))
  for (const other of [
    { workspace: 'acme', app: 'other' },
    { workspace: 'beta', app: 'web' },
  ])
    await t.rejects(uploads.find(id, other, SIGNAL), { code: 'NOT_FOUND' })
  for (const bad of ['', 'upl_', '../acme', `${id}x`, id.toUpperCase(), newId('req')])
    await t.rejects(uploads.find(bad, OWNER, SIGNAL), { code: 'NOT_FOUND' }, bad)
  const sweeper = await startSweeper({ objects, log: createLogger('silent'), alone: false, clock })
  t.teardown(() => sweeper.stop())
  await clock.advance(UPLOAD_SECONDS * 1000 - 1)
  t.equal(await read(id), 'abc')
  await clock.advance(1)
  await t.rejects(uploads.find(id, OWNER, SIGNAL), { code: 'NOT_FOUND' })
  await clock.advance(3_600_000)
  await sweeper.round()
  const left: string[] = []
  for await (const { key } of objects.list('resumable/')) left.push(key)
  t.same(left, [], 'nothing is left in the store')
})

t.test('what a caller says of an upload can be read with the node’s keys alone', async (t) => {
  const { objects, clock, make } = await openStore(t)
  const id = await make({ ...plain(3), metadata: 'filename c2VjcmV0' })
  for await (const { key, bytes } of objects.list('resumable/')) {
    const kept = Buffer.from(await copyBytes(await objects.get(key, 0, bytes, SIGNAL), bytes)).toString()
    t.match(kept, /^sealed1\./)
    t.notMatch(kept, 'c2VjcmV0')
  }
  const others = new Uploads(objects, [Buffer.alloc(32, 8)], clock)
  await t.rejects(others.find(id, OWNER, SIGNAL), { code: 'NOT_FOUND' })
  const rotated = new Uploads(objects, [Buffer.alloc(32, 8), ...SECRET_KEYS], clock)
  t.match(await rotated.find(id, OWNER, SIGNAL), { metadata: 'filename c2VjcmV0' })
})

t.test('the uploads of a workspace have the room that is given to them', async (t) => {
  const { clock, uploads, make } = await openStore(t)
  const first = await make(plain(600), 1_000)
  await t.rejects(make(plain(401), 1_000), {
    code: 'REQUEST_TOO_LARGE',
    extra: { details: { limit: 'max_upload_bytes_per_workspace', used_bytes: 600 } },
  })
  const second = await make({ ...plain(400), concat: 'partial' }, 1_000)
  await make({ ...plain(400), concat: { parts: [second] } }, 1_000)
  await t.rejects(make(plain(1), 1_000), { code: 'REQUEST_TOO_LARGE' })
  await uploads.remove(first, OWNER)
  await make(plain(600), 1_000)
  await clock.advance(UPLOAD_SECONDS * 1000)
  await make(plain(1_000), 1_000)
})

t.test('a workspace has 1,000 uploads at most', async (t) => {
  const { clock, objects, uploads, make } = await openStore(t)
  const first = await make(plain(1))
  const others = Array.from({ length: 999 }, () => `resumable/acme/${newId('upl', clock.wallNow())}/info-1`)
  await Promise.all(others.map((key) => objects.put(key, chunksOf(text('{}')), 2, { signal: SIGNAL })))
  await t.rejects(make(plain(1)), { code: 'CONFLICT' })
  await uploads.remove(first, OWNER)
  t.ok(await make(plain(1)))
})

t.test('the newest request adds alone: those before it leave first', async (t) => {
  const { uploads } = await openStore(t)
  const order: string[] = []
  const act = (name: string) =>
    uploads.alone('upl_1', async (signal) => {
      order.push(`${name} begins`)
      if (name !== 'c') await new Promise((resolve) => signal.addEventListener('abort', resolve))
      order.push(`${name} ends`)
      signal.throwIfAborted()
    })
  const [a, b] = [act('a'), act('b')]
  a.catch(() => {})
  b.catch(() => {})
  await act('c')
  await t.rejects(a, { code: 'CONFLICT' })
  await t.rejects(b, { code: 'CONFLICT' })
  t.same(order, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})
