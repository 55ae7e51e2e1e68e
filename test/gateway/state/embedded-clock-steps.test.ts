import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger } from '../../../src/contracts/log.ts'
import type { State } from '../../../src/contracts/state.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { claimingOf, KEEP, SUCCESS, specOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import {
  beginningOf,
  claimOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newWorkspace,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const LEASE_MS = 30_000
const HELD_MICROS = 40
const CLAIMING = claimingOf({ leaseMs: LEASE_MS, limit: 4 })

/** A job, an idempotency key and money, each held for `LEASE_MS` from now on. */
async function holdings(state: State, workspace: string) {
  await state.jobs.submit({ spec: specOf(workspace), slot: null })
  const [claimed] = await state.jobs.claim(CLAIMING)
  const slot = claimOf(newDigest(), { leaseMs: LEASE_MS, ttlMs: LEASE_MS })
  const terms = { ...NO_TERMS, grant: { id: 'g', micros: 1_000 } }
  const reservation = reserve(HELD_MICROS, { terms, leaseMs: LEASE_MS })
  const beginning = beginningOf(workspace, { slot, reservation })
  const begun = await state.ledger.begin(beginning)
  return { job: claimed!.job, slot, beginning, begun, terms }
}

async function openState(t: Test, clock: VirtualClock, file: string): Promise<State> {
  const state = await openEmbeddedState({ file, clock, log: createLogger('silent') })
  t.teardown(() => state.close())
  return state
}

for (const [what, servers] of [
  ['', 1],
  [', once where two servers share the file', 2],
] as const)
  t.test(`a clock that is set forward ends no lease${what}`, async (t) => {
    const clock = new VirtualClock()
    const file = join(await tempFolder(t), 'state.sqlite')
    const states = await Promise.all(Array.from({ length: servers }, () => openState(t, clock, file)))
    const [state] = states as [State, ...State[]]
    const workspace = newWorkspace()
    for (const one of states) t.ok(await one.healthy())
    const { job, slot, beginning, begun, terms } = await holdings(state, workspace)
    t.same(begun, { state: 'begun' })

    clock.set(LONG_MS * 48)
    for (const one of states) {
      t.same(await one.jobs.claim(CLAIMING), [], 'the job is not begun a second time')
      t.same(await one.ledger.look(workspace, slot.id), { state: 'running' })
    }
    const charge = { platformMicros: 3, spendMicros: 3 }
    const end = { state: 'stored', result: resultOf('done'), ttlMs: LONG_MS } as const
    const { token } = beginning
    const settlement = { token, workspace, slot: { id: slot.id, end }, charge }
    await state.ledger.settle(settlement)
    t.match(
      await state.ledger.look(workspace, slot.id),
      { state: 'stored' },
      'the answer is kept for its key',
    )
    const { creditsMicros } = await state.accounts.show(workspace, terms)
    t.equal(creditsMicros, 997, 'and costs what it came to')
    t.ok(await state.jobs.end(job.id, job.fence, SUCCESS, KEEP), 'the job ends by its first claim')
  })

t.test('and an extended lease ends as late as it would have', async (t) => {
  const clock = new VirtualClock()
  const state = await openState(t, clock, join(await tempFolder(t), 'state.sqlite'))
  const workspace = newWorkspace()
  const { job, slot } = await holdings(state, workspace)
  clock.set(LONG_MS)
  await clock.advance(LEASE_MS - 1)
  t.same(await state.jobs.claim(CLAIMING), [])
  t.same(await state.ledger.look(workspace, slot.id), { state: 'running' })
  await clock.advance(1)
  t.same(
    (await state.jobs.claim(CLAIMING)).map((claimed) => claimed.job.id),
    [job.id],
  )
  t.same(await state.ledger.look(workspace, slot.id), { state: 'burned' })
})
