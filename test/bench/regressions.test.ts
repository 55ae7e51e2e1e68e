import t from 'tap'
import { type Figure, ratio } from '../../bench/quick/figure.ts'
import type { Entry } from '../../bench/quick/history.ts'
import { HISTORY_BOUNDS, judge, PAIR_BOUND, type Reference } from '../../bench/quick/regressions.ts'

const ME = 'GET /v1/me, CPU'
const RSS = 'GET /v1/me, peak RSS'

/** Rounds as a noisy machine has them: what slows one round slows all servers of that round. */
const PACE = [1, 1.3, 0.9, 1.1, 1.6, 1]
/** Deviations of each server by itself: a few percent up and down. */
const NOISE = [1.03, 0.97, 1, 1.04, 0.96, 1.02]

const rounds = (value: number, noise = NOISE) =>
  PACE.map((pace, index) => value * pace * (noise[index] ?? Number.NaN))

function figure(name: string, own: number, base: number, peer: number): Figure {
  const reversed = NOISE.toReversed()
  const unit = name === RSS ? 'MiB' : 'µs'
  return { name, unit, own: rounds(own), base: rounds(base, reversed), peer: rounds(peer, reversed) }
}

const AT_BASE = { base: 'abc', last: undefined }
const entry = (figures: Entry['figures']): Entry => ({ commit: 'abc', at: '', machine: '', figures })
/** The figures before the regressions: 12.0 µs beside 6.0, and 174 MiB beside 69. */
const RECORDED = entry({
  [ME]: { value: 12, unit: 'µs', ratio: 12 / 6 },
  [RSS]: { value: 174, unit: 'MiB', ratio: 174 / 69 },
})
const BY_HISTORY = { base: null, last: RECORDED }

t.test('regressions that went unnoticed once are noticed', async (t) => {
  const figures = [figure(ME, 14.5, 12, 6), figure(RSS, 280, 174, 69)]
  const verdicts = judge([ME, RSS], figures, AT_BASE)
  t.same(
    verdicts.map(({ ok, repeatable }) => ({ ok, repeatable })),
    [
      { ok: false, repeatable: true },
      { ok: false, repeatable: true },
    ],
  )
  t.match(verdicts[0]?.line, /^GET \/v1\/me, CPU: 1\.2\d\d × /)
  // Other runs differ by more than a fifth, but not that much in memory.
  const [, memory] = judge([ME, RSS], figures, BY_HISTORY)
  t.match(memory, { ok: false, repeatable: true })
  const [doubled] = judge([ME], [figure(ME, 26, 12, 6)], BY_HISTORY)
  t.match(doubled, { ok: false, repeatable: true })
})

t.test('noise of a few percent passes, and so does what got better', async (t) => {
  for (const reference of [AT_BASE, BY_HISTORY])
    for (const change of [0.5, 0.96, 1, 1.04, 1.08]) {
      const figures = [figure(ME, 12 * change, 12, 6), figure(RSS, 174 * change, 174, 69)]
      for (const { ok, line } of judge([ME, RSS], figures, reference)) t.ok(ok, line)
    }
})

t.test('the bounds', async (t) => {
  const last = entry({ [ME]: { value: 1, unit: 'µs', ratio: 1 }, [RSS]: { value: 1, unit: 'MiB', ratio: 1 } })
  for (const [name, unit, bound, reference] of [
    [ME, 'µs', PAIR_BOUND, { base: 'abc', last }],
    [RSS, 'MiB', PAIR_BOUND, { base: 'abc', last }],
    [ME, 'µs', HISTORY_BOUNDS.time, { base: null, last }],
    [RSS, 'MiB', HISTORY_BOUNDS.memory, { base: null, last }],
  ] as const) {
    const exact = (own: number): Figure => ({ name, unit, own: [own], base: [1], peer: [1] })
    t.ok(judge([name], [exact(bound)], reference)[0]?.ok)
    t.notOk(judge([name], [exact(bound + 0.001)], reference)[0]?.ok)
  }
})

t.test('what is missing has not passed, and another measurement would not help', async (t) => {
  const whole = figure(ME, 12, 12, 6)
  const cases: [string, readonly Figure[], Reference, RegExp][] = [
    ['figure', [], AT_BASE, /: not measured$/],
    ['runs', [{ ...whole, own: [] }], AT_BASE, /: not measured$/],
    ['peer', [{ ...whole, peer: [] }], AT_BASE, /: its peer was not measured$/],
    ['peer, in a round', [{ ...whole, peer: whole.peer.slice(1) }], AT_BASE, /: its peer was not measured$/],
    ['base', [{ ...whole, base: [] }], AT_BASE, /: not measured at the base abc$/],
    [
      'base, a number',
      [{ ...whole, base: whole.base.map(() => 0) }],
      AT_BASE,
      /: not measured at the base abc$/,
    ],
    ['history', [whole], { base: null, last: undefined }, /: no base, and the history does not have it$/],
    ['history, of this figure', [whole], { base: null, last: entry({}) }, /the history does not have it$/],
  ]
  for (const [name, figures, reference, why] of cases) {
    const [verdict] = judge([ME], figures, reference)
    t.notOk(verdict?.ok, name)
    t.notOk(verdict?.repeatable, name)
    t.match(verdict?.line, why, name)
  }
})

t.test('ratios are of the same round', async (t) => {
  t.equal(ratio([2, 20, 6], [1, 10, 3]), 2)
  t.equal(ratio([1, 10, 100], [100, 10, 1]), 1)
  t.equal(ratio([], []), null)
  t.equal(ratio([1], []), null)
})
