import type { AbandonedTiming } from '../../usage/abandoned-jobs.ts'
import type { CompactorTiming } from '../../usage/compactor.ts'
import type { LostTiming } from '../../usage/lost-money.ts'
import type { ProgressTiming } from '../../usage/progress.ts'
import type { WriteAheadTiming } from '../../usage/write-ahead.ts'
import type { CallTiming } from '../call/context/services.ts'
import type { JobTiming } from '../jobs/claim.ts'
import type { PurgeTiming } from '../jobs/retention.ts'
import type { AlertTiming } from '../observe/alerts/watch.ts'
import type { RecorderTiming } from '../observe/recorder/recorder.ts'
import type { RedisTiming } from '../state/redis/outage-log.ts'
import type { DeliveryTiming } from '../webhooks/deliveries.ts'
import type { DrainTimes } from './drain.ts'

/**
 * Durations of a node that differ from those that stand beside the code that waits for them: leases, graces, polls and
 * idle times. They are no configuration. What they hold up is only right with values that fit one another, and only
 * a test gains from shorter ones: it waits for a lease of 5 s as it would for one of 30 s.
 */
export interface Timing {
  readonly jobs?: Partial<JobTiming>
  readonly deliveries?: Partial<DeliveryTiming>
  readonly purge?: Partial<PurgeTiming>
  readonly calls?: CallTiming
  readonly drain?: Partial<DrainTimes>
  readonly recorder?: Partial<RecorderTiming>
  readonly usage?: Partial<WriteAheadTiming>
  readonly usageFiles?: Partial<CompactorTiming & ProgressTiming & AbandonedTiming & LostTiming>
  readonly alerts?: Partial<AlertTiming>
  readonly redis?: Partial<RedisTiming>
}

const GROUPS: ReadonlySet<string> = new Set<keyof Timing>([
  'jobs',
  'deliveries',
  'purge',
  'calls',
  'drain',
  'recorder',
  'usage',
  'usageFiles',
  'alerts',
  'redis',
])

/**
 * Reads the durations that a test gives a process which it starts, `LARKWAY_TEST_TIMING` as JSON. Without `NODE_ENV`
 * set to `test` it is an error to give any: a lease that is too short for a real load would have jobs run twice.
 *
 * @throws Error when it is given outside of tests, or is not of the form of `Timing`
 */
export function readTestTiming(env: Readonly<Record<string, string | undefined>>): Timing {
  const text = env.LARKWAY_TEST_TIMING
  if (text === undefined) return {}
  if (env.NODE_ENV !== 'test')
    throw new Error('environment: LARKWAY_TEST_TIMING is for tests, with NODE_ENV=test')
  const timing: unknown = JSON.parse(text)
  if (typeof timing !== 'object' || timing === null)
    throw new Error('environment: LARKWAY_TEST_TIMING must be an object')
  const unknown = Object.keys(timing).filter((group) => !GROUPS.has(group))
  if (unknown.length > 0) throw new Error(`environment: LARKWAY_TEST_TIMING has no ${unknown.join(', ')}`)
  return timing
}
