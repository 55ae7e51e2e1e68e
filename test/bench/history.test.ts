import { join } from 'node:path'
import t from 'tap'
import { appendEntry, entryOf, readHistory } from '../../bench/quick/history.ts'
import { QUICK_FIGURES } from '../../bench/quick/quick.ts'
import { tempFolder } from '../support/scratch.ts'

const COMMIT = '0123456789ab'
const me = { name: 'me', unit: 'µs', own: [12, 13.3333, 14], base: [], peer: [6, 6.6, 7] }

t.test('what is appended is read again, in its order', async (t) => {
  const path = join(await tempFolder(t), 'history.jsonl')
  t.same(readHistory(path), [])
  const first = entryOf([me], ['me'], COMMIT)
  t.same(first.figures, { me: { value: 13.3, unit: 'µs', ratio: 2 } })
  const second = { ...first, commit: 'ba9876543210' }
  appendEntry(first, path)
  appendEntry(second, path)
  t.same(readHistory(path), [first, second])
})

t.test('nothing is recorded that would not be a reference', async (t) => {
  t.throws(() => entryOf([me], ['me'], `${COMMIT}-dirty`), /is no commit/)
  t.throws(() => entryOf([me], ['me'], 'unknown'), /is no commit/)
  t.throws(() => entryOf([me], ['me', 'start'], COMMIT), /start was not measured/)
  t.throws(() => entryOf([{ ...me, peer: [] }], ['me'], COMMIT), /me was not measured/)
})

t.test('the last entry of the history has every figure of the quick set', async (t) => {
  const last = readHistory().at(-1)
  t.match(last?.commit, /^[0-9a-f]{7,40}$/)
  t.same(Object.keys(last?.figures ?? {}).sort(), [...QUICK_FIGURES].sort())
})
