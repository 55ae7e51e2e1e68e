import t from 'tap'
import { createLatencyTracker } from '../../../src/gateway/call/select/health.ts'
import { entry } from '../../support/catalog.ts'

t.test('the median of the newest answers', async (t) => {
  const [book, one] = [createLatencyTracker(), entry()]
  t.equal(book.medianMs(one, 0), 0, 'none yet')
  book.note(one, 300, 0)
  t.equal(book.medianMs(one, 0), 300)
  for (const milliseconds of [10, 20]) book.note(one, milliseconds, 0)
  t.equal(book.medianMs(one, 0), 20, 'one that is far off does not count for more than another')
  for (let count = 0; count < 31; count += 1) book.note(one, 700, 0)
  t.equal(book.medianMs(one, 0), 700, 'only the newest 31 are looked at')
  t.equal(book.medianMs(entry(), 0), 0, 'entries do not share them')
})

t.test('answers are forgotten after five minutes, one by one', async (t) => {
  const [book, one] = [createLatencyTracker(), entry()]
  book.note(one, 900, 0)
  book.note(one, 100, 200_000)
  t.equal(book.medianMs(one, 299_999), 900)
  t.equal(book.medianMs(one, 300_000), 100)
  t.equal(book.medianMs(one, 499_999), 100)
  t.equal(book.medianMs(one, 500_000), 0, 'so that an entry that was slow once is tried again')
})
