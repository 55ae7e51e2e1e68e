import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { KeyTable } from '../../../src/gateway/catalog/key-table.ts'
import { storedKey } from '../../support/stored-key.ts'

const FEW = 40_000
const MANY = 140_000
const MIB = 1024 ** 2

t.test('keys whose hashes begin alike are told apart', async (t) => {
  const table = new KeyTable()
  t.teardown(() => table.close())
  const begin = 'f'.repeat(40)
  const [one, other] = ['1', '2'].map((end) => storedKey({ sha256: begin + end.repeat(24) }))
  await table.put([one!, other!], () => t.fail('none was there'))
  t.same(table.find(one!.sha256), one)
  t.same(table.find(other!.sha256), other)
  t.equal(table.find(begin + '3'.repeat(24)), undefined)
  t.same(table.drop(one!.id), one)
  t.equal(table.drop(one!.id), undefined)
  t.same([table.find(one!.sha256), table.find(other!.sha256)], [undefined, other])
})

t.test(
  'what is put again is told of where it is another, and others get their turns meanwhile',
  async (t) => {
    const table = new KeyTable()
    t.teardown(() => table.close())
    const keys = Array.from({ length: 5_000 }, () => storedKey())
    let turns = 0
    const counting = setInterval(() => turns++, 0)
    await table.put(keys, () => t.fail('none was there'))
    clearInterval(counting)
    t.ok(turns > 2, `${turns} turns`)
    const replaced: unknown[] = []
    const named = { ...keys[1]!, name: 'another' }
    await table.put([keys[0]!, named], (key) => replaced.push(key))
    t.same(replaced, [keys[1]])
    t.same([table.byId(named.id), table.size], [named, keys.length])
  },
)

t.test('a reading that fails midway leaves a table that can be read on', async (t) => {
  const table = new KeyTable()
  t.teardown(() => table.close())
  const [good, bad, later] = [storedKey(), storedKey(), storedKey()]
  const broken = { ...bad, workspace: Symbol('none') as unknown as string }
  await t.rejects(table.put([good, broken], () => {}))
  await table.put([bad, later], () => {})
  t.same(
    [good, bad, later].map(({ id }) => table.byId(id)?.id),
    [good.id, bad.id, later.id],
  )
})

t.test('beyond its cache a table takes no memory, unless it has no file', async (t) => {
  const [inFile, inMemory] = await Promise.all([growthOf(false), growthOf(true)])
  t.ok(inMemory > 32 * MIB, `${(inMemory / MIB).toFixed(0)} MiB more`)
  t.ok(inFile < inMemory / 2, `${(inFile / MIB).toFixed(0)} MiB more`)
})

/** How much more resident memory a process has with many keys than with few. */
async function growthOf(isInMemory: boolean): Promise<number> {
  const program = `
    import { KeyTable } from '${new URL('../../../src/gateway/catalog/key-table.ts', import.meta.url)}'
    import { storedKey } from '${new URL('../../support/stored-key.ts', import.meta.url)}'
    const table = new KeyTable(${isInMemory})
    const sizes = []
    for (const total of [${FEW}, ${MANY}]) {
      while (table.size < total) await table.put(Array.from({ length: 1_000 }, () => storedKey()), () => {})
      globalThis.gc()
      sizes.push(process.memoryUsage.rss())
    }
    console.log(sizes[1] - sizes[0])
  `
  const args = [
    '--expose-gc',
    '--max-semi-space-size=1',
    '--no-warnings',
    '--input-type=module',
    '--eval',
    program,
  ]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000 })
  return Number(stdout)
}
