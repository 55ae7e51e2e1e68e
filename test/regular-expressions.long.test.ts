import { test } from 'tap'
import { growthOf, readPatterns, readProved } from './support/regular-expressions.ts'

test('every expression in the list of linear ones is linear', { timeout: 300_000 }, (t) => {
  const { patterns } = readPatterns()
  const listed = [...readProved()].flatMap((name) => patterns.get(name) ?? [])
  t.ok(listed.length > 250, `${listed.length} patterns`)
  t.same(
    listed.filter((pattern) => growthOf(pattern) !== null),
    [],
  )
  t.end()
})
