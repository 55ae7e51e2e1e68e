import t from 'tap'
import { createAccountViews } from '../../../src/gateway/call/money/accounts.ts'
import { principal } from '../../support/catalog.ts'
import { memoryState } from '../../support/own-state.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

t.test('many looks within a second are one, and what was booked is seen after it', async (t) => {
  const state = memoryState()
  t.teardown(() => state.close())
  let looks = 0
  const clock = new VirtualClock()
  const show: typeof state.accounts.show = (...args) => {
    looks += 1
    return state.accounts.show(...args)
  }
  const views = createAccountViews({ show }, undefined, clock)
  const { workspace } = principal()
  const first = await Promise.all(Array.from({ length: 100 }, () => views.of(workspace)))
  t.equal(new Set(first).size, 1)
  t.equal(first[0]?.creditsMicros, workspace.terms.grant?.micros)
  t.notOk(views.of(workspace) instanceof Promise, 'at once while it is fresh')
  t.equal(looks, 1)
  await state.accounts.addCredits(workspace.id, { id: 'more', micros: 5 })
  await clock.advance(999)
  t.equal(await views.of(workspace), first[0], 'a second is not over')
  await clock.advance(1)
  t.equal((await views.of(workspace))?.creditsMicros, (workspace.terms.grant?.micros ?? 0) + 5)
  t.equal(looks, 2)
})

t.test('a state that is away is asked again, and holds nobody up', async (t) => {
  const views = createAccountViews({ show: () => Promise.reject(new Error('away')) })
  const { workspace } = principal()
  t.equal(await views.of(workspace), null)
  t.equal(views.of(workspace), null)
})

t.test('many workspaces at once are no burden to each other', async (t) => {
  const views = createAccountViews({ show: () => Promise.reject(new Error('away')) })
  const { workspace } = principal()
  let asked = 0
  // What the process works, not what it waits: others may have the machine.
  const workOf = (count: number): number => {
    const before = process.cpuUsage()
    for (let i = 0; i < count; i += 1) void views.of({ ...workspace, id: `w${asked++}` })
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  workOf(5_000)
  const [few, many] = [workOf(5_000), workOf(50_000)]
  t.ok(many < 40 * few, `ten times as many cost ${(many / few).toFixed(1)} times as much`)
})
