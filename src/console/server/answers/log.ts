import type { WrittenRecord } from '../../../usage/log-report.ts'

// Answers about records of the usage ledger, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /log?workspace=…, newest first */
export interface LogAnswer extends LogPageAnswer {
  readonly records: readonly LogRecordAnswer[]
}

/** GET /log-rows?workspace=…, the same for the list of the page */
export interface LogRowsAnswer extends LogPageAnswer {
  readonly records: readonly LogRowAnswer[]
}

interface LogPageAnswer {
  /** This node keeps records; false: there may be some of others, or of earlier. */
  readonly is_recorded: boolean
  /** `after` of the next page; null: there are no more. */
  readonly next: string | null
  /** All that ended in between was looked at. */
  readonly searched: { readonly from: string; readonly to: string }
  /** How many there are; null: that is not known. */
  readonly total: number | null
}

/** A record of the usage ledger, by the names of its columns. */
export type LogRecordAnswer = WrittenRecord & {
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  /** The general sentence of its error; null: there is none. */
  readonly error_message: string | null
  /** Where its trace is looked at; null: there is none, or the configuration does not say where. */
  readonly trace_url: string | null
  /** `attempt_reasons`, taken apart; `ok` is the reason of the one that answered. */
  readonly tries: readonly { readonly provider: string; readonly model: string; readonly reason: string }[]
}

/** The columns that the list shows: reading every column of fifty scattered records takes twice as long. */
export type LogRowAnswer = Pick<
  LogRecordAnswer,
  | 'record_id'
  | 'kind'
  | 'ended_at'
  | 'workspace'
  | 'app'
  | 'key_id'
  | 'key_name'
  | 'endpoint'
  | 'provider'
  | 'model'
  | 'attempts'
  | 'tries'
  | 'outcome'
  | 'status'
  | 'error_code'
  | 'cache'
  | 'cost_usd'
  | 'total_ms'
>

/** GET /log/:record?workspace=… */
export interface OneLogRecordAnswer {
  readonly record: LogRecordAnswer
  /** Ids of the records next to it under the same filters; null: there is none. */
  readonly newer: string | null
  readonly older: string | null
}
