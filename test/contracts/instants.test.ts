import t from 'tap'
import { instantMs, momentMs } from '../../src/contracts/instants.ts'

t.test('a time is read with its offset and its fraction', async (t) => {
  t.equal(instantMs('2027-01-31T00:00:00Z'), Date.UTC(2027, 0, 31))
  t.equal(instantMs('2027-01-31T00:00:00.250Z'), Date.UTC(2027, 0, 31, 0, 0, 0, 250))
  t.equal(instantMs('2027-01-31T00:00:00+01:00'), Date.UTC(2027, 0, 30, 23))
  t.equal(instantMs('2027-02-28T23:30:00-01:00'), Date.UTC(2027, 2, 1, 0, 30))
  t.equal(instantMs('2028-02-29T00:00:00Z'), Date.UTC(2028, 1, 29))
})

t.test('days that there are not, and other forms', async (t) => {
  const rows = [
    ...['2027-02-29T00:00:00Z', '2027-02-30T00:00:00Z', '2027-04-31T00:00:00+02:00', '2027-13-01T00:00:00Z'],
    ...['2027-01-32T00:00:00Z', '2027-00-10T00:00:00Z', '2027-01-00T00:00:00Z', '2027-01-31T25:00:00Z'],
    ...['2027-01-31T00:60:00Z', '2027-01-31T00:00:00', '2027-01-31', '2027-1-31T00:00:00Z', 'tomorrow', ''],
  ]
  for (const text of rows) t.equal(instantMs(text), null, JSON.stringify(text))
})

t.test('what somebody asks from or until', async (t) => {
  const rows: readonly (readonly [string, number | null])[] = [
    ['2026-11-01', Date.UTC(2026, 10, 1)],
    ['2026-11-01T12:00Z', Date.UTC(2026, 10, 1, 12)],
    ['2026-11-01T12:00:30.5+01:00', Date.UTC(2026, 10, 1, 11, 0, 30, 500)],
    ['2026-11-01T24:00:00Z', Date.UTC(2026, 10, 2)],
    ['2026-02-30', null],
    ['2026-11-01T12:00', null],
    ['1969-12-31', null],
    ['today', null],
    ['', null],
  ]
  for (const [text, ms] of rows) t.equal(momentMs(text), ms, JSON.stringify(text))
})
