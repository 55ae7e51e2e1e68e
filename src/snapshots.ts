import { existsSync, readFileSync } from 'node:fs'
import { demoKey, openDemo } from './catalog/demo.ts'
import { pollPublished } from './catalog/published.ts'
import type { Offered, Serving } from './catalog/serving.ts'
import { openCatalog } from './catalog/watch.ts'
import type { Environment } from './config.ts'
import type { Logger } from './log.ts'
import { endedModels, factsOf } from './providers/facts.ts'
import { PROVIDERS } from './providers/index.ts'
import type { BuiltInSandbox } from './sandbox/thread.ts'
import type { Snapshot } from './schema/catalog.ts'
import type { CatalogDesk } from './schema/catalog-desk.ts'
import type { CatalogStore } from './schema/catalog-store.ts'
import { open as unseal } from './sealing.ts'

const DEFAULT_CONFIG = 'larkway.yaml'

/** What has to be undone when the node stops, last opened first. */
export type Closer = () => void | Promise<void>

/** The configuration in force. */
export interface Catalog {
  readonly current: () => Snapshot
  /** Whether it has what is published in the state: false until that could be read for the first time. */
  readonly isWhole: () => boolean
  readonly desk: CatalogDesk
  readonly reload: () => Promise<void>
  /** What a newcomer is told; empty with a configuration file. */
  readonly greeting: (port: number) => string
  readonly sandboxUrl: string | undefined
}

export interface CatalogParts {
  readonly environment: Environment
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Logger
  /** Where the other part of the catalog is. */
  readonly store: CatalogStore
  /** They open credentials that were sealed. */
  readonly secretKeys: readonly Buffer[]
  /** What providers of the kind `sandbox` without an address are served by. */
  readonly sandbox: BuiltInSandbox
}

/** A file or the demo, before what is published comes to it. */
type Source = Pick<Catalog, 'reload' | 'greeting' | 'sandboxUrl'> & { readonly serving: Serving }

/**
 * Serves the configuration file, without one the demo, and beside it what is published in the state; all of it is read
 * again when it changes.
 *
 * @throws Error that says what is wrong with the file
 */
export async function openSnapshots(parts: CatalogParts, closers: Closer[]): Promise<Catalog> {
  const { environment, log, store } = parts
  const path = environment.LARKWAY_CONFIG ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  const source = path === undefined ? await demoSource(parts) : await fileSource(path, parts, closers)
  const { serving, reload, greeting, sandboxUrl } = source
  const polling = pollPublished({ serving, store, log })
  closers.push(() => polling.close())
  await polling.ready()
  const ended = endedModels(serving.good().routes, Date.now())
  if (ended.length > 0) log.warn({ models: ended }, 'models of entries have ended, and calls to them fail')
  return {
    current: () => serving.current(),
    isWhole: () => serving.isWhole(),
    desk: deskOf(serving, polling.refresh),
    reload,
    greeting,
    sandboxUrl,
  }
}

function deskOf(serving: Serving, refresh: () => Promise<void>): CatalogDesk {
  return {
    current: () => serving.current(),
    good: () => serving.good(),
    document: () => serving.document(),
    records: () => serving.records(),
    shadowed: () => serving.shadowed(),
    broken: () => serving.broken(),
    refused: () => serving.refused(),
    version: () => serving.version(),
    tryChange: (edits) => serving.tryChange(edits),
    refresh,
  }
}

async function fileSource(path: string, parts: CatalogParts, closers: Closer[]): Promise<Source> {
  const { log } = parts
  const source = await openCatalog({ path, ...surroundingsOf(parts) })
  closers.push(() => source.close())
  const report = (outcome: Offered): void => {
    if ('faults' in outcome)
      log.error({ path, faults: outcome.faults }, 'configuration refused, the old one stays')
    else log.info({ path, changed: outcome.changed }, 'configuration read')
  }
  source.watch(report)
  const reload = async () => report(await source.reload())
  return { serving: source.serving, reload, greeting: () => '', sandboxUrl: undefined }
}

function surroundingsOf({ env, secretKeys }: CatalogParts) {
  const open = (sealed: string, context: Parameters<typeof unseal>[2]) => unseal(secretKeys, sealed, context)
  return { kinds: PROVIDERS, factsOf, env, open }
}

async function demoSource(parts: CatalogParts): Promise<Source> {
  const { environment } = parts
  const key = await demoKey(environment.LARKWAY_DATA, environment.LARKWAY_DEMO_KEY)
  const sandbox = await parts.sandbox.get()
  const readSecret = (path: string) => readFileSync(path, 'utf8')
  return {
    serving: openDemo({ key, ...surroundingsOf(parts), readSecret }),
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

The console is at http://localhost:${port}/console; the same key signs in.

`
}
