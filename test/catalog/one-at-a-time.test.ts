import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { oneAtATime } from '../../src/catalog/polling.ts'

t.test('whoever comes while it runs shares a run that begins after that', async (t) => {
  let begun = 0
  let atOnce = 0
  const ask = oneAtATime(async () => {
    begun += 1
    atOnce += 1
    t.equal(atOnce, 1, 'never two at once')
    await sleep(5)
    atOnce -= 1
  })
  await Promise.all([ask(), ask(), ask(), ask()])
  t.equal(begun, 2)
  await ask()
  t.equal(begun, 3)
  for (let round = 0; round < 20; round++) {
    const before = begun
    const asked = [ask(), ask()]
    await sleep(round % 7)
    asked.push(ask())
    await Promise.all(asked)
    t.ok(begun > before && begun <= before + 3)
  }
})

t.test('a run that fails is the failure of those who asked for it alone', async (t) => {
  let fails = true
  const ask = oneAtATime(async () => {
    await sleep(2)
    if (fails) throw new Error('away')
  })
  const first = ask()
  const second = ask()
  await t.rejects(first, { message: 'away' })
  fails = false
  await t.resolves(second)
  await t.resolves(ask())
})
