import type { Logger } from '../log.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { NativeExchange } from './native-exchange.ts'
import type { NextTurn } from './next-turn.ts'
import type { EdgeTiming } from './timing.ts'

/** What all exchanges of one server share. */
export interface EdgeContext {
  readonly budget: ByteBudget
  readonly log: Logger
  readonly timing: EdgeTiming
  readonly nextTurn: NextTurn
  /** Every exchange that is not finished. */
  readonly open: Set<NativeExchange>
  /** Once true, every answer closes its connection. */
  draining: boolean
}

/** What was found out about a request before its exchange is made. */
export interface RequestFacts {
  readonly contentLength: number | null
  readonly params: readonly string[]
  /** As in `Exchange`. */
  readonly pattern: string | null
  /**
   * Whether the connection is to be closed behind the answer: its next bytes are not to be trusted as a
   * request.
   */
  readonly closes: boolean
}
