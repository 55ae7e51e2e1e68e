import fc from 'fast-check'
import { test } from 'tap'
import { match as packageMatch, same as packageSame } from 'tcompare'
import { match, same } from '../../scripts/tap-compare.mjs'

class Named {
  name = 'one'
}
/** It goes on behind what it found last. */
const GLOBAL = /a/g
const circle = { again: null }
circle.again = circle

const ODD = [
  ...[undefined, null, true, 0, -0, 1, Number.NaN, 1n, '', 'a', 'abc', '1', Symbol.iterator, String, Number],
  ...[
    [],
    [1],
    [1, 2],
    [undefined],
    new Array(1),
    ['a'],
    ['abc'],
    {},
    { a: 1 },
    { a: undefined },
    { a: 'abc' },
  ],
  ...[
    { a: 1, b: 2 },
    { a: { b: [1] } },
    { a: { b: [1, 2] } },
    { a: 'a' },
    Object.create(null),
    { 0: 1, length: 1 },
  ],
  ...[
    /a/,
    GLOBAL,
    /b/,
    { a: /b/ },
    { a: String },
    { a: [Number] },
    new Date(0),
    new Date(1),
    new Date(Number.NaN),
  ],
  ...[new Error('a'), new Error('abc'), new TypeError('a'), new Set([1]), new Set([1, 2]), new Map([[1, 2]])],
  ...[
    Buffer.from('a'),
    new Uint8Array([97]),
    new Named(),
    Object.assign(new Named(), { name: 'two' }),
    circle,
  ],
  ...[() => 1, Object('a'), Object(1)],
]

/** What both say, in a word that tells where they differ. */
const says = (compare, found, wanted) => {
  GLOBAL.lastIndex = 0
  try {
    return compare(found, wanted).match
  } catch (error) {
    return error.message
  }
}

test('says of any two values what the package says', (t) => {
  const differ = []
  for (const [at, found] of ODD.entries())
    for (const [beside, wanted] of ODD.entries())
      for (const [one, other] of [
        [found, wanted],
        [[found], [wanted]],
        [{ a: found, b: 1 }, { a: wanted }],
      ])
        if (
          says(same, one, other) !== says(packageSame, one, other) ||
          says(match, one, other) !== says(packageMatch, one, other)
        )
          differ.push([at, beside])
  t.same(differ, [])
  t.end()
})

test('and of what is drawn at random, as it is and beside itself changed', (t) => {
  const values = fc.object({ maxDepth: 2, maxKeys: 3, key: fc.constantFrom('a', 'b', 'c') })
  fc.assert(
    fc.property(values, values, (one, other) => {
      for (const [found, wanted] of [
        [one, other],
        [one, structuredClone(one)],
        [{ ...other, ...one }, one],
      ]) {
        if (says(same, found, wanted) !== says(packageSame, found, wanted)) return false
        if (says(match, found, wanted) !== says(packageMatch, found, wanted)) return false
      }
      return true
    }),
    { numRuns: 300 },
  )
  t.end()
})

test('a difference is shown as the package does', (t) => {
  for (const [found, wanted] of [
    [{ a: 1 }, { a: 2 }],
    ['one', 'two'],
  ]) {
    t.equal(same(found, wanted).diff, packageSame(found, wanted).diff)
    t.equal(match(found, wanted).diff, packageMatch(found, wanted).diff)
    t.match(same(found, wanted).diff, /^-.*$/m)
  }
  t.end()
})
