import t from 'tap'
import { durationMs, retryAfterMs } from '../../../src/gateway/providers/retry-after.ts'

const date = 'Fri, 20 Nov 2026 10:00:00 GMT'
const epoch = Date.parse(date) / 1000

t.test('Retry-After in its forms', async (t) => {
  const rows: [Record<string, string>, number | null][] = [
    [{}, null],
    [{ 'retry-after': '7' }, 7000],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '1.5' }, 1500],
    [{ 'retry-after': '7', 'retry-after-ms': '6400' }, 6400],
    [{ 'retry-after': 'Fri, 20 Nov 2026 10:00:30 GMT', date }, 30_000],
    [{ 'retry-after': 'Fri, 20 Nov 2026 09:00:00 GMT', date }, 0],
    [{ 'retry-after': 'Fri, 20 Nov 2026 10:00:30 GMT' }, null],
    [{ 'retry-after': 'soon', date }, null],
    [{ 'retry-after': '-5', date }, null],
    [{ 'retry-after': '999999999' }, 86_400_000],
    [{ 'retry-after-ms': 'x', 'retry-after': '3' }, 3000],
    [{ 'x-ratelimit-reset': String(epoch + 12), date }, 12_000],
    [{ 'x-ratelimit-reset': String(epoch + 12) }, null],
    [{ 'x-ratelimit-reset': String(epoch + 12), 'retry-after': '3', date }, 3000],
    [{ 'x-ratelimit-reset': '12', date }, null],
    [{ 'x-ratelimit-reset': String(epoch - 12), date }, null],
    [{ 'x-ratelimit-reset': String(epoch + 900_000), date }, null],
    [{ 'x-ratelimit-reset': '6m0s', date }, null],
  ]
  for (const [headers, expected] of rows) t.equal(retryAfterMs(headers), expected, JSON.stringify(headers))
})

t.test('what the body asks for stands behind the headers that name a wait', async (t) => {
  t.equal(retryAfterMs({}, 5000), 5000)
  t.equal(retryAfterMs({ 'retry-after': '1' }, 5000), 1000)
  t.equal(retryAfterMs({ 'retry-after': 'soon' }, 5000), 5000)
  t.equal(retryAfterMs({ 'x-ratelimit-reset': String(epoch + 1), date }, 5000), 5000)
  t.equal(retryAfterMs({}, 1e12), 86_400_000)
})

t.test('durations of Google', async (t) => {
  const rows: [unknown, number | null][] = [
    ['30s', 30_000],
    ['0.35s', 350],
    ['30', null],
    ['s', null],
    ['-1s', null],
    ['1h', null],
    [30, null],
    [null, null],
    [['30s'], null],
  ]
  for (const [value, expected] of rows) t.equal(durationMs(value), expected, JSON.stringify(value))
})
