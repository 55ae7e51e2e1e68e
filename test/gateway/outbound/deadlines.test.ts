import t from 'tap'
import { Deadlines, Perishable } from '../../../src/gateway/outbound/deadlines.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

/** Lists are shared by ticks that are so far apart. */
const SHARED_MS = 16 * 1_024
/** A deadline is noticed up to a tick late. */
const LATE_MS = 16

class Noted extends Perishable {
  expired = 0
  readonly onExpired: () => void

  constructor(onExpired = () => {}) {
    super()
    this.onExpired = onExpired
  }

  override expire(): void {
    this.expired += 1
    this.onExpired()
  }
}

t.test('each that is kept is given up once, at its deadline, and no other of its list', async (t) => {
  const clock = new VirtualClock()
  const deadlines = new Deadlines(clock)
  const all = Array.from({ length: 6 }, () => new Noted())
  for (const one of all) deadlines.add(one, 50)
  const later = new Noted()
  deadlines.add(later, 50 + SHARED_MS)
  const [last, , middle, , , first] = all
  for (const one of [first, middle, last, middle]) deadlines.remove(one!)
  const expired = () => all.map(({ expired }) => expired)
  await clock.advance(49)
  t.same(expired(), [0, 0, 0, 0, 0, 0])
  await clock.advance(1 + LATE_MS)
  t.same(expired(), [0, 1, 0, 1, 1, 0])
  t.equal(later.expired, 0)
  await clock.advance(SHARED_MS)
  t.same([later.expired, ...expired()], [1, 0, 1, 0, 1, 1, 0])
})

t.test('a later deadline takes the place of an earlier one', async (t) => {
  const clock = new VirtualClock()
  const deadlines = new Deadlines(clock)
  const [moved, unbounded, between] = [new Noted(), new Noted(), new Noted()]
  deadlines.add(moved, 20)
  deadlines.add(moved, 60_050)
  deadlines.add(unbounded, 50)
  deadlines.add(unbounded, Number.POSITIVE_INFINITY)
  deadlines.add(between, 50)
  await clock.advance(50 + LATE_MS)
  t.same([moved.expired, unbounded.expired, between.expired], [0, 0, 1])
})

t.test('one that is given up may forget others that are due, or move them', async (t) => {
  const clock = new VirtualClock()
  const deadlines = new Deadlines(clock)
  const [forgotten, moved] = [new Noted(), new Noted()]
  const both = () => {
    deadlines.remove(forgotten)
    deadlines.add(moved, 230)
  }
  // The one that is added last is the first of its list.
  deadlines.add(forgotten, 30)
  deadlines.add(moved, 30)
  deadlines.add(new Noted(both), 30)
  await clock.advance(229)
  t.equal(moved.expired, 0)
  await clock.advance(1 + LATE_MS)
  t.same([moved.expired, forgotten.expired], [1, 0])
})
