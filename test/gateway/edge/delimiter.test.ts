import t from 'tap'
import { Delimiter } from '../../../src/gateway/edge/delimiter.ts'
import { noise } from '../../support/bodies.ts'
import { Dice } from '../../support/dice.ts'

/** As browsers, curl, requests and undici write them, one that is all one letter, and a short one. */
const BOUNDARIES = [
  '----WebKitFormBoundaryq1Zr8xS0nV4kTj2B',
  '------------------------8f0c2b7d1e3a4f56',
  '3e1d2c4b5a69788796a5b4c3d2e1f001',
  '----formdata-undici-012345678901',
  'b'.repeat(70),
  'x',
]

t.test('it is found where the runtime finds it, whatever is around it', (t) => {
  const dice = new Dice(7)
  const int = (end: number) => dice.below(end)
  let found = 0
  for (const boundary of BOUNDARIES) {
    const whole = Buffer.from(`\r\n--${boundary}`)
    const delimiter = new Delimiter(whole)
    for (let round = 0; round < 400; round += 1) {
      const view = Buffer.from(noise(20_000 + int(5_000), round + 1)).subarray(round % 7)
      if (round % 3 === 0) view.fill(whole[int(whole.length)]!, int(view.length))
      // Parts of it, which have to be looked at.
      for (let part = round % 5 === 0 ? 60 : 2; part > 0; part -= 1)
        whole.copy(view, int(view.length), 0, int(whole.length))
      if (round % 4 > 0) whole.copy(view, round % 8 === 1 ? view.length - whole.length : int(view.length))
      const from = int(50)
      const place = view.indexOf(whole, from)
      if (place !== -1) found += 1
      if (delimiter.find(view, from) !== place) t.fail(`${boundary}, round ${round}: not at ${place}`)
    }
  }
  t.ok(found > BOUNDARIES.length * 200)
  t.end()
})
