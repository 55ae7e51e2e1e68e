import fc from 'fast-check'
import t from 'tap'
import type { LiveEvent } from '../../../src/contracts/live.ts'
import { LiveLog, type Said } from '../../../src/gateway/providers/live.ts'

const AUDIO = { encoding: 'pcm_s16le', sampleRate: 1_000, channels: 1 } as const
const SECOND = new Uint8Array(2_000)

const said = (word: string, start: number, end: number, isTimed: boolean): Said => ({
  ...{ start, end, text: word },
  ...(isTimed ? { words: [{ word, start, end }] } : {}),
})

/** What a provider says beside the word of this second: of one that it has told, or of a time that is yet to come. */
const nonsense = fc.oneof(
  fc.record({
    back: fc.integer({ min: 0, max: 8 }),
    shift: fc.double({ min: -0.25, max: 0.25, noNaN: true }),
  }),
  fc.record({ ahead: fc.double({ min: 2, max: 1_000, noNaN: true }) }),
)

t.test('each word is told once, in order and within the audio, whatever is said beside it', async () => {
  const seconds = fc.array(fc.array(nonsense, { maxLength: 3 }), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(seconds, fc.boolean(), (beside, isTimed) => {
      const log = new LiveLog(AUDIO)
      const events: LiveEvent[] = []
      let ahead = 0
      for (const [second, list] of beside.entries()) {
        log.count(SECOND)
        events.push(...log.final(said(`w${second}`, second + 0.2, second + 0.8, isTimed)))
        events.push(...log.settle(second + 0.9))
        for (const one of list) {
          if ('ahead' in one) {
            ahead += 1
            const at = second + 1 + one.ahead
            events.push(...log.final(said('far', at, at + 1, isTimed)), ...log.settle(at + 1))
            continue
          }
          const old = second - one.back
          if (old < 0) continue
          const at = Math.max(0, old + 0.2 + one.shift)
          events.push(...log.final(said(`w${old}`, at, at + 0.6, isTimed)), ...log.settle(at + 0.6))
        }
      }
      const finals = events.filter((event) => event.kind === 'final')
      const texts = finals.map(({ segment }) => segment.text)
      const expected = beside.map((_, second) => `w${second}`)
      if (texts.join() !== expected.join()) throw new Error(`told: ${texts.join()}`)
      if (events.filter(({ kind }) => kind === 'misplaced').length !== ahead) throw new Error('not counted')
      for (const [second, { segment }] of finals.entries())
        if (segment.start < second || segment.end > second + 1) throw new Error(JSON.stringify(segment))
      let settled = 0
      for (const event of events) {
        if (event.kind !== 'settled') continue
        if (event.seconds <= settled || event.seconds > beside.length) throw new Error(`${event.seconds}`)
        settled = event.seconds
      }
    }),
    { numRuns: 300 },
  )
})

t.test('a message whose text is misplaced settles nothing, until text comes that is not', async (t) => {
  const log = new LiveLog(AUDIO)
  for (let second = 0; second < 4; second += 1) log.count(SECOND)
  t.match(log.final(said('far', 90, 91, true)), [{ kind: 'misplaced' }])
  t.same([...log.settle(3), ...log.settle(91)], [])
  t.match(log.final(said('one', 1, 2, true)), [{ kind: 'final' }])
  t.same(log.settle(91), [], 'nor what no audio was sent for')
  t.same(log.settle(3), [{ kind: 'settled', seconds: 3 }])
})

t.test('a final of which nothing is known of its time is told where the last one ended', async (t) => {
  const log = new LiveLog(AUDIO)
  for (let second = 0; second < 4; second += 1) log.count(SECOND)
  log.final(said('one', 1, 2, true))
  log.settle(2)
  t.match(log.final(said('two', Number.NaN, Number.POSITIVE_INFINITY, true)), [
    { kind: 'final', segment: { text: 'two', start: 2 } },
  ])
})

t.test('a short answer may be given twice, where the second begins a little early', async (t) => {
  const log = new LiveLog(AUDIO)
  for (let second = 0; second < 4; second += 1) log.count(SECOND)
  log.final(said('Yes.', 1, 1.8, false))
  log.settle(1.8)
  t.match(log.final(said('Yes.', 1.6, 2.6, false)), [{ kind: 'final', segment: { start: 1.8, end: 2.6 } }])
})
