import type { Logger } from '../log.ts'
import type { CatalogStore } from '../schema/catalog-store.ts'
import { recordId } from '../schema/catalog-store.ts'
import { type Polling, startPolling } from './polling.ts'
import type { Serving } from './serving.ts'

export interface PublishedPollOptions {
  readonly serving: Serving
  readonly store: Pick<CatalogStore, 'version' | 'published'>
  readonly log: Logger
  readonly pollMs?: number
}

/**
 * Has the catalog served that is published in the state, and served anew whenever that changes. While the state is away
 * the last known one stays in force.
 */
export function pollPublished({ serving, store, log, pollMs }: PublishedPollOptions): Polling {
  /** Of what was read last, in force or not; null: it has to be read. */
  let version: string | null = null

  async function read(): Promise<void> {
    if (version !== null && (await store.version()) === version) return
    const published = await store.published()
    const left = leftOut(serving)
    const offered = serving.offerPublished(published)
    version = published.version
    const about = { catalog_version: version, records: published.records.length }
    if (!('faults' in offered)) log.info(about, 'published catalog read')
    else {
      const { faults } = offered
      log.error({ ...about, faults }, 'published catalog refused, it does not fit; the old one stays')
    }
    logLeftOut(left)
  }

  function logLeftOut(before: string): void {
    if (leftOut(serving) === before) return
    const left_out = serving.broken().map(({ record, faults }) => ({ record: recordId(record), faults }))
    if (left_out.length === 0) log.info('every published record is served')
    else log.error({ left_out }, 'published records do not fit the configuration and are left out')
  }

  return startPolling({
    read,
    onAway: (error) => {
      const known = serving.isWhole() ? serving.records().length : null
      log.warn({ err: error, known }, 'the published catalog cannot be read; the last known one holds')
    },
    onBack: () => log.info('the published catalog can be read again'),
    pollMs,
  })
}

function leftOut(serving: Serving): string {
  return JSON.stringify(serving.broken().map(({ record, faults }) => [recordId(record), faults]))
}
