import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger } from '../../../src/contracts/log.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createFolderLinks } from '../../../src/gateway/storage/folder-links.ts'
import { createResults } from '../../../src/gateway/storage/results.ts'
import { createS3Links } from '../../../src/gateway/storage/s3.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { sharedS3 } from '../../support/shared-s3.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { chunksOf } from './objects.contract.ts'
import { digest, keysOf, MIB, noise, openS3, sweepOnce } from './rig.ts'

const KEYS = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as const
const options = () => ({ workspace: 'acme', mediaType: 'video/mp4', signal: AbortSignal.timeout(60_000) })

async function* owned(body: Uint8Array): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunksOf(body)) yield Uint8Array.from(chunk)
}

async function folderOf(t: Test, clock: Clock = systemClock) {
  const root = await tempFolder(t)
  const objects = await createFileObjects(root)
  const budget = createBudget(64 * MIB)
  const links = createFolderLinks({ keys: KEYS, publicUrl: 'https://lark.example', clock })
  return { root, objects, budget, links, results: createResults({ objects, links, budget }) }
}

t.test('a result is kept whole and opened by its URL alone', async (t: Test) => {
  const { objects, budget, links, results } = await folderOf(t)
  for (const size of [1, 5 * MIB, 12 * MIB + 7]) {
    const body = noise(size)
    const url = await results.keep(owned(body), options())
    t.match(url, /^https:\/\/lark\.example\/results\/[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/)
    const linked = links.open(url.split('/').at(-1) ?? '')
    t.match(linked, { bytes: size, mediaType: 'video/mp4', key: /^result\/acme\/vid_[0-9a-z]{26}\/0$/ })
    const chunks: Buffer[] = []
    const stream = await objects.get(linked?.key ?? '', 0, size, AbortSignal.timeout(10_000))
    for await (const chunk of stream) chunks.push(Buffer.from(chunk))
    t.equal(digest(Buffer.concat(chunks)), digest(body))
  }
  t.equal(budget.used, 0)
})

t.test('what breaks off, is empty or is aborted leaves nothing', async (t: Test) => {
  const { objects, budget, results } = await folderOf(t)
  async function* broken() {
    yield noise(6 * MIB)
    throw new Error('the provider hung up')
  }
  await t.rejects(results.keep(broken(), options()), { message: 'the provider hung up' })
  await t.rejects(results.keep(owned(Buffer.alloc(0)), options()), { code: 'UPSTREAM_ERROR' })
  const signal = AbortSignal.abort(new Error('left'))
  await t.rejects(results.keep(owned(noise(10)), { ...options(), signal }), { message: 'left' })
  t.same(await keysOf(objects), [])
  t.equal(budget.used, 0)
})

t.test('a token that was changed, made elsewhere or is over opens nothing', async (t: Test) => {
  const clock = new VirtualClock(Date.parse('2026-11-20T00:00:00Z'))
  const endsAt = clock.wallNow() / 1000 + 60
  const { links } = await folderOf(t, clock)
  const object = { key: 'result/acme/vid_1/0', bytes: 3, mediaType: 'video/mp4' }
  const token = async (from = links) => (await from.sign(object, endsAt)).split('/').at(-1) ?? ''
  const good = await token()
  t.same(links.open(good), { ...object, leftSeconds: 60 })
  const [claims = '', proof = ''] = good.split('.')
  const forged = Buffer.from(JSON.stringify(['result/other/vid_1/0', 3, 'text/html', 4e9])).toString(
    'base64url',
  )
  for (const bad of [
    '',
    '.',
    claims,
    `${claims}.`,
    `${forged}.${proof}`,
    `${good}x`.slice(1),
    `.${proof}`,
    'a'.repeat(5000),
  ])
    t.equal(links.open(bad), null, bad.slice(0, 20))
  const stranger = createFolderLinks({ keys: [Buffer.alloc(32, 9)], publicUrl: undefined, clock })
  t.equal(links.open(await token(stranger)), null)
  const former = createFolderLinks({ keys: [KEYS[1]], publicUrl: undefined, clock })
  t.match(links.open(await token(former)), object, 'a key that no longer signs still opens')
  t.match(
    await former.sign(object, endsAt),
    /^\/results\//,
    'a path where the node does not know its address',
  )
  await clock.advance(61_000)
  t.equal(links.open(good), null)
})

t.test('results go when their URL is over, and nothing else', async (t: Test) => {
  const { root, objects, results } = await folderOf(t)
  await results.keep(owned(noise(10)), options())
  await objects.put('result/acme/tj_1/1', owned(noise(3)), 3, { signal: AbortSignal.timeout(10_000) })
  const before = await keysOf(objects, 'result/')
  t.equal(before.length, 2)
  const sweep = () => sweepOnce({ objects, log: createLogger('silent'), alone: true })
  await sweep()
  t.same(await keysOf(objects, 'result/'), before)
  for (const key of before) await utimes(join(root, 'result', key.slice(7).replaceAll('/', '+')), 1, 1)
  await sweep()
  t.same(await keysOf(objects, 'result/'), ['result/acme/tj_1/1'])
})

t.test('an S3 store opens its own URLs', { skip: withoutServers, timeout: 120_000 }, async (t: Test) => {
  const server = await sharedS3(t)
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
  const store = { endpoint, region, bucket, accessKeyId, secretAccessKey }
  const objects = openS3(t, store)
  const links = createS3Links(store)
  const results = createResults({ objects, links, budget: createBudget(64 * MIB) })
  const body = noise(6 * MIB)
  const response = await fetch(await results.keep(owned(body), options()))
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'video/mp4')
  t.equal(digest(Buffer.from(await response.arrayBuffer())), digest(body))
  const nowSeconds = Math.floor(Date.now() / 1000)
  const over = new URL(
    await links.sign({ key: 'result/a/b/0', bytes: 1, mediaType: 'video/mp4' }, nowSeconds + 60),
  )
  const signedAtMs = Date.parse(
    String(over.searchParams.get('X-Amz-Date')).replace(/^(....)(..)(..T..)(..)(..)Z$/, '$1-$2-$3:$4:$5Z'),
  )
  const heldSeconds = Number(over.searchParams.get('X-Amz-Expires'))
  t.equal(signedAtMs / 1000 + heldSeconds, nowSeconds + 60, 'to the second')
  const part = new URL(
    await links.sign({ key: 'result/a/b/0', bytes: 1, mediaType: 'a/b' }, nowSeconds + 60.001),
  )
  t.ok(Number(part.searchParams.get('X-Amz-Expires')) >= 60, 'a part of a second counts as a whole one')
  over.searchParams.set('X-Amz-Signature', '0'.repeat(64))
  t.equal((await fetch(over)).status, 403)
})
