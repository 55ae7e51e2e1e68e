import type { Logger } from '../log.ts'
import type { Exchange } from './exchange.ts'

/** A line about what went wrong inside, with its stack. */
export function logFailure(
  log: Logger,
  { requestId, method, path, params }: Pick<Exchange, 'requestId' | 'method' | 'path' | 'params'>,
  error: unknown,
  message: string,
): void {
  const stack = error instanceof Error ? error.stack : String(error)
  // What stands in the place of a parameter may open something.
  const shown = params.length === 0 ? path : `/${path.split('/')[1] ?? ''}/…`
  log.error({ request_id: requestId, method, path: shown, stack }, message)
}
