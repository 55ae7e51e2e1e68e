import t from 'tap'
import { Deadlines, Perishable } from '../../src/outbound/deadlines.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Lists are shared by slots that are so far apart. */
const SHARED_MS = 16 * 1_024

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

/** The timer of deadlines keeps no process alive. */
t.beforeEach((t) => {
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => clearInterval(alive))
})

t.test('each that is kept is given up once, at its deadline, and no other of its list', async (t) => {
  const deadlines = new Deadlines()
  const atMs = performance.now() + 50
  const all = Array.from({ length: 6 }, () => new Noted())
  for (const one of all) deadlines.add(one, atMs)
  const later = new Noted()
  deadlines.add(later, atMs + SHARED_MS)
  const [last, , middle, , , first] = all
  for (const one of [first, middle, last, middle]) deadlines.remove(one!)
  t.ok(await waitUntil(() => all[1]!.expired > 0, 5_000))
  t.ok(performance.now() >= atMs)
  t.same(
    all.map(({ expired }) => expired),
    [0, 1, 0, 1, 1, 0],
  )
  t.equal(later.expired, 0)
})

t.test('a later deadline takes the place of an earlier one', async (t) => {
  const deadlines = new Deadlines()
  const atMs = performance.now() + 50
  const moved = new Noted()
  deadlines.add(moved, atMs - 30)
  deadlines.add(moved, atMs + 60_000)
  const unbounded = new Noted()
  deadlines.add(unbounded, atMs)
  deadlines.add(unbounded, Number.POSITIVE_INFINITY)
  const between = new Noted()
  deadlines.add(between, atMs)
  t.ok(await waitUntil(() => between.expired > 0, 5_000))
  t.equal(moved.expired, 0)
  t.equal(unbounded.expired, 0)
})

t.test('one that is given up may forget others that are due, or move them', async (t) => {
  const deadlines = new Deadlines()
  const atMs = performance.now() + 30
  const forgotten = new Noted()
  const moved = new Noted()
  const both = () => {
    deadlines.remove(forgotten)
    deadlines.add(moved, atMs + 200)
  }
  // The one that is added last is the first of its list.
  deadlines.add(forgotten, atMs)
  deadlines.add(moved, atMs)
  deadlines.add(new Noted(both), atMs)
  t.ok(await waitUntil(() => moved.expired > 0, 5_000))
  t.ok(performance.now() >= atMs + 200)
  t.equal(moved.expired, 1)
  t.equal(forgotten.expired, 0)
})
