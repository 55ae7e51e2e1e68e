import type { EventEnding } from '../../../contracts/outbox.ts'
import { CallMetrics } from './call-metrics.ts'
import { Counters, type Rendered } from './family.ts'
import { LiveMetrics } from './live-metrics.ts'
import { RequestMetrics } from './request-metrics.ts'
import { ShadowMetrics } from './shadow-metrics.ts'
import { TenantMetrics } from './tenant-metrics.ts'
import { UsageMetrics } from './usage-metrics.ts'

/** Work on jobs besides their calls. */
class WorkMetrics {
  readonly #deliveries = new Counters(
    'larkway_webhook_deliveries_total',
    'Attempts to deliver a webhook, by what became of them.',
    ['outcome'],
  )

  constructor() {
    for (const outcome of ['delivered', 'retry', 'given_up', 'dropped']) this.#deliveries.of(outcome)
  }

  delivered(outcome: EventEnding['state']): void {
    this.#deliveries.of(outcome).add(1)
  }

  get families(): readonly Rendered[] {
    return [this.#deliveries]
  }
}

/** Counters of this process, in plain fields; they are rendered at a scrape. */
export interface Metrics {
  readonly requests: RequestMetrics
  readonly calls: CallMetrics
  readonly live: LiveMetrics
  readonly shadows: ShadowMetrics
  readonly work: WorkMetrics
  readonly tenants: TenantMetrics
  /** Told only where records of usage are written. */
  readonly usage: UsageMetrics
}

export function createMetrics(): Metrics {
  return {
    requests: new RequestMetrics(),
    calls: new CallMetrics(),
    live: new LiveMetrics(),
    shadows: new ShadowMetrics(),
    work: new WorkMetrics(),
    tenants: new TenantMetrics(),
    usage: new UsageMetrics(),
  }
}
