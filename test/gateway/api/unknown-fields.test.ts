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
