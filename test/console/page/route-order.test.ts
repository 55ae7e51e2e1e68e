import t from 'tap'
import {
  type Extent,
  landing,
  moved,
  placeByDrag,
  placeByKey,
  shifts,
} from '../../../src/console/page/views/routes/editing.ts'

t.test('an element goes where it was put, and the others keep their order', async (t) => {
  const list = ['a', 'b', 'c', 'd']
  t.same(moved(list, 0, 2), ['b', 'c', 'a', 'd'])
  t.same(moved(list, 3, 0), ['d', 'a', 'b', 'c'])
  t.same(moved(list, 1, 3), ['a', 'c', 'd', 'b'])
  t.equal(moved(list, 2, 2), list)
  t.equal(moved(list, 7, 0), list)
})

t.test('keys move by one, or to an end, and stop there', async (t) => {
  for (const [key, from, to] of [
    ['ArrowUp', 2, 1],
    ['ArrowUp', 0, 0],
    ['ArrowDown', 2, 3],
    ['ArrowDown', 3, 3],
    ['Home', 2, 0],
    ['End', 0, 3],
    ['Enter', 2, null],
  ] as const)
    t.equal(placeByKey(key, from, 4), to, `${key} from ${from}`)
})

/** Heights of 100, 40 and 60 with gaps of 10. */
const EXTENTS: readonly Extent[] = [
  { top: 0, height: 100 },
  { top: 110, height: 40 },
  { top: 160, height: 60 },
]

t.test('a dragged element changes places when its leading edge passes the middle of the next', async (t) => {
  for (const [from, dy, to] of [
    [0, 0, 0],
    [0, 30, 0],
    [0, 31, 1],
    [0, 90, 1],
    [0, 91, 2],
    [0, 1000, 2],
    [2, -29, 2],
    [2, -31, 1],
    [2, -111, 0],
    [2, -5000, 0],
    [1, -50, 1],
    [1, -61, 0],
  ] as const)
    t.equal(placeByDrag(EXTENTS, from, dy), to, `${from} by ${dy}`)
  t.equal(placeByDrag([], 0, 5), 0)
})

t.test('the others make way, and what is let go lands where they left room', async (t) => {
  t.same(shifts(EXTENTS, 0, 2), [0, -110, -110])
  t.same(shifts(EXTENTS, 2, 0), [70, 70, 0])
  t.same(shifts(EXTENTS, 1, 1), [0, 0, 0])
  t.equal(landing(EXTENTS, 0, 2), 120)
  t.equal(landing(EXTENTS, 2, 0), -160)
  t.equal(Math.abs(landing(EXTENTS, 1, 1)), 0)
})
