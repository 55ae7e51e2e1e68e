import fc from 'fast-check'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { JsonStructure } from '../../../src/gateway/edge/json-structure.ts'
import { fragment, slices } from '../../support/bodies.ts'

/** True if a body passes, its chunks scanned one by one. */
function passes(chunks: readonly Buffer[]): boolean {
  const structure = new JsonStructure()
  try {
    for (const chunk of chunks) structure.scan(chunk)
    return true
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'INVALID_REQUEST') return false
    throw error
  }
}

const text = (json: string) => Buffer.from(json)

t.test('depth and numbers of values and names have bounds', async (t) => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const listOf = (values: number) => `[${'0,'.repeat(values - 1)}0]`
  const object = (names: number) => `{${Array.from({ length: names }, (_, n) => `"${n}":[0,0]`).join()}}`
  const rows: [string, string, boolean][] = [
    ['128 levels', nested(128), true],
    ['129 levels', nested(129), false],
    ['129 levels of objects', `${'{"a":'.repeat(129)}0${'}'.repeat(129)}`, false],
    ['many levels one after the other', `[${`${nested(100)},`.repeat(50)}0]`, true],
    ['500 000 numbers', listOf(500_000), true],
    ['more of them', listOf(500_001), false],
    ['10 000 names', object(10_000), true],
    ['more of them', object(10_001), false],
    ['as many in each of three objects', `[${object(10_000)},${object(10_000)},${object(10_000)}]`, true],
    ['a million empty lists', `[${'[],'.repeat(1_000_000)}[]]`, false],
    ['brackets that never close', '['.repeat(1_000_000), false],
    ['brackets and commas in a string', JSON.stringify({ a: '[,{'.repeat(1_000_000) }), true],
    ['the same behind escapes', JSON.stringify({ a: `"\\\\"${'[,'.repeat(1_000_000)}` }), true],
    ['the same behind a string that ends in a backslash', `["\\\\",${'[],'.repeat(600_000)}0]`, false],
  ]
  for (const [name, json, expected] of rows) {
    const body = text(json)
    t.equal(passes([body]), expected, name)
    t.equal(passes(slices(body, 65_536)), expected, `${name}, in pieces`)
  }
})

t.test('strings are told from structure wherever the body is cut', async () => {
  // A string that hides 129 brackets must not count; were one end of a string missed, they would.
  const hidden = '['.repeat(129)
  const char = fc.constantFrom('"', '\\', 'a', '[', ',', '{', 'é', '\n')
  const strings = fc.array(fc.string({ unit: char, maxLength: 12 }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(strings, fc.array(fc.nat(400), { maxLength: 6 }), (values, cuts) => {
      const inside = text(JSON.stringify([...values, hidden]))
      const outside = text(`${JSON.stringify(values).slice(0, -1)},${hidden}`)
      return passes(fragment(inside, cuts)) && !passes(fragment(outside, cuts))
    }),
    { numRuns: 2_000 },
  )
})
