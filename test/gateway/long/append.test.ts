import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { newId } from '../../../src/contracts/ids.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { UPLOAD_URL_PREFIX } from '../../../src/contracts/uploads.ts'
import { type AppendOptions, appendBody } from '../../../src/gateway/long/append.ts'
import { Uploads } from '../../../src/gateway/long/uploads.ts'
import { createBlocks } from '../../../src/gateway/storage/blocks.ts'
import { bodyBytes, copyBytes } from '../../../src/gateway/storage/body-bytes.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { sealObjects } from '../../../src/gateway/storage/sealed-objects.ts'
import { createSpool } from '../../../src/gateway/storage/spool.ts'
import { noise, slices } from '../../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../../support/fake-exchange.ts'
import { tempFolder } from '../../support/scratch.ts'
import { waitUntil } from '../../support/wait-until.ts'

const KIB = 1024
const MIB = 1024 * KIB
const OWNER = { workspace: 'acme', app: 'web' }
const NEVER = new AbortController().signal
const CHUNK = 64 * KIB

/** @param between stands between everything and the store */
async function rig(t: Test, length: number, between: (objects: Objects) => Objects = (objects) => objects) {
  const budget = createBudget(64 * MIB)
  const blocks = createBlocks(budget)
  const objects = between(await createFileObjects(await tempFolder(t)))
  const spool = createSpool({ budget, blocks, objects: sealObjects(objects) })
  t.teardown(async () => {
    await spool.close()
    blocks.close()
  })
  const uploads = new Uploads(objects, [Buffer.alloc(32, 9)])
  const id = newId('upl')
  await uploads.create(id, OWNER, { length, metadata: '' }, length, NEVER)
  return {
    budget,
    find: () => uploads.find(id, OWNER, NEVER),
    async read() {
      const audio = await uploads.at(UPLOAD_URL_PREFIX + id, { ...OWNER, maxBytes: length }, NEVER)
      return Buffer.from(await copyBytes(bodyBytes(objects, audio!.source, 0, length, NEVER), length))
    },
    append(request: FakeRequest, offset: number, more: Partial<AppendOptions> = {}) {
      const exchange = new FakeExchange(request)
      const body = { exchange, spool, workspace: 'acme', id, offset, length: exchange.contentLength! }
      return appendBody({ ...body, signal: NEVER, ...more })
    },
  }
}

t.test('pieces begin small and double, up to 8 MiB', async (t) => {
  const bytes = noise(30 * MIB)
  const { append, find, read } = await rig(t, bytes.length)
  await append({ chunks: slices(bytes, CHUNK) }, 0)
  const { pieces } = await find()
  t.same(
    pieces.map((piece) => piece.length / KIB),
    [256, 512, 1024, 2048, 4096, 8192, 8192, 6400],
  )
  t.ok((await read()).equals(bytes))
})

t.test('a client that leaves loses the piece under way, and nothing that was whole', async (t) => {
  const bytes = noise(6 * MIB)
  const { append, find, read, budget } = await rig(t, bytes.length)
  const chunks = slices(bytes, CHUNK)
  await t.rejects(append({ chunks, breaks: { before: 3 * 16, error: 'leave' } }, 0), {
    code: 'CLIENT_CLOSED',
  })
  t.equal((await find()).offset, (256 + 512 + 1024) * KIB)
  // The write that was under way gives its memory back when it has ended.
  await waitUntil(() => budget.used === 0)
  t.equal(budget.used, 0, 'nothing is held')
  const { offset } = await find()
  await append({ chunks: slices(bytes.subarray(offset), CHUNK) }, offset)
  t.ok((await read()).equals(bytes))
})

t.test('a sender that is too slow, and one that another replaces, leave what they brought', async (t) => {
  const bytes = noise(2 * MIB)
  const chunks = slices(bytes, CHUNK)
  const slow = await rig(t, bytes.length)
  const error = new GatewayError('REQUEST_TIMEOUT')
  await t.rejects(slow.append({ chunks, breaks: { before: 20, error } }, 0), { code: 'REQUEST_TIMEOUT' })
  t.equal((await slow.find()).offset, 768 * KIB)
  const replaced = await rig(t, bytes.length)
  const another = new AbortController()
  const check = {
    update() {
      another.abort(new GatewayError('CONFLICT'))
    },
    verify() {},
  }
  await t.rejects(replaced.append({ chunks }, 0, { signal: another.signal, check }), { code: 'CONFLICT' })
  t.equal((await replaced.find()).offset, 0)
})

t.test('a store that fails ends it, and the offset is what the store has', async (t) => {
  const bytes = noise(4 * MIB)
  let puts = 0
  const { append, find, read, budget } = await rig(t, bytes.length, (objects) => ({
    ...objects,
    async put(key, body, length, options) {
      if (/-\d/.test(key.slice(key.lastIndexOf('/'))) && !key.includes('info')) {
        puts += 1
        if (puts === 2) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
      }
      return objects.put(key, body, length, options)
    },
  }))
  await t.rejects(append({ chunks: slices(bytes, CHUNK) }, 0), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.equal((await find()).offset, 256 * KIB)
  t.equal(budget.used, 0, 'nothing is held')
  await append({ chunks: slices(bytes.subarray(256 * KIB), CHUNK) }, 256 * KIB)
  t.ok((await read()).equals(bytes))
})

t.test('a check sees every byte, and its verdict comes before any is kept', async (t) => {
  const bytes = noise(3 * MIB)
  const { append, find } = await rig(t, bytes.length)
  const seen: Buffer[] = []
  const check = {
    update: (chunk: Uint8Array) => void seen.push(Buffer.from(chunk)),
    verify() {
      throw new GatewayError('CHECKSUM_MISMATCH')
    },
  }
  const chunks = slices(bytes, CHUNK)
  await t.rejects(append({ chunks }, 0, { check }), { code: 'CHECKSUM_MISMATCH' })
  t.ok(Buffer.concat(seen).equals(bytes))
  t.equal((await find()).offset, 0)
  await append({ chunks }, 0, { check: { update() {}, verify() {} } })
  t.equal((await find()).pieces.length, 1)
})
