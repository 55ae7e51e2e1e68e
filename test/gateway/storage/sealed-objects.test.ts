import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { sealObjects } from '../../../src/gateway/storage/sealed-objects.ts'
import { tempFolder } from '../../support/scratch.ts'
import { chunksOf, testObjects } from './objects.contract.ts'

const signal = AbortSignal.timeout(30_000)

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const chunk of chunks) all.push(Buffer.from(chunk))
  return Buffer.concat(all)
}

t.test('the contract of object stores, sealed and not', async (t: Test) => {
  const store = sealObjects(await createFileObjects(await tempFolder(t)))
  await t.test('sealed', (t) => testObjects(t, store.sealing))
  await t.test('not sealed', (t) => testObjects(t, store))
})

t.test('what is sealed can be read here, in any range, and nowhere else', async (t: Test) => {
  const root = await tempFolder(t)
  const folder = await createFileObjects(root)
  const store = sealObjects(folder)
  const body = Buffer.concat([Buffer.from('canary '.repeat(20_000)), randomBytes(1_000)])
  await store.sealing.put('spool/acme/req_1/1', chunksOf(body, 4_099), body.length, { signal })
  const upload = await store.sealing.upload('spool/acme/req_1/2', { signal })
  await Promise.all([
    upload.part([body.subarray(0, 7), body.subarray(7, 50_001)], signal),
    upload.part([body.subarray(50_001)], signal),
  ])
  await upload.complete(signal)
  for (const name of ['spool/acme/req_1/1', 'spool/acme/req_1/2']) {
    for (const [start, end] of [
      [0, body.length],
      [0, 1],
      [15, 17],
      [16, 32],
      [31, 33],
      [99_999, 100_113],
      [body.length - 1, body.length],
    ] as const)
      t.ok(
        (await bytesOf(await store.get(name, start, end, signal))).equals(body.subarray(start, end)),
        `${start} to ${end}`,
      )
    t.equal(store.fileOf(name), null, 'its file says nothing')
    const elsewhere = await bytesOf(await sealObjects(folder).get(name, 0, body.length, signal))
    t.equal(elsewhere.length, body.length)
    t.notOk(elsewhere.includes('canary'))
  }
  const files = await readdir(join(root, 'spool'))
  t.equal(files.length, 2)
  const [one, two] = await Promise.all(files.map((file) => readFile(join(root, 'spool', file))))
  t.notOk(one!.includes('canary') || two!.includes('canary'))
  t.notOk(one!.subarray(0, 64).equals(two!.subarray(0, 64)), 'every object has a key of its own')

  await store.remove('spool/acme/req_1/1')
  await t.rejects(store.get('spool/acme/req_1/1', 0, 1, signal))
})

t.test('a write that fails leaves no key behind', async (t: Test) => {
  const folder = await createFileObjects(await tempFolder(t))
  const store = sealObjects(folder)
  const name = 'spool/acme/req_1/1'
  const failing = async function* () {
    yield Buffer.from('half')
    throw new Error('the sender left')
  }
  await t.rejects(store.sealing.put(name, failing(), 8, { signal }))
  await folder.put(name, chunksOf(Buffer.from('plain')), 5, { signal })
  t.equal(String(await bytesOf(await store.get(name, 0, 5, signal))), 'plain')
})
