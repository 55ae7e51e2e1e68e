import type { EventEnding } from '../schema/outbox.ts'
import { Counters, type Rendered } from './family.ts'

/** What this process does for jobs beside running their calls. */
export class WorkMetrics {
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
