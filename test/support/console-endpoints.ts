import type { ConsoleContext } from '../../src/console/server/context.ts'
import { consoleRoutes } from '../../src/console/server/table.ts'
import { systemClock } from '../../src/contracts/time.ts'

export interface ConsoleEndpoint {
  readonly method: string
  /** With its parameters, e.g. `/console/api/workspaces/:workspace`. */
  readonly path: string
}

/** For routes that nobody goes through. */
export function emptyConsoleContext(): ConsoleContext {
  return { deps: {}, state: {}, records: {}, catalog: {}, clock: systemClock } as unknown as ConsoleContext
}

/** Every endpoint of the console's API that the product has, read from its own table: none can be forgotten. */
export function consoleEndpoints(): ConsoleEndpoint[] {
  return consoleRoutes(emptyConsoleContext())
    .filter(({ path }) => path.startsWith('/console/api/') && !path.endsWith('*'))
    .map(({ method, path }) => ({ method, path }))
}
