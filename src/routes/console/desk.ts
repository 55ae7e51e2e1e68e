import type { CatalogDesk } from '../../schema/catalog-desk.ts'
import type { CatalogStore } from '../../schema/catalog-store.ts'
import type { ConsoleState } from '../../schema/console.ts'
import type { Doors } from '../endpoint.ts'
import type { Sending } from '../jobs/webhook-attempt.ts'
import type { WebhookOptions } from '../workspace-webhook.ts'

/** What the endpoints of the console work with. */
export interface ConsoleDesk {
  /** As for every endpoint: services and state, jobs, log. */
  readonly doors: Doors
  /** The catalog that this node serves. */
  readonly catalog: CatalogDesk
  /** What of it is kept in the state, with drafts, versions and the audit list. */
  readonly records: CatalogStore
  /** Sessions, and what is kept to be shown. */
  readonly state: ConsoleState
  /** Also how credentials are sealed. */
  readonly webhooks: WebhookOptions
  /** For a delivery that tries a webhook out, past the same guard as any other. */
  readonly sending: Sending
  /** Has this node know at once which keys the state has now. */
  readonly refreshKeys: () => Promise<void>
  /** Epoch milliseconds. */
  readonly nowMs: () => number
}
