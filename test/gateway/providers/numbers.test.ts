import t from 'tap'
import { quantityOf, secondsOf, spanOf } from '../../../src/gateway/providers/numbers.ts'
import { readTranscript } from '../../../src/gateway/providers/openai/transcript.ts'
import { options } from '../../support/call.ts'

const isRounded = (seconds: number | null) =>
  seconds !== null && Math.round(seconds * 1000) / 1000 === seconds && !/\.\d{4}/.test(String(seconds))

t.test('times of a provider are taken to the millisecond', async (t) => {
  t.same(spanOf(0.1 + 0.2, 1.23456789), { start: 0.3, end: 1.235 })
  t.same(spanOf(2.0004, 1), { start: 2, end: 2 }, 'an end is never before its start')
  t.equal(secondsOf(59.99999), 60)
  for (const odd of [-1, Number.NaN, Number.POSITIVE_INFINITY, '1', null, undefined])
    t.equal(secondsOf(odd), null)
})

t.test('in a transcript: of segments, of words and of the whole', async (t) => {
  const result = readTranscript(
    {
      text: 'a b',
      duration: '7.280000209808350',
      segments: [{ start: 0.1 + 0.2, end: 3.319999933242798, text: 'a b' }],
      words: [{ word: 'a', start: 1 / 3, end: 2 / 3 }],
    },
    options(),
    [],
  )
  t.equal(result?.durationSeconds, 7.28)
  for (const { start, end } of [...(result?.segments ?? []), ...(result?.words ?? [])]) {
    t.ok(isRounded(start) && isRounded(end), `${start} to ${end}`)
  }
})

t.test('numbers that overflow when they are rounded are no numbers', (t) => {
  for (const number of [1e308, Number.MAX_VALUE, Number.POSITIVE_INFINITY, Number.NaN, -1, '3', null]) {
    t.equal(quantityOf(number), null, String(number))
    t.equal(secondsOf(number), null, String(number))
    t.equal(spanOf(0, number), null, String(number))
  }
  t.equal(secondsOf(Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
  t.end()
})
