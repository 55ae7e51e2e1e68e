import t from 'tap'
import { chatCall, entryAt, gatewayRig, runIdempotent } from '../../support/gateway-rig.ts'
import { startUpstream } from '../../support/upstream/upstream.ts'

const SLOT = 'ab'.repeat(32)
const once = { slotId: SLOT, fingerprint: 'f1' }

t.test('an answer that cannot be told is paid, and not asked for again', async (t) => {
  const upstream = await startUpstream(t)
  const rig = gatewayRig(t, { entries: [entryAt(new URL(upstream.url).origin)] })
  const { services } = rig
  const render = () => {
    throw new Error('it cannot be written down')
  }
  await t.rejects(runIdempotent(services, rig.request('chat', chatCall()), { ...once, render }), {
    message: 'it cannot be written down',
  })
  t.same(await services.state.ledger.look('acme', SLOT), { state: 'burned' })
  t.equal(services.budget.used, 0, 'no memory is held')
  const again = { ...once, render: () => ({ status: 200, headers: {}, text: '' }) }
  await t.rejects(runIdempotent(services, rig.request('chat', chatCall()), again), {
    code: 'IDEMPOTENT_RESULT_UNAVAILABLE',
  })
  t.equal(upstream.received.length, 1)
  const { spentMicros, reservedMicros } = await services.state.accounts.show('acme', {
    grant: null,
    trial: null,
    budgetMicros: null,
  })
  t.ok(spentMicros > 0 && reservedMicros === 0, 'it is paid')
})
