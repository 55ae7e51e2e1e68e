import { type Logger, stackOf } from '../log.ts'
import type { Exchange } from './exchange.ts'

/** A line about what went wrong inside, with its stack. */
export function logFailure(
  log: Logger,
  { requestId, method, pattern }: Pick<Exchange, 'requestId' | 'method' | 'pattern'>,
  error: unknown,
  message: string,
): void {
  const path = pattern ?? undefined
  log.error({ request_id: requestId, method, path, stack: stackOf(error) }, message)
}
