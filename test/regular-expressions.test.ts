import { test } from 'tap'
import { growthOf, patternsIn, readPatterns, readProved } from './support/regular-expressions.ts'

/** Patterns that take more than linear time and stay, and which text they are for. */
const BOUNDED: Readonly<Record<string, string>> = {
  '/^\\s*(?:import|export)\\b(?:[^\'"`;()]*?\\bfrom)?\\s*([\'"])([^\'"]+)\\1/gm':
    "reads the console's own modules, once, at start",
}

/** Expressions made of what only a running program knows, by the text of their argument, and what that is. */
const MADE: Readonly<Record<string, string>> = {
  pattern: "an operator's voice_pattern, for voices of at most 256 characters",
  '`^-- ${line}(.*(?:\\\\n-- {2,}.*)*)$`': 'reads the headers of our own scripts, once, at start',
  "String.raw`[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}'’])+`": 'one class, repeated, is linear',
  "`[${names.map((name) => `\\\\p{Script=${name}}`).join('')}]`": 'one class',
  '`^${COOKIE}[\\\\w-]{${COOKIE_NAME_LENGTH}}$`': 'of fixed length',
}

/** So many may be missing in the list of those that were proved: each takes some 50 ms. */
const NEW_MAX = 40

test('the check finds what is worse than linear, and where it stands', (t) => {
  const sample = [
    'const TRIM = /^[\\t ]+|[\\t ]+$/g',
    "const SCHEMA: { pattern: string } = { pattern: '^(a+)+$' }",
    'const LOOK = /^(?=a)(?:a|b|ab)*$/ // as /a+$/ in a comment',
    'const half = (a as number) / 2 / b',
    'new RegExp(`${half}+`)',
  ].join('\n')
  const { found, made } = patternsIn('sample.ts', sample)
  t.same(
    found.map(({ places }) => places[0]),
    ['sample.ts:1', 'sample.ts:2', 'sample.ts:3'],
  )
  t.same(made, ['`${half}+`'])
  t.match(found.map(growthOf), [/polynomial/, /exponential/, /exponential/])
  for (const source of ['^[a-z]+$', '[a-z]+', '^(?=.{1,9}$)[a-z]+$'])
    t.equal(growthOf({ source, flags: '' }), null)
  t.end()
})

test('no regular expression of src takes more than linear time', (t) => {
  const { patterns, made } = readPatterns()
  const proved = readProved()
  t.ok(patterns.size > 250, `${patterns.size} patterns`)
  const fresh = [...patterns].filter(([name]) => !proved.has(name))
  t.ok(fresh.length <= NEW_MAX, `${fresh.length} came: run node test/support/regular-expressions.ts`)
  const bad = fresh.flatMap(([name, pattern]) => {
    const growth = growthOf(pattern)
    return growth === null ? [] : [{ name, growth, places: pattern.places }]
  })
  t.same(
    bad.filter(({ name }) => BOUNDED[name] === undefined),
    [],
    'trim by loops (src/contracts/trim.ts), or bound the repetition',
  )
  t.same(
    bad
      .map(({ name }) => name)
      .filter((name) => BOUNDED[name] !== undefined)
      .sort(),
    Object.keys(BOUNDED).sort(),
  )
  t.same(made.sort(), Object.keys(MADE).sort(), 'a pattern made at run time has its reason')
  t.end()
})
