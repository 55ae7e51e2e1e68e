import type { Exchange } from '../inbound/exchange.ts'
import type { EdgeRoute } from '../inbound/server.ts'

/** What `/readyz` asks. */
export interface Readiness {
  /** False from the first signal to stop. */
  accepting(): boolean
  /** Resolves to false when Redis does not answer; the node goes on without it. */
  stateHealthy(): Promise<boolean>
}

/** GET /healthz: the process answers. Nothing is asked, so that a dead dependency never restarts the node. */
export const healthz: EdgeRoute = {
  method: 'GET',
  path: '/healthz',
  probe: true,
  handle: (exchange) => exchange.reply({ status: 200, body: '{"status":"ok"}' }),
}

/**
 * GET /readyz: whether a balancer should send requests. 200 with `degraded` when Redis is away, else every node would
 * leave the balancer at once; 503 while the node is stopping.
 */
export function readyz(readiness: Readiness): EdgeRoute {
  return {
    method: 'GET',
    path: '/readyz',
    probe: true,
    async handle(exchange: Exchange) {
      if (!readiness.accepting()) {
        exchange.reply({ status: 503, body: '{"status":"stopping"}' })
        return
      }
      const degraded = !(await readiness.stateHealthy())
      exchange.reply({ status: 200, body: JSON.stringify({ status: 'ready', degraded }) })
    },
  }
}
