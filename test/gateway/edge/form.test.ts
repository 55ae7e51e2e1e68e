import t from 'tap'
import { FieldReader } from '../../../src/gateway/edge/form.ts'
import { refusalOf } from '../../support/refusal.ts'

const form = (values: Record<string, string[]>) =>
  new FieldReader({ kind: 'form', values: new Map(Object.entries(values)) })
const json = (value: Record<string, unknown>) => new FieldReader({ kind: 'json', value })

/** The code and the field of a refusal. */
function outcome(read: () => unknown): string {
  const { code, extra } = refusalOf(read)
  return `${code} ${extra.param}`
}
const REFUSED = 'INVALID_REQUEST a'

t.test('reads strings', async (t) => {
  t.equal(form({ a: ['x'] }).string('a'), 'x')
  t.equal(json({ a: 'x' }).string('a'), 'x')
  t.equal(json({ a: '' }).string('a'), '')
  for (const reader of [form({}), form({ a: [''] }), json({}), json({ a: null }), form({ b: ['x'] })]) {
    t.equal(reader.string('a'), null)
  }
  t.equal(json({ a: '🐦🐦' }).string('a', { maxLength: 2 }), '🐦🐦', 'characters are code points')
  const refused: [FieldReader, object][] = [
    [json({ a: 5 }), {}],
    [json({ a: true }), {}],
    [json({ a: ['x'] }), {}],
    [json({ a: { b: 1 } }), {}],
    [form({ a: ['x', 'x'] }), {}],
    [json({ a: '🐦🐦🐦' }), { maxLength: 2 }],
    [json({ a: 'y' }), { oneOf: ['x', 'z'] }],
    [json({ a: '' }), { oneOf: ['x', 'z'] }],
    [json({ a: '\ud800' }), {}],
  ]
  for (const [reader, rule] of refused)
    t.equal(
      outcome(() => reader.string('a', rule)),
      REFUSED,
    )
  t.throws(() => json({ a: 'y' }).string('a', { oneOf: ['x', 'z'] }), {
    message: '`a` must be one of `x`, `z`',
  })
})

t.test('reads booleans', async (t) => {
  for (const [text, meant] of Object.entries({ true: true, false: false, 1: true, 0: false, '': null })) {
    t.equal(form({ a: [text] }).boolean('a'), meant)
  }
  t.equal(json({ a: true }).boolean('a'), true)
  t.equal(json({ a: false }).boolean('a'), false)
  t.equal(json({ a: null }).boolean('a'), null)
  const refused = [
    form({ a: ['yes'] }),
    form({ a: ['True'] }),
    form({ a: ['constructor'] }),
    json({ a: 'true' }),
    json({ a: 1 }),
    json({ a: 0 }),
  ]
  for (const reader of refused)
    t.equal(
      outcome(() => reader.boolean('a')),
      REFUSED,
    )
})

t.test('reads numbers', async (t) => {
  t.equal(form({ a: ['12'] }).integer('a'), 12)
  t.equal(form({ a: ['-1'] }).integer('a'), -1)
  t.equal(json({ a: 12 }).integer('a', { min: 12, max: 12 }), 12)
  t.equal(form({ a: [' 0.5 '] }).number('a'), 0.5)
  t.equal(form({ a: ['1e-1'] }).number('a'), 0.1)
  t.equal(json({ a: 0.25 }).number('a', { above: 0 }), 0.25)
  t.equal(json({ a: 0 }).number('a'), 0)
  for (const reader of [form({}), form({ a: [''] }), json({ a: null })]) {
    t.equal(reader.integer('a'), null)
    t.equal(reader.number('a'), null)
  }
  const refused: (() => unknown)[] = [
    () => form({ a: ['1.5'] }).integer('a'),
    () => json({ a: 1.5 }).integer('a'),
    () => json({ a: '12' }).integer('a'),
    () => json({ a: 2 ** 53 }).integer('a'),
    () => json({ a: 0 }).integer('a', { min: 1 }),
    () => json({ a: 33 }).integer('a', { max: 32 }),
    () => json({ a: 0 }).number('a', { above: 0 }),
    () => json({ a: true }).number('a'),
    () => form({ a: ['1', '2'] }).number('a'),
    ...['x', '0x10', 'Infinity', 'NaN', '1e999', '1,5', '--1', ' '].map(
      (text) => () => form({ a: [text] }).number('a'),
    ),
  ]
  for (const read of refused) t.equal(outcome(read), REFUSED, read.toString())
})

