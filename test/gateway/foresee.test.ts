import t from 'tap'
import { foresee } from '../../src/gateway/foresee.ts'
import { newTrail } from '../../src/gateway/gateway.ts'
import type { Principal } from '../../src/schema/catalog.ts'
import { facts, principal, route } from '../support/catalog.ts'
import { chatCall, entryAt, gatewayRig, upstream } from '../support/gateway-rig.ts'

const NOWHERE = 'http://127.0.0.1:9'
const selectors = { purpose: null, responseProfile: null }
const chat = { payload: chatCall(), selectors, warnings: [] }

/** Of a caller who is admitted. */
const trailOf = (caller: Principal) => Object.assign(newTrail(), { principal: caller })

t.test('names the route that is going to serve', async (t) => {
  const entries = [entryAt(NOWHERE)]
  const { services } = gatewayRig(t, { entries })
  const caller = principal({ route: route(entries) })
  const trail = trailOf(caller)
  foresee(services, { operation: 'chat', trail, call: chat })
  t.equal(trail.policyVersionId, caller.route.version)
})

t.test('refuses what no entry can do', async (t) => {
  const entries = [entryAt(NOWHERE, { facts: facts({ capabilities: ['audio_input'] }) })]
  const { services } = gatewayRig(t, { entries })
  const caller = principal({ route: route(entries) })
  const trail = trailOf(caller)
  const asked = { operation: 'chat' as const, trail, call: chat }
  t.throws(() => foresee(services, asked), { code: 'NO_HEALTHY_PROVIDER' })
  t.equal(trail.policyVersionId, caller.route.version, 'and says which route refuses')
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
  const trail = trailOf(caller)
  foresee(services, { operation: 'chat', trail, call: chat })
  t.equal(trail.policyVersionId, caller.route.version)
  t.same(requests, [], 'nobody was asked')
})
