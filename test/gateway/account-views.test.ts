import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createAccountViews } from '../../src/gateway/account-views.ts'
import { createLogger } from '../../src/log.ts'
import { createEmbeddedState } from '../../src/state/embedded/state.ts'
import { principal } from '../support/catalog.ts'

t.test('many looks within a second are one, and what was booked is seen after it', async (t) => {
  const state = createEmbeddedState({ file: ':memory:', log: createLogger('silent') })
  t.teardown(() => state.close())
  let looks = 0
  const views = createAccountViews({
    show: (...args) => {
      looks += 1
      return state.accounts.show(...args)
    },
  })
  const { workspace } = principal()
  const first = await Promise.all(Array.from({ length: 100 }, () => views.of(workspace)))
  t.equal(new Set(first).size, 1)
  t.equal(first[0]?.creditsMicros, workspace.terms.grant?.micros)
  t.notOk(views.of(workspace) instanceof Promise, 'at once while it is fresh')
  t.equal(looks, 1)
  await state.accounts.addCredits(workspace.id, { id: 'more', micros: 5 })
  await sleep(1_050)
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
  const startedMs = performance.now()
  for (let id = 0; id < 50_000; id += 1) void views.of({ ...workspace, id: `w${id}` })
  const milliseconds = performance.now() - startedMs
  t.ok(milliseconds < 4_000, `${Math.round(milliseconds)} ms`)
})
