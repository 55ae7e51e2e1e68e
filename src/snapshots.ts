import { existsSync } from 'node:fs'
import { demoKey, demoSnapshot } from './catalog/demo.ts'
import { openCatalog } from './catalog/watch.ts'
import type { Environment } from './config.ts'
import type { Logger } from './log.ts'
import { factsOf } from './providers/facts.ts'
import { PROVIDERS } from './providers/index.ts'
import { startSandboxThread } from './sandbox/thread.ts'
import type { Snapshot } from './schema/catalog.ts'

const DEFAULT_CONFIG = 'larkway.yaml'

/** What has to be undone when the node stops, last opened first. */
export type Closer = () => void | Promise<void>

/** The configuration in force. */
export interface Catalog {
  readonly current: () => Snapshot
  readonly reload: () => Promise<void>
  /** What a newcomer is told; empty with a configuration file. */
  readonly greeting: (port: number) => string
  readonly sandboxUrl: string | undefined
}

/**
 * Reads the configuration file and reads it again when it changes; without one the demo is served.
 *
 * @throws Error that says what is wrong with it
 */
export async function openSnapshots(
  environment: Environment,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  closers: Closer[],
): Promise<Catalog> {
  const path = environment.LARKWAY_CONFIG ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  if (path === undefined) return openDemo(environment, log, closers)
  const source = await openCatalog({ path, kinds: PROVIDERS, factsOf, env })
  closers.push(() => source.close())
  const report = (outcome: Awaited<ReturnType<typeof source.reload>>): void => {
    if ('faults' in outcome)
      log.error({ path, faults: outcome.faults }, 'configuration refused, the old one stays')
    else log.info({ path, changed: outcome.changed }, 'configuration read')
  }
  source.watch(report)
  const reload = async () => report(await source.reload())
  return { current: () => source.current, reload, greeting: () => '', sandboxUrl: undefined }
}

async function openDemo(environment: Environment, log: Logger, closers: Closer[]): Promise<Catalog> {
  const key = await demoKey(environment.LARKWAY_DATA, environment.LARKWAY_DEMO_KEY)
  const sandbox = await startSandboxThread({}, (error) => log.error({ err: error }, 'sandbox'))
  closers.push(() => sandbox.close())
  const snapshot = demoSnapshot({ sandboxUrl: sandbox.url, key, kinds: PROVIDERS, factsOf })
  return {
    current: () => snapshot,
    reload: async () => {},
    greeting: (port) => demoGreeting(port, key),
    sandboxUrl: sandbox.url,
  }
}

function demoGreeting(port: number, key: string): string {
  return `
Larkway serves the demo: workspace "demo", whose route leads to a sandbox that speaks and hears Morse code.

  curl -s http://localhost:${port}/v1/speech -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' -d '{"input":"hello world"}' \\
    | sed 's/.*"base64":"\\([^"]*\\)".*/\\1/' | base64 -d > hello.wav

  curl -s http://localhost:${port}/v1/transcription -H 'Authorization: Bearer ${key}' -F file=@hello.wav

`
}
