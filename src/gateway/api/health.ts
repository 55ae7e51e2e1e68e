import { Type } from 'typebox'
import type { Blocked } from '../../contracts/state.ts'
import { publicEndpoint, type Watchers } from './endpoint.ts'
import { json } from './openapi/operation.ts'
import { shape } from './openapi/schema.ts'

/** Answers the question of `/readyz`. */
export interface Readiness {
  /** False from the first signal to stop. */
  accepting(): boolean
  /** Resolves to false when Redis does not answer; the node continues without it. */
  stateHealthy(): Promise<boolean>
  /** Why the state takes nothing any more, as `stateHealthy` found it. */
  stateBlocked(): Blocked | null
}

export interface ReadinessNeeds extends Watchers {
  readonly readiness: Readiness
}

const PROBE = { method: 'GET', tag: 'Node', probe: true, errors: [] } as const

const Alive = shape('Alive', { status: Type.Literal('ok') })
const Ready = shape('Ready', {
  status: Type.Literal('ready'),
  degraded: Type.Boolean({ description: 'the state does not answer, and the node continues without it' }),
})
const NotReady = shape('NotReady', {
  status: Type.Union([Type.Literal('stopping'), Type.Literal('unavailable')]),
  reason: Type.Optional(
    Type.Union([Type.Literal('disk_full'), Type.Literal('disk_failed')], {
      description: 'with `unavailable`: why nothing can be written to the data folder',
    }),
  ),
})

/** Asks nothing, so that a dead dependency never restarts the node. */
export const healthz = publicEndpoint({
  ...PROBE,
  path: '/healthz',
  id: 'healthz',
  summary: 'Liveness',
  answers: [{ status: 200, description: 'the process is alive', contents: [json(Alive)] }],
  handle: () => ({ status: 200, body: '{"status":"ok"}' }),
})

/**
 * Tells a balancer whether to send requests. 200 with `degraded` when Redis is away, or else every node would leave the
 * balancer at once; 503 while the node is stopping, and while its data folder takes nothing, which no other node has.
 */
export const readyz = publicEndpoint({
  ...PROBE,
  path: '/readyz',
  id: 'readyz',
  summary: 'Readiness',
  answers: [
    { status: 200, description: 'ready for requests', contents: [json(Ready)] },
    {
      status: 503,
      description: 'the node is stopping, or its data folder cannot be written',
      contents: [json(NotReady)],
    },
  ],
  async handle(_exchange, { readiness }: ReadinessNeeds) {
    if (!readiness.accepting()) return { status: 503, body: '{"status":"stopping"}' }
    const degraded = !(await readiness.stateHealthy())
    const reason = readiness.stateBlocked()
    if (degraded && reason !== null)
      return { status: 503, body: JSON.stringify({ status: 'unavailable', reason }) }
    return { status: 200, body: JSON.stringify({ status: 'ready', degraded }) }
  },
})
