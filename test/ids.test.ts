import t from 'tap'
import { newId } from '../src/ids.ts'

t.test('a prefix and a ULID in lower case', async (t) => {
  const before = Date.now()
  const id = newId('req')
  t.match(id, /^req_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  const ms = [...id.slice(4, 14)].reduce(
    (sum, digit) => sum * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit),
    0,
  )
  t.ok(ms >= before && ms <= Date.now(), 'its first ten characters are the time')
})

t.test('ordered by time, and never the same', async (t) => {
  const ids = Array.from({ length: 50_000 }, () => newId('evt'))
  t.equal(new Set(ids).size, ids.length)
  const times = ids.map((id) => id.slice(4, 14))
  t.same(times, [...times].sort())
})

t.test('every bit of the random part varies', async (t) => {
  const ids = Array.from({ length: 2_000 }, () => newId('key').slice(-16))
  for (let at = 0; at < 16; at += 1) t.equal(new Set(ids.map((id) => id[at])).size, 32)
})
