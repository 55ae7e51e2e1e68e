import fc from 'fast-check'
import t from 'tap'
import { type Admission, latenessUs } from './entitlement.ts'

/** A token a second. */
const LIMIT = { requestsPerMinute: 60, burst: 3 }
const SECOND_US = 1_000_000
const at = (...seconds: number[]): Admission[] =>
  seconds.map((second) => ({ fromUs: second * SECOND_US, toUs: second * SECOND_US }))

/** By the definition: counts the admissions of every window that begins and ends with one. */
function keptInEveryWindow(admissions: readonly Admission[], extra: number): boolean {
  const timesUs = admissions.map(({ fromUs }) => fromUs).sort((one, other) => one - other)
  return timesUs.every((fromUs, first) =>
    timesUs
      .slice(first)
      .every((toUs, further) => further + 1 <= LIMIT.burst + extra + (toUs - fromUs) / SECOND_US),
  )
}

t.test('a limit that is kept, and one admission too many', async (t) => {
  t.ok(latenessUs(at(0, 0, 0, 1, 2, 3, 9, 9, 9), LIMIT, 0) <= 0)
  t.equal(latenessUs(at(0, 0, 0, 0), LIMIT, 0), SECOND_US)
  t.ok(latenessUs(at(0, 0, 0, 0), LIMIT, 1) <= 0)
  t.equal(latenessUs(at(5, 9, 9, 9, 9.25), LIMIT, 0), 0.75 * SECOND_US)
})

t.test('a caller that waited for its answer may have been served any time before', async (t) => {
  const patient = { fromUs: 0, toUs: 2 * SECOND_US }
  t.ok(latenessUs([...at(0, 0, 0), patient], LIMIT, 0) <= 0)
  t.equal(latenessUs([...at(0, 0, 0), patient, patient, patient], LIMIT, 0), SECOND_US)
  t.ok(latenessUs([patient, patient, patient, ...at(0, 2)], LIMIT, 0) <= 0, 'the hurried one is served first')
})

t.test('where the moments are known it finds what counting every window finds', async () => {
  const gaps = fc.array(fc.integer({ min: 0, max: 13 }), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(gaps, fc.integer({ min: 0, max: 2 }), (gaps, extra) => {
      let second = 0
      const admissions = at(...gaps.map((gap) => (second += gap / 8)))
      return latenessUs(admissions, LIMIT, extra) <= 0 === keptInEveryWindow(admissions, extra)
    }),
    { numRuns: 2_000 },
  )
})
