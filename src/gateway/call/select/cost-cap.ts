import { GatewayError } from '../../../contracts/errors.ts'
import type { Call } from '../facts/call.ts'
import { highestCost } from '../facts/meter.ts'
import type { Selection } from './selection.ts'

/**
 * Takes out the entries at which a call may cost more than its caller allows. One whose price is not known may cost
 * anything.
 *
 * @param call   as money is set aside for it: in parts, with what is heard twice
 * @param wallMs epoch milliseconds, for prices that change
 * @throws GatewayError BUDGET_EXCEEDED, with what the cheapest entry would cost, when none is left
 */
export function withinCost(selection: Selection, call: Call, wallMs: number): Selection {
  const { payload } = call
  const most = 'audio' in payload && 'options' in payload ? payload.options.max_cost_usd : undefined
  if (most === undefined) return selection
  const parts = selection.cut?.count ?? 1
  const costs = selection.candidates.map(({ entry }) => highestCost(entry, call, wallMs, parts))
  const candidates = selection.candidates.filter(
    (_, index) => (costs[index] ?? Number.POSITIVE_INFINITY) <= most,
  )
  if (candidates.length > 0) return { ...selection, candidates }
  const known = costs.filter((cost) => cost !== null)
  const estimate = known.length === 0 ? null : Math.min(...known)
  const reason = estimate === null ? 'its cost is not known before' : `it is estimated at ${estimate} USD`
  throw new GatewayError('BUDGET_EXCEEDED', `the call may cost more than its max_cost_usd: ${reason}`, {
    param: 'max_cost_usd',
    details: { budget: 'request', max_cost_usd: most, estimated_cost_usd: estimate },
  })
}
