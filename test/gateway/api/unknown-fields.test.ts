import fc from 'fast-check'
import t from 'tap'
import { meantBy, unknownFields } from '../../../src/gateway/api/fields.ts'

t.test('unknown fields are named, few and short however many there are', async (t) => {
  t.same(unknownFields([], ['a']), [])
  t.same(unknownFields(['fps', 'audio.codec'], ['size', 'audio.base64']), [
    'fps: unknown field, ignored',
    'audio.codec: unknown field, ignored',
  ])
  const many = unknownFields(
    Array.from({ length: 50_000 }, (_, index) => `x${index}`),
    [],
  )
  t.equal(many.length, 21)
  t.equal(many.at(-1), '49980 further unknown fields, ignored')
  const [long = ''] = unknownFields([`${'x'.repeat(63)}\u{1f426}`], [])
  t.equal(long, `${'x'.repeat(63)}\ufffd: unknown field, ignored`, 'no half of a pair is left')
})

t.test('a name that is close to a known one is offered that', async (t) => {
  const known = ['language', 'response_format', 'timestamps', 'keyterms', 'seed', 'audio.url', 'speed']
  const rows: Record<string, string | null> = {
    languge: 'language',
    langauge: 'language',
    Language: 'language',
    responseFormat: 'response_format',
    'response-format': 'response_format',
    reponse_formt: 'response_format',
    timestamp: 'timestamps',
    'keyterms[]': 'keyterms',
    'audio.uri': 'audio.url',
    speeed: 'speed',
    sead: 'seed',
    sid: null,
    temperature: null,
    n: null,
    constructor: null,
    [`${'language'.repeat(100)}`]: null,
  }
  for (const [given, meant] of Object.entries(rows)) {
    t.equal(meantBy(given, known), meant, given.slice(0, 20))
    const [line = ''] = unknownFields([given], known)
    t.equal(line.includes('did you mean'), meant !== null, line)
  }
})

/** Counts every way, and gives up none early. */
function plainDistance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i])
  for (let j = 1; j <= b.length; j += 1) rows[0]![j] = j
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const other = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swaps = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      rows[i]![j] = Math.min(
        rows[i - 1]![j]! + 1,
        rows[i]![j - 1]! + 1,
        other,
        swaps ? rows[i - 2]![j - 2]! + 1 : other,
      )
    }
  }
  return rows[a.length]![b.length]!
}

t.test('what is near is found as by counting every way', async (t) => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 12 })
  fc.assert(
    fc.property(text, text, (given, known) => {
      const most = given.length < 4 ? 0 : given.length < 8 ? 1 : 2
      return (meantBy(given, [known]) !== null) === plainDistance(given, known) <= most
    }),
    { numRuns: 5_000 },
  )
  t.pass('5,000 pairs')
})