t.test('reads lists', async (t) => {
  const lists: [FieldReader, string[] | null][] = [
    [json({ a: ['x', 'y, z'] }), ['x', 'y, z']],
    [json({ a: [] }), []],
    [json({ a: null }), null],
    [json({}), null],
    [form({}), null],
    [form({ a: [''] }), null],
    [form({ a: ['x'] }), ['x']],
    [form({ a: ['x, y ,,z'] }), ['x', 'y', 'z']],
    [form({ a: ['["x","y, z"]'] }), ['x', 'y, z']],
    [form({ a: [' []'] }), []],
    [form({ a: ['x', 'y, z'] }), ['x', 'y, z']],
    [form({ 'a[]': ['x, y'] }), ['x, y']],
    [form({ 'a[]': ['x', 'y'] }), ['x', 'y']],
    [form({ a: ['x'], 'a[]': ['y'] }), ['x', 'y']],
  ]
  for (const [reader, expected] of lists) t.same(reader.stringList('a'), expected)
  const refused: (() => unknown)[] = [
    () => json({ a: 'x' }).stringList('a'),
    () => json({ a: ['x', 1] }).stringList('a'),
    () => json({ a: { 0: 'x' } }).stringList('a'),
    () => form({ a: ['[1]'] }).stringList('a'),
    () => form({ a: ['["x"'] }).stringList('a'),
    () => form({ a: ['x,y,z'] }).stringList('a', { maxItems: 2 }),
    () => json({ a: ['xyz'] }).stringList('a', { maxLength: 2 }),
    () => json({ a: ['word', 'line'] }).stringList('a', { oneOf: ['word', 'segment'] }),
  ]
  for (const read of refused) t.equal(outcome(read), REFUSED, read.toString())
})

t.test('reads a boolean or a list', async (t) => {
  t.equal(json({ a: true }).booleanOrList('a'), true)
  t.equal(form({ a: ['false'] }).booleanOrList('a'), false)
  t.equal(form({ a: ['1'] }).booleanOrList('a'), true)
  t.equal(form({}).booleanOrList('a'), null)
  t.same(json({ a: ['pii'] }).booleanOrList('a'), ['pii'])
  t.same(form({ a: ['pii,phi'] }).booleanOrList('a', { oneOf: ['pii', 'phi'] }), ['pii', 'phi'])
  t.same(form({ 'a[]': ['pii'] }).booleanOrList('a'), ['pii'])
  t.equal(
    outcome(() => json({ a: 'true' }).booleanOrList('a')),
    REFUSED,
  )
  t.equal(
    outcome(() => form({ a: ['maybe'] }).booleanOrList('a', { oneOf: ['pii'] })),
    REFUSED,
  )
})

t.test('tells what was sent', async (t) => {
  t.ok(json({ a: false }).has('a'))
  t.ok(json({ audio: { provider: {} } }).has('audio.provider'))
  t.ok(form({ 'audio[provider]': ['x'] }).has('audio.provider'))
  t.notOk(json({ a: null }).has('a'), 'null counts as not sent')
  t.notOk(json({ audio: { provider: null } }).has('audio.provider'))
  t.notOk(form({ 'audio.provider': [''] }).has('audio.provider'))
  t.ok(form({ 'a[]': ['x'] }).has('a'))
  for (const name of ['constructor', '__proto__', 'audio.toString', 'a.b']) {
    t.notOk(json({ audio: {}, a: null }).has(name), name)
    t.notOk(form({ a: ['x'] }).has(name), name)
  }
  t.equal(json({}).string('constructor'), null)
})

t.test('lists the fields that were not asked for', async (t) => {
  const sent = json({ language: 'de', audio: { provider: 'x', colour: 1 }, temperature: 0, mode: null })
  sent.string('language')
  sent.has('audio.provider')
  sent.string('seed')
  t.same(sent.unknown(), ['audio.colour', 'temperature', 'mode'])
  const posted = form({ language: ['de'], 'keyterms[]': ['a'], 'other[]': ['b'], other: ['c'], x: ['y'] })
  posted.string('language')
  posted.stringList('keyterms')
  t.same(posted.unknown(), ['other', 'x'])
})
