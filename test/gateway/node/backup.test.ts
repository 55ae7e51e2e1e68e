import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { BackupError, backUp, restore } from '../../../src/gateway/node/backup.ts'
import { STATE_FILE } from '../../../src/gateway/node/stores.ts'
import { openDatabase } from '../../../src/gateway/state/embedded/database.ts'

const OPTIONS = { hasObjects: true, nowMs: Date.UTC(2026, 0, 1) }
const KEPT = ['result/acme/res_1', 'secret-key', STATE_FILE, 'usage/date=2026-01-01/a.parquet']

/** A data folder without a node, by a path as people write it. */
async function dataFolder(t: Test) {
  const root = t.testdir({
    data: {
      'secret-key': 'secret',
      result: { acme: { res_1: 'transcript' } },
      usage: { 'date=2026-01-01': { 'a.parquet': 'PAR1' } },
      spool: { half: 'a body' },
    },
    elsewhere: {},
  })
  openDatabase(join(root, 'data', STATE_FILE), {}).close()
  return { root, folder: `${root}/./data/` }
}

const namesOf = ({ files }: Awaited<ReturnType<typeof backUp>>) => files.map(({ name }) => name).sort()

t.test('all of a folder is in its backup, however its path is written', async (t) => {
  const { root, folder } = await dataFolder(t)
  const target = `${root}/./backup/`
  t.same(namesOf(await backUp(folder, target, OPTIONS)), KEPT)
  await restore(target, `${root}/./restored/`)
  for (const name of KEPT.filter((one) => one !== STATE_FILE))
    t.same(await readFile(join(root, 'restored', name)), await readFile(join(root, 'data', name)), name)
  await t.rejects(
    backUp(folder, join(root, 'data', 'backup'), OPTIONS),
    BackupError,
    'not in the folder itself',
  )
  await rm(join(root, 'data'), { recursive: true })
})

t.test('links at the top are followed, and others are refused', async (t) => {
  const { root, folder } = await dataFolder(t)
  for (const name of ['secret-key', 'result']) {
    await rename(join(root, 'data', name), join(root, 'elsewhere', name))
    await symlink(join(root, 'elsewhere', name), join(root, 'data', name))
  }
  t.same(namesOf(await backUp(folder, join(root, 'backup'), OPTIONS)), KEPT)
  await symlink(join(root, 'elsewhere'), join(root, 'data', 'usage', 'more'))
  await t.rejects(backUp(folder, join(root, 'other'), OPTIONS), { message: /usage\/more is a link/ })
})

t.test('a restore leaves nothing of another that came to no end', async (t) => {
  const { root, folder } = await dataFolder(t)
  await backUp(folder, join(root, 'backup'), OPTIONS)
  const restored = join(root, 'restored')
  await mkdir(restored)
  await writeFile(join(restored, 'secret-key'), 'of another')
  await t.rejects(restore(join(root, 'backup'), restored), { message: /is not empty/ })
  await rm(join(restored, 'secret-key'))
  await writeFile(join(root, 'backup', 'secret-key'), 'changed')
  await t.rejects(restore(join(root, 'backup'), restored), BackupError)
  await mkdir(join(restored, 'usage', 'date=2025-01-01'), { recursive: true })
  await writeFile(join(restored, 'usage', 'date=2025-01-01', 'b.parquet'), 'PAR1')
  await writeFile(join(root, 'backup', 'secret-key'), 'secret')
  await restore(join(root, 'backup'), restored)
  t.same(await readdir(join(restored, 'usage')), ['date=2026-01-01'])
})
