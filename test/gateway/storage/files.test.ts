import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { tempFolder } from '../../support/scratch.ts'
import { chunksOf, testObjects } from './objects.contract.ts'
import { watchSyncs } from './watch-syncs.ts'

t.test('the contract of object stores', async (t: Test) => {
  await testObjects(t, await createFileObjects(await tempFolder(t)))
})

t.test('an object is one file in the folder of its kind, and nothing else stays', async (t: Test) => {
  const root = await tempFolder(t)
  const objects = await createFileObjects(root)
  const signal = AbortSignal.timeout(5_000)
  await objects.put('job/acme/tj_1/1', chunksOf(Buffer.from('audio')), 5, { signal })
  t.same(await readdir(join(root, 'job')), ['acme+tj_1+1'])
  const partition = 'usage/date=2026-11-22'
  await objects.put(`${partition}/seg_1.parquet`, chunksOf(Buffer.from('rows')), 4, { signal })
  t.same(await readdir(join(root, partition)), ['seg_1.parquet'], 'where other programs look for it')
  for (const stray of ['job/.DS_Store', 'job/a file', 'usage/.DS_Store', 'usage/note'])
    await writeFile(join(root, stray), '')
  const found: string[] = []
  for await (const { key } of objects.list('')) found.push(key)
  t.same(found, ['job/acme/tj_1/1', `${partition}/seg_1.parquet`])
  for (const stray of ['usage/.DS_Store', 'usage/note']) await rm(join(root, stray))
  await objects.remove(`${partition}/seg_1.parquet`)
  t.same(await readdir(join(root, 'usage')), [])
  t.same(await readdir(join(root, 'tmp')), [])
})

t.test('a folder that is gone or cannot be written answers with DEPENDENCY_UNAVAILABLE', async (t: Test) => {
  const root = await tempFolder(t)
  const objects = await createFileObjects(root)
  const signal = AbortSignal.timeout(5_000)
  await rm(root, { recursive: true })
  const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }
  await t.rejects(objects.put('spool/a/1/1', chunksOf(Buffer.from('x')), 1, { signal }), unavailable)
  await t.rejects(objects.upload('spool/a/1/1', { signal }), unavailable)
  await t.rejects(objects.ping(signal), unavailable)
  await mkdir(root)
  await writeFile(join(root, 'spool'), 'a file where the folder was')
  await t.rejects(objects.get('spool/a/1/1', 0, 1, signal), unavailable)
})

t.test(
  'what has to last is on the disk before it is there, and its name is before it is told',
  async (t: Test) => {
    const root = await tempFolder(t)
    const objects = await createFileObjects(root)
    const signal = AbortSignal.timeout(20_000)
    const synced: string[] = []
    await watchSyncs(t, async (sync, folder) => {
      await sync()
      const [there] = [...(await readdir(join(root, 'job'))), ...(await readdir(join(root, 'result')))]
      synced.push(`${folder ? 'folder' : 'file'}, ${there === undefined ? 'not there' : 'there'}`)
    })
    const expected = ['file, not there', 'folder, there']
    for (const kind of ['job', 'result']) {
      await objects.put(`${kind}/acme/tj_1/1`, chunksOf(Buffer.from('audio')), 5, { signal })
      t.same(synced.splice(0), expected, kind)
      await objects.remove(`${kind}/acme/tj_1/1`)
      const upload = await objects.upload(`${kind}/acme/tj_1/2`, { signal })
      await upload.part([Buffer.from('audio')], signal)
      await upload.complete(signal)
      t.same(synced.splice(0), expected, `${kind}, in parts`)
      await objects.remove(`${kind}/acme/tj_1/2`)
    }
    await objects.put('spool/acme/req_1/1', chunksOf(Buffer.from('audio')), 5, { signal })
    t.same(synced, [], 'what is of no use after a restart is not forced')
  },
)
