import type { AdminContext } from '../../admin/actor.ts'
import type { Dependencies } from '../../api/endpoint.ts'
import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { ConsoleState } from '../../contracts/console.ts'
import type { UsageLog } from '../../usage/log-worker.ts'
import type { UsageReader } from '../../usage/reader.ts'

/** Services and stores that the endpoints of the console work with. */
export interface ConsoleContext {
  /** As for every endpoint: services and state, jobs, log. */
  readonly dependencies: Dependencies
  /** For commands, which make every change. */
  readonly admin: AdminContext
  /** The catalog that this node serves. */
  readonly catalog: CatalogService
  /** Sessions, recorded requests and samples. */
  readonly state: ConsoleState
  /** The usage ledger, record by record. */
  readonly log: ConsoleLog
  /** Of this node, as its samples have it. */
  readonly nodeName: string
  /** Epoch milliseconds. */
  readonly nowMs: () => number
}

/** Records of usage, of all nodes. */
export interface ConsoleLog {
  readonly log: UsageLog
  /** For how many there are. */
  readonly reader: UsageReader
  /** This node keeps records; false: there may be some of others, or of earlier. */
  readonly isRecorded: boolean
}
