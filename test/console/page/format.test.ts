import { type Test, test } from 'tap'
import * as format from '../../../src/console/page/format.ts'

/** Each value of a table as `write` writes it. */
function each<Value>(t: Test, write: (value: Value) => string, table: readonly (readonly [Value, string])[]) {
  for (const [value, text] of table) t.equal(write(value), text, `${write.name}(${String(value)})`)
}

test('numbers that have little room keep three digits', async (t) => {
  each(t, format.compact, [
    [0, '0'],
    [7, '7'],
    [987, '987'],
    [0.04, '0.04'],
    [12.34, '12.3'],
    [999.4, '999'],
    [999.6, '1.00k'],
    [12_345, '12.3k'],
    [999_499, '999k'],
    [999_500, '1.00M'],
    [1_234_567_890, '1.23B'],
    [-1500, '-1.50k'],
  ])
})

test('bytes are counted in units of 1024', async (t) => {
  each(t, format.bytes, [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.00 KiB'],
    [1536, '1.50 KiB'],
    [20 * 1024 ** 2, '20.0 MiB'],
    [1023.9 * 1024, '1.00 MiB'],
    [3 * 1024 ** 4, '3.00 TiB'],
  ])
})

test('money keeps its cents, and less than a cent is not nothing', async (t) => {
  each(t, format.usd, [
    [0, '$0.00'],
    [1234567.891, '$1,234,567.89'],
    [0.01, '$0.01'],
    [0.004312, '$0.004312'],
    [-2.5, '-$2.50'],
  ])
})

test('times are as exact as they are short', async (t) => {
  each(t, format.milliseconds, [
    [0, '0 ms'],
    [0.42, '0.4 ms'],
    [9.96, '10 ms'],
    [640.4, '640 ms'],
    [999.6, '1.00 s'],
    [2310, '2.31 s'],
    [99_960, '1 min 40 s'],
    [3_725_000, '1 h 2 min'],
  ])
  each(t, format.duration, [
    [0, '0 s'],
    [59.6, '1 min'],
    [754, '12 min 34 s'],
    [3600, '1 h'],
    [90_000, '1 d 1 h'],
    [86_400 + 59, '1 d'],
  ])
})

test('shares that are small are not nothing', async (t) => {
  each(t, format.percent, [
    [0, '0 %'],
    [0.0001, '< 0.1 %'],
    [0.013, '1.3 %'],
    [0.5, '50 %'],
    [1.2, '120 %'],
  ])
})

test('moments are said in relation to now', async (t) => {
  const now = Date.parse('2026-11-20T12:00:00Z')
  const at = (seconds: number) => format.relative(now + seconds * 1000, now)
  t.equal(at(-2), 'just now')
  t.equal(at(-59), '59 s ago')
  t.equal(at(-119), '1 min ago')
  t.equal(at(-3600 * 5), '5 h ago')
  t.equal(at(-86_400 * 3), '3 d ago')
  t.equal(at(3600 * 11.5), 'in 12 h')
  const since = (seconds: number) => format.lasting(now - seconds * 1000, now)
  t.equal(since(-1), 'a moment', 'by a clock a little ahead')
  t.equal(since(4), 'a moment')
  t.equal(since(59), '59 s')
  t.equal(since(200), '3 min')
  t.equal(since(3600 * 5), '5 h')
  t.equal(since(86_400 * 3), '3 d')
  t.match(format.moment(now), /^2026-11-(19|20|21) \d\d:\d\d:00$/, 'in the time zone of the reader')
  t.equal(format.moment(Number.NaN), '–')
})

test('what is not there is a dash', async (t) => {
  t.equal(format.orNone(null, format.usd), '–')
  t.equal(format.orNone(undefined, format.usd), '–')
  t.equal(format.orNone(0, format.usd), '$0.00')
  t.equal(format.plural(1, 'route'), '1 route')
  t.equal(format.plural(1200, 'entry', 'entries'), '1,200 entries')
})

test('what took less than the clock tells is not nothing', async (t) => {
  t.equal(format.took(0), '< 1 ms')
  t.equal(format.took(1), '1 ms')
})

test('a time of today has no date', async (t) => {
  const at = new Date(2026, 10, 20, 14, 3, 7).getTime()
  t.equal(format.timeOfDay(at, at + 3_600_000), '14:03:07')
  t.equal(format.timeOfDay(at, at + 86_400_000), '2026-11-20 14:03:07')
})
