import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { oneAtATime } from '../../src/contracts/one-at-a-time.ts'

t.test('who comes while it runs shares a run that begins after that', async (t) => {
  let begun = 0
  let ended = 0
  let atOnce = 0
  let end = () => {}
  const ask = oneAtATime(async () => {
    begun += 1
    atOnce += 1
    t.equal(atOnce, 1, 'never two at once')
    await new Promise<void>((resolve) => {
      end = resolve
    })
    atOnce -= 1
    ended += 1
  })
  /** Asks, and tells which run it was answered by. */
  const asked = async () => {
    await ask()
    return ended
  }
  const [first, ...shared] = [asked(), asked(), asked()]
  t.equal(begun, 1)
  for (let run = 1; run < 10; run++) {
    end()
    await turn()
    t.equal(begun, run + 1, 'who waited has one now')
    shared.push(asked(), asked()) // while the run is under way that others waited for: it began before these asked
  }
  end()
  await turn()
  t.equal(begun, 11)
  end()
  t.same(await Promise.all([first, ...shared]), [
    1,
    ...Array.from({ length: 10 }, (_, i) => [i + 2, i + 2]).flat(),
  ])
  void ask()
  t.equal(begun, 12, 'and none is left over')
  end()
})

t.test('a run that fails is the failure of those who asked for it alone', async (t) => {
  let fails = true
  const ask = oneAtATime(async () => {
    await turn()
    if (fails) throw new Error('away')
  })
  const first = ask()
  const second = ask()
  await t.rejects(first, { message: 'away' })
  fails = false
  await t.resolves(second)
  await t.resolves(ask())
})
