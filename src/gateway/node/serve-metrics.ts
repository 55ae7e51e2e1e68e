import { readVersion } from '../../contracts/version.ts'
import { BooksWatch } from '../admin/books-watch.ts'
import type { UsageAdminContext } from '../admin/usage.ts'
import type { EdgeServer } from '../edge/server.ts'
import { startMetricsListener } from '../observe/metrics/listener.ts'
import type { WatchedCertificate } from './certificate.ts'
import type { JobWork } from './job-work.ts'
import type { Node } from './node.ts'
import type { Closer } from './snapshots.ts'

interface MeteredDependencies {
  readonly node: Node
  readonly server: EdgeServer | null
  readonly jobs: JobWork | null
  readonly certificate: WatchedCertificate | null
  readonly questions: UsageAdminContext
}

/**
 * Serves the metrics of a node, where that is asked for.
 *
 * @param server null for a worker
 * @param jobs   null where jobs are left to others
 * @param certificate null without TLS
 * @returns the port; undefined: none was asked for
 * @throws Error when the address cannot be listened on
 */
export async function serveMetrics(
  { node, server, jobs, certificate, questions }: MeteredDependencies,
  closers: Closer[],
): Promise<number | undefined> {
  const { environment, metrics, budget, spool, services, state, catalog, keys, usage } = node
  const { LARKWAY_METRICS_HOST: host, LARKWAY_METRICS_PORT: port } = environment
  if (metrics === null || port === undefined) return undefined
  // Loaded only where it is used.
  const { createScrape } = await import('../observe/metrics/scrape.ts')
  const { accounts } = state
  const books = new BooksWatch({ usage: questions, accounts, catalog: () => catalog.service })
  const scrape = createScrape(metrics, {
    version: await readVersion(),
    ...(server === null ? {} : { server, live: node.live }),
    ...(jobs === null ? {} : { jobs }),
    ...(certificate === null ? {} : { certificate: certificate.current }),
    clock: services.clock,
    budget,
    settlements: services.settlements,
    keys,
    ...(usage === null ? {} : { usage: () => usage.rows.figures(), books: () => books.look() }),
    rateLimiter: state.rateLimiter,
    permits: state.permits,
    memory: state.memory,
    replicas: services.replicas,
    snapshot: catalog.current,
    healthOf: (entry) => services.health.view(entry, services.clock.now()).state,
    bodies: () => spool.stats(),
    async figures() {
      const [figures, isHealthy] = await Promise.all([state.jobs.figures(), state.healthy()])
      if (!isHealthy) throw new Error('the state is away')
      return figures
    },
  })
  const listener = await startMetricsListener({ host, port }, scrape)
  closers.push(() => listener.close())
  return listener.port
}
