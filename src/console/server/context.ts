import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { ConsoleState } from '../../contracts/console.ts'
import type { Clock } from '../../contracts/time.ts'
import type { AdminContext } from '../../gateway/admin/actor.ts'
import type { UsageAdminContext } from '../../gateway/admin/usage.ts'
import type { Dependencies } from '../../gateway/api/endpoint.ts'
import type { UsageLog } from '../../usage/log.ts'

/** Services and stores that the endpoints of the console work with. */
export interface ConsoleContext {
  /** As for every endpoint: services and state, jobs, log. */
  readonly deps: Dependencies
  /** For commands, which make every change. */
  readonly admin: AdminContext
  /** For questions of usage. */
  readonly usage: ConsoleUsage
  /** The catalog that this node serves. */
  readonly catalog: CatalogService
  /** Sessions, recorded requests and samples. */
  readonly state: ConsoleState
  /** Paths whose requests are recorded. */
  readonly recordedPaths: readonly string[]
  /** Name of this node in its samples. */
  readonly nodeName: string
  readonly clock: Clock
}

/** The usage ledger, as far as the console asks it. */
export interface ConsoleUsage extends UsageAdminContext {
  /** Record by record. */
  readonly log: UsageLog
  /** This node keeps records; false: there may be some of others, or of earlier. */
  readonly isRecorded: boolean
}
