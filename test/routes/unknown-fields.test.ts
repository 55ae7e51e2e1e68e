import t from 'tap'
import { unknownFields } from '../../src/routes/unknown-fields.ts'

t.test('unknown fields are named, few and short however many there are', async (t) => {
  t.same(unknownFields([]), [])
  t.same(unknownFields(['fps', 'audio.codec']), [
    'fps: unknown field, ignored',
    'audio.codec: unknown field, ignored',
  ])
  const many = unknownFields(Array.from({ length: 50_000 }, (_, index) => `x${index}`))
  t.equal(many.length, 21)
  t.equal(many.at(-1), '49980 further unknown fields, ignored')
  const [long = ''] = unknownFields([`${'x'.repeat(63)}\u{1f426}`])
  t.equal(long, `${'x'.repeat(63)}\ufffd: unknown field, ignored`, 'no half of a pair is left')
})
