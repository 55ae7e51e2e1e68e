import { test } from 'tap'
import {
  axisClock,
  latestOf,
  lonePoints,
  summaryOf,
  summaryRows,
} from '../../../src/console/page/components/chart.ts'

const ms = (value: number) => `${value} ms`

test('a chart is said in a sentence for each line', async (t) => {
  const data = {
    times: [1, 2, 3],
    lines: [
      { label: 'p50', values: [3, null, 5] },
      { label: 'p95', values: [null, null, null] },
    ],
  }
  t.equal(summaryOf(data, ms), 'p50: now 5 ms, between 3 ms and 5 ms. p95: no value.')
})

test('a chart is a table of a few means, newest first', async (t) => {
  const times = Array.from({ length: 25 }, (_, index) => index)
  const rows = summaryRows({
    times,
    lines: [
      { label: 'a', values: times },
      { label: 'b', values: times.map(() => null) },
    ],
  })
  t.equal(rows.length, 9)
  t.same(rows[0], { at: 24, means: [23, null] })
  t.same(rows.at(-1), { at: 0, means: [0, null] })
  t.same(summaryRows({ times: [], lines: [] }), [])
})

test('values between missing ones are points, and the newest one is not an old one', async (t) => {
  t.same(lonePoints([1, null, 2, 3, null, 4]), [0, 5])
  t.same(lonePoints([null, 7, undefined]), [1])
  t.same(lonePoints([]), [])
  t.equal(latestOf([1, 2, null]), 2)
  t.equal(latestOf([1, ...Array.from({ length: 12 }, () => null)]), null)
  t.equal(latestOf([0]), 0)
  t.match(axisClock(0), /^\d\d:\d\d:00$/)
})
