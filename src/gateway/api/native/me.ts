import type { Capability } from '../../../contracts/calls.ts'
import type { Principal, Purpose, Route, Snapshot } from '../../../contracts/catalog.ts'
import { limitsOf } from '../../../contracts/catalog.ts'
import type { AccountView } from '../../../contracts/ledger.ts'
import type { Limits } from '../../../contracts/limits.ts'
import { usdOf } from '../../call/facts/price.ts'
import { capabilitiesOf } from '../../call/select/eligibility.ts'
import { isUsable } from '../../call/select/selection.ts'
import { keyPrefix } from '../../catalog/key.ts'
import type { Reply } from '../../edge/exchange.ts'
import { endpoint } from '../endpoint.ts'
import { Me } from '../openapi/answers.ts'
import { json } from '../openapi/operation.ts'

export const me = endpoint({
  method: 'GET',
  path: '/v1/me',
  kind: 'none',
  id: 'me',
  tag: 'Account',
  summary: 'Current key',
  description:
    'The app, route and purposes of the key, the limits in force, and the remaining budget, up to two seconds old.',
  scope: 'inference',
  limited: false,
  answers: [{ status: 200, description: 'the key, its app and its workspace', contents: [json(Me)] }],
  handle({ exchange, context: { principal }, deps: { services } }) {
    const { authorization } = exchange.headers
    const snapshot = services.snapshot()
    const account = services.accountViews.of(principal.workspace)
    if (account instanceof Promise)
      return account.then((later) => replyOf(principal, snapshot, later, authorization))
    return replyOf(principal, snapshot, account, authorization)
  },
})

type Known = Pick<Snapshot, 'limits' | 'modelsIssuedAt'>

interface Described {
  readonly limits: Limits
  readonly account: AccountView | null
  readonly body: string
}

/** The last answer to a key. A principal and its limits belong to one snapshot, and so does what is said of them. */
const described = new WeakMap<Principal, Described>()

function replyOf(
  principal: Principal,
  known: Known,
  account: AccountView | null,
  authorization: string | undefined,
): Reply {
  const limits = limitsOf(principal, known)
  const last = described.get(principal)
  if (last?.limits === limits && last.account === account) return { status: 200, body: last.body }
  const body = JSON.stringify(describe(principal, bearerOf(authorization), { ...known, limits }, account))
  described.set(principal, { limits, account, body })
  return { status: 200, body }
}

function describe(
  principal: Principal,
  bearer: string,
  { limits, modelsIssuedAt }: Known,
  account: AccountView | null,
) {
  const { app, key, route } = principal
  const { id, name, plan } = principal.workspace
  return {
    workspace: { id, name, plan },
    app,
    key: { id: key.id, name: key.name, prefix: keyPrefix(bearer), scopes: key.scopes },
    route: {
      name: route.name,
      policy_version_id: route.version,
      capabilities: [...capabilitiesOf(route)].sort(),
    },
    purposes: principal.purposes.map((one) => ({
      purpose: one.purpose,
      description: one.description,
      is_enabled: isUsable(one, principal.workspace),
    })),
    routing_contexts: contextsOf(principal),
    limits,
    billing: billingOf(principal, account),
    models: { issued_at: modelsIssuedAt ?? null },
  }
}

/**
 * `credits_usd` is null for a workspace that was never given any; the budget and what was spent this month are the
 * key's, or where it has no budget, the workspace's. All are null while the state does not answer.
 */
function billingOf({ workspace, key }: Principal, account: AccountView | null) {
  if (account === null) return { credits_usd: null, budget_usd: null, spent_usd: null }
  const { creditsMicros, grants, spentMicros, spentByKey } = account
  const own = key.budgetMicros !== null
  const budget = own ? key.budgetMicros : workspace.terms.budgetMicros
  const spent = own ? (spentByKey[key.id] ?? 0) : spentMicros
  return {
    credits_usd: grants.length === 0 ? null : usdOf(creditsMicros),
    budget_usd: budget === null ? null : usdOf(budget),
    spent_usd: usdOf(spent),
  }
}

function bearerOf(authorization = ''): string {
  return authorization.slice(authorization.lastIndexOf(' ') + 1)
}

/**
 * The default routing, and each capability that an override routes elsewhere; with the purposes that would replace that
 * route: in the context of a capability those whose own route has it.
 */
function contextsOf(principal: Principal) {
  const overrides = [...principal.capabilityRoutes].map(([capability, override]) => {
    return contextAnswer(capability, override, usable(principal, capability))
  })
  return [contextAnswer('default', principal.route, usable(principal, null)), ...overrides]
}

function contextAnswer(context: string, { name, version }: Route, purposes: readonly string[]) {
  return { context, route: name, policy_version_id: version, purposes }
}

function usable({ purposes, workspace }: Principal, capability: Capability | null): string[] {
  const has = ({ route }: Purpose): boolean =>
    capability === null || (route !== null && capabilitiesOf(route).has(capability))
  return purposes.filter((one) => isUsable(one, workspace) && has(one)).map(({ purpose }) => purpose)
}
