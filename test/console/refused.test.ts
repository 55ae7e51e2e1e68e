import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startConsoleBench } from '../support/console-bench.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('an operator sees why the newest configuration does not serve', async (t) => {
  const { larkway, visitors } = await startConsoleBench(t)
  const { admin, operator } = visitors
  const path = join(larkway.dataFolder, 'larkway.yaml')
  const good = await readFile(path, 'utf8')
  const refused = async () => (await operator.get('overview')).body.refused as readonly string[]
  t.same(await refused(), [])

  await writeFile(path, good.replace('"route":"acme"', '"route":"nowhere"'))
  t.ok(await waitUntil(async () => (await refused()).length > 0))
  t.match(await refused(), [/nowhere/])
  t.match((await operator.get('overview?workspace=acme')).body.refused, [/nowhere/])
  for (const own of ['overview', 'overview?workspace=acme'])
    t.equal((await admin.get(own)).body.refused, null, 'an admin is told nothing of the file')

  await writeFile(path, good)
  t.ok(await waitUntil(async () => (await refused()).length === 0))
})
