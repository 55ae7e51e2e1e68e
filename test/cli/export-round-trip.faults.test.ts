import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { check } from '../../src/cli/check.ts'
import type { CliContext } from '../../src/cli/context.ts'
import { exportFile, importFile } from '../../src/cli/transfer.ts'
import { sealCredential } from '../../src/gateway/catalog/secret.ts'
import { catalogs } from './generated-catalog.ts'

const RUNS = process.env.LARKWAY_TEST_LONG === '1' ? 300 : 10
const EMPTY = 'providers: {}\nroutes: {}\nworkspaces: {}\n'
const KEY = randomBytes(32)
const SECRETS = { SECRET: 'sk-of-the-environment', LARKWAY_SECRET_KEYS: KEY.toString('base64') }

t.test('export, import into an empty state and export again: the same bytes', async (t) => {
  const root = t.testdir({ secret: 'sk-of-a-file\n' })

  /** A data folder of its own, with a configuration that is served beside it. */
  async function place(config: string) {
    const folder = await mkdtemp(join(root, 'data-'))
    const path = join(folder, 'larkway.yaml')
    await writeFile(path, config)
    let printed = ''
    const env = { ...SECRETS, LARKWAY_DATA: folder, LARKWAY_CONFIG: path }
    const desk: CliContext = { env, print: (text) => (printed += text) }
    const run = async (
      command: (args: readonly string[], desk: CliContext) => Promise<number>,
      ...args: string[]
    ) => {
      printed = ''
      const code = await command(args, desk)
      if (code !== 0) throw new Error(printed)
      return printed
    }
    return { folder, path, run, checked: () => check({ path, env, providers: false }, desk.print) }
  }

  const sealed = (provider: string) => sealCredential([KEY], provider, 'sk-that-was-sealed')
  const property = fc.asyncProperty(catalogs({ sealed, file: join(root, 'secret') }), async (document) => {
    const origin = await place(JSON.stringify(document))
    const first = await origin.run(exportFile)

    const copy = await place(first)
    if ((await copy.checked()) !== 0) throw new Error('the export is not valid')

    const target = await place(EMPTY)
    await target.run(importFile, copy.path)
    const again = await target.run(importFile, copy.path)
    if (!/^0 records and 0 keys imported; /.test(again)) throw new Error(`imported twice:\n${again}`)
    const second = await target.run(exportFile)
    if (second !== first) throw new Error(`${first}\n--- differs from\n${second}`)

    const beside = await origin.run(importFile, copy.path)
    if (!/^0 records and 0 keys imported; /.test(beside)) throw new Error(`beside its own file:\n${beside}`)
    if ((await readFile(origin.path, 'utf8')) !== JSON.stringify(document))
      throw new Error('the file changed')
    for (const { folder } of [origin, copy, target]) await rm(folder, { recursive: true })
  })
  await t.resolves(fc.assert(property, { numRuns: RUNS }))
})
