import type { Logger } from '../../../contracts/log.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { Tracing } from '../../../contracts/tracing.ts'
import { readVersion } from '../../../contracts/version.ts'
import { readTracingEnvironment } from './environment.ts'

/**
 * Tracing as the standard variables of OpenTelemetry ask for it; null when they do not. Its packages are loaded only
 * when it is on.
 */
export async function startTracing(
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  clock: Clock,
): Promise<Tracing | null> {
  const { options, warnings } = readTracingEnvironment(env)
  for (const warning of warnings) log.warn(warning)
  if (options === null) return null
  const { openTracing } = await import('./exporting.ts')
  return openTracing(options, await readVersion(), { log, clock })
}
