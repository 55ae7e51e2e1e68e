import { buildSnapshot } from '../../src/gateway/catalog/snapshot.ts'
import { readEnvironment } from '../../src/gateway/node/config.ts'
import { drainTimes } from '../../src/gateway/node/drain.ts'
import { SHIPPED } from '../../src/gateway/providers/facts.ts'

/** What follows the longest deadline: the end of its call, the refusal of those that still send, the stores. */
const ENDING_SECONDS = 20

/**
 * How long a node with the usual deadlines may take to stop; whoever runs it gives it more.
 *
 * @param drainSeconds default: that of the gateway
 */
export function stopSeconds(drainSeconds: number = readEnvironment({}).LARKWAY_DRAIN_SECONDS): number {
  const sources = { env: {}, readSecret: () => '', open: () => null, kinds: new Map(), models: SHIPPED }
  const reading = buildSnapshot({ providers: {}, routes: {}, workspaces: {} }, sources)
  if ('issues' in reading) throw new Error(reading.issues.join('; '))
  const { deadlineMs, videoDeadlineMs } = reading.snapshot
  const { extraMs } = drainTimes(drainSeconds * 1_000, 0)
  return drainSeconds + (extraMs + Math.max(deadlineMs, videoDeadlineMs)) / 1_000 + ENDING_SECONDS
}
