import { CallMetrics } from './call-metrics.ts'
import { RequestMetrics } from './request-metrics.ts'
import { WorkMetrics } from './work-metrics.ts'

/** What this process counts, in plain fields. Nothing is made of them until somebody asks. */
export interface Metrics {
  readonly requests: RequestMetrics
  readonly calls: CallMetrics
  readonly work: WorkMetrics
}

export function createMetrics(): Metrics {
  return { requests: new RequestMetrics(), calls: new CallMetrics(), work: new WorkMetrics() }
}
