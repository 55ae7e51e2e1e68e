import t from 'tap'
import type { Principal } from '../../../src/contracts/catalog.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import { run } from '../../../src/gateway/call/pipeline.ts'
import { callOf } from '../../support/call.ts'
import { facts, principal, route } from '../../support/catalog.ts'
import { chatCall, entryAt, gatewayRig, upstream } from '../../support/gateway-rig.ts'

const NOWHERE = 'http://127.0.0.1:9'
const preview = { mode: 'preview', call: callOf('chat', chatCall()) } as const

const contextOf = (caller: Principal) =>
  new CallContext({ requestId: 'req_1', signal: new AbortController().signal }).identify(caller)

t.test('names the route that is going to serve', async (t) => {
  const entries = [entryAt(NOWHERE)]
  const { services } = gatewayRig(t, { entries })
  const caller = principal({ route: route(entries) })
  const context = contextOf(caller)
  await run(services, context, preview)
  t.equal(context.routing.policyVersionId, caller.route.version)
})

t.test('refuses what no entry can do', async (t) => {
  const entries = [entryAt(NOWHERE, { facts: facts({ capabilities: ['audio_input'] }) })]
  const { services } = gatewayRig(t, { entries })
  const caller = principal({ route: route(entries) })
  const context = contextOf(caller)
  await t.rejects(run(services, context, preview), { code: 'NO_HEALTHY_PROVIDER' })
  t.equal(context.routing.policyVersionId, caller.route.version, 'and says which route refuses')
})

t.test('an entry that is not well now may be by then', async (t) => {
  const { origin, requests } = await upstream(t, (response) => response.end('{}'))
  const entries = [entryAt(origin)]
  const { services } = gatewayRig(t, { entries })
  const failure = {
    kind: 'rate',
    status: 429,
    reason: 'too many',
    retryAfterMs: 60_000,
    providerMessage: null,
  } as const
  services.health.failed(entries[0]!, failure, performance.now())
  t.equal(services.health.view(entries[0]!, performance.now()).state, 'cooling')
  const caller = principal({ route: route(entries) })
  const context = contextOf(caller)
  await run(services, context, preview)
  t.equal(context.routing.policyVersionId, caller.route.version)
  t.same(requests, [], 'nobody was asked')
})
