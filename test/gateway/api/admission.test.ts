import t from 'tap'
import type { Scope } from '../../../src/contracts/catalog.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { type Dependencies, endpoint } from '../../../src/gateway/api/endpoint.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { entry, principal } from '../../support/catalog.ts'
import { startEdge } from '../../support/edge.ts'
import { gatewayRig } from '../../support/gateway-rig.ts'

/** Every way in which an endpoint admits its callers. */
const WAYS = { usual: {}, unlimited: { limited: false }, ofWorkspace: { ofWorkspace: true } } as const

const DESCRIBED = {
  kind: 'none',
  method: 'GET',
  tag: 'Account',
  summary: 'It',
  scope: 'admin',
  answers: [],
} as const

t.test(
  'a key of the scope operator needs no other where an endpoint says so, whichever way in',
  async (t) => {
    const { services } = gatewayRig(t, { entries: [entry()] })
    const keys = new Map(
      (['admin', 'operator', 'inference'] as const).map(
        (scope) => [scope, makeKey()] satisfies [Scope, string],
      ),
    )
    const holders = new Map(
      [...keys].map(([scope, key]) => {
        const whole = principal()
        return [hashKey(key), { ...whole, key: { ...whole.key, scopes: [scope] } }]
      }),
    )
    const dependencies = {
      services: { ...services, keys: { find: (sha256: string) => holders.get(sha256) } },
      log: createLogger('silent'),
      tracing: null,
    } as unknown as Dependencies
    const routes = Object.entries(WAYS).flatMap(([way, options]) =>
      [{}, { operator: true } as const].map((operator) => {
        const path = `/v1/${'operator' in operator ? 'operator' : 'admin'}/${way}/:workspace` as const
        const handle = () => ({ status: 200, body: 'ok' })
        return endpoint({ ...DESCRIBED, ...options, ...operator, id: path, path, handle }).route(dependencies)
      }),
    )
    const { origin } = await startEdge(t, routes)
    const statusOf = async (path: string, scope: Scope) => {
      const headers = { authorization: `Bearer ${keys.get(scope as 'admin')}` }
      const answer = await fetch(origin + path, { headers })
      await answer.text()
      return answer.status
    }
    for (const way of Object.keys(WAYS)) {
      const both = (scope: Scope) =>
        Promise.all(['admin', 'operator'].map((kind) => statusOf(`/v1/${kind}/${way}/acme`, scope)))
      t.same(await both('admin'), [200, 200], `${way}: the scope that it asks for`)
      t.same(await both('operator'), [403, 200], `${way}: the scope of operators`)
      t.same(await both('inference'), [403, 403], `${way}: another scope`)
    }
    t.equal(
      await statusOf('/v1/operator/ofWorkspace/other', 'operator'),
      404,
      'the workspace stays that of the key',
    )
  },
)
