import t from 'tap'
import { Type } from 'typebox'
import { typedFields } from '../../../src/gateway/api/fields.ts'
import { optional } from '../../../src/gateway/api/json-request.ts'
import { FieldReader } from '../../../src/gateway/edge/form.ts'

const SHAPES = {
  text: optional(Type.String({ maxLength: 2 }), 'a text'),
  word: optional(Type.Enum(['a', 'b']), 'one of two'),
  flag: optional(Type.Boolean(), 'a flag'),
  whole: optional(Type.Integer({ minimum: 1, maximum: 9 }), 'a whole number'),
  above: optional(Type.Number({ exclusiveMinimum: 0 }), 'a number'),
  list: optional(Type.Array(Type.String({ maxLength: 2 }), { maxItems: 2 }), 'a list'),
  either: optional(Type.Union([Type.Boolean(), Type.Array(Type.Enum(['a', 'b']))]), 'a flag or a list'),
}
type Name = keyof typeof SHAPES
const read = typedFields(SHAPES)

const json = (value: Record<string, unknown>) => new FieldReader({ kind: 'json', value })
const form = (name: string, ...values: string[]) =>
  new FieldReader({ kind: 'form', values: new Map([[name, values]]) })

t.test('what a schema allows is read, in JSON and in forms', async (t) => {
  const rows: readonly (readonly [Name, unknown, string])[] = [
    ['text', 'öö', 'öö'],
    ['word', 'b', 'b'],
    ['flag', true, '1'],
    ['whole', 9, '9'],
    ['above', 0.5, '.5'],
    ['list', ['a', 'b'], 'a,b'],
    ['either', false, 'false'],
    ['either', ['a'], 'a'],
  ]
  for (const [name, value, text] of rows) {
    t.same(read(json({ [name]: value }), name), value, `${name} in JSON`)
    t.same(read(form(name, text), name), value, `${name} in a form`)
    t.equal(read(json({}), name), null)
    t.equal(read(json({ [name]: null }), name), null)
    t.equal(read(form(name, ''), name), null)
  }
})

t.test('what it does not is refused by name', async (t) => {
  const rows: readonly (readonly [Name, unknown, string])[] = [
    ['text', 'abc', 'must have at most 2 characters'],
    ['text', 1, 'must be a string'],
    ['word', 'c', 'must be one of `a`, `b`'],
    ['flag', 'true', 'must be one of `true`, `false`'],
    ['whole', 0, 'must be at least 1'],
    ['whole', 10, 'must be at most 9'],
    ['whole', 1.5, 'must be an integer'],
    ['above', 0, 'must be greater than 0'],
    ['list', ['a', 'b', 'c'], 'must have at most 2 items'],
    ['list', ['abc'], 'must have at most 2 characters'],
    ['either', ['c'], 'must be one of `a`, `b`'],
  ]
  for (const [name, value, message] of rows)
    t.throws(() => read(json({ [name]: value }), name), {
      code: 'INVALID_REQUEST',
      message: `\`${name}\` ${message}`,
      extra: { param: name },
    })
})

t.test('what is refused says why', async (t) => {
  const why = 'there is nothing to it'
  const refused = typedFields({ x: Type.Optional(Type.Null({ description: why })) })
  const message = `\`x\` must be left out; ${why}`
  for (const reader of [json({ x: [] }), json({ x: '' }), form('x', 'a'), form('x[]', '', 'a')])
    t.throws(() => refused(reader, 'x'), { code: 'INVALID_REQUEST', message, extra: { param: 'x' } })
  for (const reader of [json({}), json({ x: null }), form('x', ''), form('x[]', '')])
    t.equal(refused(reader, 'x'), null)
})

t.test('a schema that nobody would hold a field to is a mistake in the program', async (t) => {
  const wrong = [
    optional(Type.String({ minLength: 1 }), 'a'),
    optional(Type.Array(Type.Number()), 'a'),
    optional(Type.Object({}), 'a'),
    optional(Type.Union([Type.String(), Type.Number()]), 'a'),
    optional(Type.Array(Type.String({ pattern: 'a' })), 'a'),
    Type.Optional(Type.Null()),
  ]
  for (const schema of wrong) t.throws(() => typedFields({ x: schema }), /(?:the field|unknown members of) x/)
})
