import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { faultOf } from '../../../src/gateway/api/json-fault.ts'

const Shape = { description: '`<width>x<height>`, e.g. 1280x720' }

/** A field's schema, what is sent for it, and what the caller is told. */
const ROWS: [TSchema, unknown, string][] = [
  [Type.String(), 5, 'must be a string'],
  [Type.String({ minLength: 1 }), '', 'must not be empty'],
  [Type.String({ maxLength: 2 }), 'abc', 'must have at most 2 characters'],
  [Type.String({ pattern: '^\\d+x\\d+$', ...Shape }), '720p', `must be ${Shape.description}`],
  [Type.String({ pattern: '^x$' }), 'y', 'must be as documented'],
  [Type.Integer(), 1.5, 'must be an integer'],
  [Type.Integer(), '1', 'must be an integer'],
  [Type.Integer({ minimum: 1 }), 0, 'must be at least 1'],
  [Type.Number({ maximum: 2 }), 2.5, 'must be at most 2'],
  [Type.Number({ exclusiveMinimum: 0 }), 0, 'must be greater than 0'],
  [Type.Array(Type.String(), { minItems: 1 }), [], 'must not be empty'],
  [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'must have at most 1 items'],
  [Type.Array(Type.String(), { uniqueItems: true }), ['a', 'a'], 'must not have duplicate items'],
  [Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]), -1, 'must be at least 1'],
  [Type.Union([Type.String(), Type.Array(Type.String())]), 5, 'must be a string, or a list'],
]

for (const isLarge of [false, true])
  t.test(`what a field has against it, in plain words${isLarge ? ', in a large body' : ''}`, async (t) => {
    for (const [schema, value, message] of ROWS) {
      const fault = faultOf(Type.Object({ field: schema }), { field: value }, isLarge)
      t.equal(fault.message, `\`field\` ${message}`)
      t.equal(fault.extra.param, 'field')
    }
  })

t.test('the fault of a large body is found in a fraction of the time', async (t) => {
  const Item = Type.Union([Type.Object({ role: Type.Literal('a'), text: Type.String() }), Type.String()])
  const schema = Type.Object({ items: Type.Array(Item, { maxItems: 30_000 }) })
  const good = Array.from({ length: 30_000 }, (_, at) => (at % 2 === 0 ? { role: 'a', text: 'b' } : 'c'))
  const find = (items: unknown[], isLarge: boolean) => {
    const startedMs = performance.now()
    const { message } = faultOf(schema, { items }, isLarge)
    return { message, ms: performance.now() - startedMs }
  }
  const bad = [...good.slice(1), { role: 'a' }]
  const slow = find(bad, false)
  const fast = [1, 2, 3].map(() => find(bad, true))
  for (const { message } of [slow, ...fast]) t.equal(message, '`items[29999].text` must be given')
  const ms = Math.min(...fast.map((one) => one.ms))
  t.ok(ms < slow.ms / 3, `${ms} of ${slow.ms} ms`)
  t.equal(find([...good, 'd'], true).message, '`items` must have at most 30000 items')
})
