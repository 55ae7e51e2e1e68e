import type { Jobs } from '../../../contracts/jobs.ts'
import { nextTurn, within } from '../../../contracts/time.ts'
import { renderReading } from './family.ts'
import type { Metrics } from './metrics.ts'
import { type NodeDependencies, nodeReadings, stateReadings } from './node-readings.ts'
import { createProcessMetrics } from './process-readings.ts'

/** How long the state has for its figures; the rest is told without them. */
const STATE_MS = 1_000

/**
 * Everything in the text format of Prometheus (version 0.0.4), also metrics of the process and of Node.
 * Whoever asks while another one is answered gets the same answer. It takes little more than a second at most, and
 * requests get their turns in between.
 */
export function createScrape(
  { requests, calls, live, shadows, work, tenants, usage }: Metrics,
  node: NodeDependencies & Pick<Jobs, 'figures'>,
): () => Promise<string> {
  const ofProcess = createProcessMetrics()
  let current: Promise<string> | null = null

  async function scrape(): Promise<string> {
    const figures = await within(STATE_MS, node.figures(), node.clock).catch(() => null)
    const rooms = [requests, calls, live, shadows, work, tenants]
    const groups = node.usage === undefined ? rooms : [...rooms, usage]
    const counted = groups.flatMap(({ families }) => families.map((one) => one.render()))
    const read = [...nodeReadings(node), ...stateReadings(figures)].map(renderReading)
    const texts: string[] = []
    for (const pieces of [...counted, ...read, ...ofProcess().map((one) => one.render())])
      for (const piece of pieces) {
        texts.push(piece)
        await nextTurn()
      }
    return texts.join('')
  }

  return () => {
    current ??= scrape().finally(() => {
      current = null
    })
    return current
  }
}
