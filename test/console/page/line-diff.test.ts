import fc from 'fast-check'
import t from 'tap'
import { type DiffRow, diffBlocks, diffLines } from '../../../src/console/page/views/routes/diff.ts'

const lines = (...all: string[]) => all.join('\n')

t.test('removed and added lines are side by side', async (t) => {
  t.same(diffLines(lines('a', 'b', 'c'), lines('a', 'x', 'c', 'd')), [
    { kind: 'same', before: 'a', after: 'a' },
    { kind: 'changed', before: 'b', after: 'x' },
    { kind: 'same', before: 'c', after: 'c' },
    { kind: 'added', before: null, after: 'd' },
  ])
  t.same(diffLines(lines('a', 'b'), 'b'), [
    { kind: 'removed', before: 'a', after: null },
    { kind: 'same', before: 'b', after: 'b' },
  ])
})

const text = fc.array(fc.constantFrom('a', 'b', 'c', '}'), { minLength: 1, maxLength: 40 })
const side = (rows: readonly DiffRow[], name: 'before' | 'after') =>
  rows.flatMap((row) => (row[name] === null ? [] : [row[name]]))

t.test('both texts can be read back, and what is said to be equal is', async (t) => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const rows = diffLines(before.join('\n'), after.join('\n'))
      t.strictSame(side(rows, 'before'), before)
      t.strictSame(side(rows, 'after'), after)
      for (const row of rows)
        if ((row.before === row.after) !== (row.kind === 'same')) t.fail(JSON.stringify(row))
    }),
    { numRuns: 200 },
  )
})

t.test('equal texts have no difference', async (t) => {
  t.ok(diffLines('a\nb', 'a\nb').every(({ kind }) => kind === 'same'))
})

t.test('a long text is compared all the same', async (t) => {
  const many = (word: string) => Array.from({ length: 3000 }, (_, index) => `${word} ${index}`).join('\n')
  const rows = diffLines(`x\n${many('old')}`, `x\n${many('new')}`)
  t.equal(rows.length, 3001)
  t.equal(rows.filter(({ kind }) => kind === 'changed').length, 3000)
})

t.test('only what is around a difference is shown', async (t) => {
  const before = Array.from({ length: 20 }, (_, index) => `${index}`)
  const rows = diffLines(before.join('\n'), before.with(3, 'x').with(15, 'y').join('\n'))
  const blocks = diffBlocks(rows, 2)
  t.same(
    blocks.map(({ skipped, rows }) => [skipped, rows.map(({ after }) => after)]),
    [
      [1, ['1', '2', 'x', '4', '5']],
      [7, ['13', '14', 'y', '16', '17']],
    ],
  )
  t.same(diffBlocks(diffLines('a', 'a'), 2), [])
})

t.test('where there is no text there is no line either', async (t) => {
  t.strictSame(diffLines(null, 'a'), [{ kind: 'added', before: null, after: 'a' }])
  t.strictSame(diffLines('a', null), [{ kind: 'removed', before: 'a', after: null }])
})
