import { appendFile, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { HeldEntry } from '../../src/contracts/recorder.ts'
import { MoneyJournal, readJournal } from '../../src/usage/money-journal.ts'
import { tempFolder } from '../support/scratch.ts'

const held = (token: string, micros: number) => ({
  ...{ workspace: 'acme', token, estimate: { platformMicros: 0, spendMicros: 0 } },
  charge: { platformMicros: micros, spendMicros: micros, overageMicros: 0 },
})

/** A journal that is told what `changed` has. */
async function journalOf(t: Test) {
  const folder = await tempFolder(t)
  const journal = new MoneyJournal(folder)
  const all = new Map<string, HeldEntry>()
  let changed: HeldEntry[] = []
  journal.keep({
    entries(isAll) {
      const entries = isAll ? [...all.values()] : changed
      changed = []
      return entries
    },
  })
  return {
    folder,
    journal,
    write(entry: HeldEntry, segment: { id: string; bytes: number } | null = null) {
      changed.push(entry)
      if (entry.money === undefined) all.delete(entry.key)
      else all.set(entry.key, entry)
      journal.write(segment)
    },
    tokens: async () =>
      (await readJournal(folder))?.money.map(({ token, charge }) => [token, charge.spendMicros]),
  }
}

t.test('of each key the last line counts, and one that is cut off does not', async (t) => {
  const { folder, write, tokens } = await journalOf(t)
  t.equal(await readJournal(folder), null)
  write({ key: 'a', money: [held('one', 1), held('two', 2)] })
  write({ key: 'b', money: [held('three', 3)] })
  write({ key: 'a', money: [held('two', 5)] })
  t.same(await tokens(), [
    ['two', 5],
    ['three', 3],
  ])
  write({ key: 'b' })
  await appendFile(join(folder, 'money'), '{"segment":null,"bytes":0,"entries":[{"key":"a","mo')
  t.same(await tokens(), [['two', 5]])
})

t.test('a line counts with the records that it counts, or not at all', async (t) => {
  const { folder, write, tokens } = await journalOf(t)
  const path = join(folder, 'seg_1.usage')
  await writeFile(path, Buffer.alloc(100))
  write({ key: 'a', money: [held('one', 1)] }, { id: 'seg_1', bytes: 100 })
  write({ key: 'a', money: [held('one', 2)] }, { id: 'seg_1', bytes: 150 })
  t.same(await tokens(), [['one', 1]], 'the records were not written')
  await writeFile(path, Buffer.alloc(149))
  t.same(await tokens(), [['one', 1]], 'not all of them were')
  await writeFile(path, Buffer.alloc(150))
  t.same(await tokens(), [['one', 2]])
  await rm(path)
  t.same(await tokens(), [['one', 2]], 'the segment was handed on')
})

t.test('a journal does not grow, and is gone when nothing is held', async (t) => {
  const { folder, journal, write, tokens } = await journalOf(t)
  for (let count = 0; count < 10_000; count += 1) write({ key: 'a', money: [held('one', count)] })
  t.ok((await readFile(join(folder, 'money'))).length < 1.2 * 1024 * 1024)
  t.same(await tokens(), [['one', 9_999]])
  journal.close()
  t.same(await tokens(), [['one', 9_999]], 'it is for whoever takes the folder over')
  write({ key: 'a' })
  journal.close()
  t.equal(await readJournal(folder), null)
})

t.test('money that takes more than the file may have is not written anew each time', async (t) => {
  const { folder, write, tokens } = await journalOf(t)
  const path = join(folder, 'money')
  for (let count = 0; count < 10_000; count += 1) write({ key: `k${count}`, money: [held(`t${count}`, 1)] })
  let files = 0
  for (let [count, last] = [0, 0]; count < 500; count += 1) {
    write({ key: 'k0', money: [held('t0', count)] })
    const { ino, birthtimeMs } = await stat(path)
    files += last === ino + birthtimeMs ? 0 : 1
    last = ino + birthtimeMs
  }
  t.ok(files <= 2, `${files} files for 500 lines`)
  t.equal((await tokens())?.length, 10_000)
  t.same((await tokens())?.[0], ['t0', 499])
})
