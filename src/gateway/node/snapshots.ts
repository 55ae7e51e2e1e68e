import { existsSync, readFileSync } from 'node:fs'
import type { Snapshot } from '../../contracts/catalog.ts'
import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { CatalogStore } from '../../contracts/catalog-store.ts'
import type { Logger } from '../../contracts/log.ts'
import type { ModelsInForce, StoredModels } from '../../contracts/models.ts'
import { unseal } from '../../contracts/sealing.ts'
import type { Clock } from '../../contracts/time.ts'
import type { BuiltInSandbox } from '../../sandbox/thread.ts'
import { speech } from '../api/native/speech.ts'
import { transcription } from '../api/native/transcription.ts'
import { demoKey, openDemo } from '../catalog/demo.ts'
import { catalogService, type Offered, pollPublished, type Serving } from '../catalog/serving.ts'
import { openCatalog } from '../catalog/watch.ts'
import { documentAge, endedModels, fadingModels, type ModelRemark, SHIPPED } from '../providers/facts.ts'
import { modelKeys, modelsInForce } from '../providers/feed.ts'
import { PROVIDERS } from '../providers/index.ts'
import type { Environment } from './config.ts'

const DEFAULT_CONFIG = 'larkway.yaml'

/** Closes one part when the node stops; the last opened part is closed first. */
export type Closer = () => void | Promise<void>

/** The configuration in force. */
export interface Catalog {
  readonly current: () => Snapshot
  /** True once the published part could be read from the state. */
  readonly isWhole: () => boolean
  readonly service: CatalogService
  readonly reload: () => Promise<void>
  /** A hint that other nodes have published something. */
  readonly hinted: () => void
  /** Greeting of the demo with its key; empty with a configuration file. */
  readonly greeting: (port: number) => string
  /** Resolves once the sandbox of the demo listens; undefined: there is none. */
  readonly sandboxUrl: () => Promise<string | undefined>
}

export interface CatalogDependencies {
  readonly environment: Environment
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Logger
  /** Store of the published part of the catalog. */
  readonly store: CatalogStore
  /** Open sealed credentials. */
  readonly secretKeys: readonly Buffer[]
  /** Serves providers of the kind `sandbox` that have no address. */
  readonly sandbox: BuiltInSandbox
  readonly clock: Clock
}

/** The configuration file or the demo, without the published part. */
type Source = Pick<Catalog, 'reload' | 'greeting' | 'sandboxUrl'> & { readonly serving: Serving }

/**
 * Serves the configuration file, or the demo without one, together with what is published in the state. Both are read
 * again when they change.
 *
 * @throws Error that names the mistake in the file
 */
export async function openSnapshots(deps: CatalogDependencies, closers: Closer[]): Promise<Catalog> {
  const { environment, log, store, clock } = deps
  const path = environment.LARKWAY_CONFIG ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  const keys = modelKeys(environment.LARKWAY_MODELS_KEYS)
  const readModels = (stored: StoredModels | null) => modelsInForce(stored, keys)
  const source = await (path === undefined ? demoSource(deps) : fileSource(path, readModels, deps, closers))
  const { serving, ...own } = source
  const polling = pollPublished({ serving, store, readModels, log, clock })
  closers.push(() => polling.close())
  await polling.ready()
  warnOfModels(serving, clock.wallNow(), log)
  return {
    current: () => serving.current(),
    isWhole: () => serving.isWhole(),
    service: catalogService(serving, polling.refresh),
    hinted: polling.hinted,
    ...own,
  }
}

/** Logs what is stale of the facts of models, and of the models that entries lead to. */
function warnOfModels(serving: Serving, nowMs: number, log: Logger): void {
  const table = serving.models()
  const { routes } = serving.good()
  const linesOf = (remarks: readonly ModelRemark[]) => remarks.map(({ name, remark }) => `${name} ${remark}`)
  const ended = linesOf(endedModels(routes, table, nowMs))
  if (ended.length > 0) log.warn({ models: ended }, 'models of entries have ended, and calls to them fail')
  const fading = linesOf(fadingModels(routes, table, nowMs))
  if (fading.length > 0) log.warn({ models: fading }, 'models of entries end soon, or are deprecated')
  const age = documentAge(table, nowMs)
  if (age !== null) log.warn(`${age}; npx larkway models update brings newer ones`)
}

async function fileSource(
  path: string,
  readModels: (stored: StoredModels | null) => ModelsInForce,
  deps: CatalogDependencies,
  closers: Closer[],
): Promise<Source> {
  const { log, store } = deps
  // Before the file: it may have models that only the facts in the state know.
  const { table: models } = await store.models().then(readModels, () => readModels(null))
  const outside = { ...surroundingsOf(deps), models, otherwise: SHIPPED }
  const source = await openCatalog({ path, ...outside, clock: deps.clock })
  closers.push(() => source.close())
  const report = (outcome: Offered): void => {
    if ('issues' in outcome)
      log.error({ path, issues: outcome.issues }, 'configuration refused, the old one stays')
    else log.info({ path, changed: outcome.changed }, 'configuration read')
  }
  source.watch(report)
  const reload = async () => report(await source.reload())
  return { serving: source.serving, reload, greeting: () => '', sandboxUrl: async () => undefined }
}

function surroundingsOf({ env, secretKeys }: CatalogDependencies) {
  const open = (sealed: string, context: Parameters<typeof unseal>[2]) => unseal(secretKeys, sealed, context)
  return { kinds: PROVIDERS, models: SHIPPED, env, open }
}

async function demoSource(deps: CatalogDependencies): Promise<Source> {
  const { environment } = deps
  const key = await demoKey(environment.LARKWAY_DATA, environment.LARKWAY_DEMO_KEY)
  // Its thread boots while the rest of the node is opened.
  const starting = deps.sandbox.get()
  const readSecret = (path: string) => readFileSync(path, 'utf8')
  return {
    serving: openDemo({ key, ...surroundingsOf(deps), readSecret }),
    reload: async () => {},
    greeting: (port) => demoGreeting(port, key),
    sandboxUrl: async () => (await starting).url,
  }
}

function demoGreeting(port: number, key: string): string {
  return `
Larkway serves the demo: workspace "demo", whose route leads to a sandbox that speaks and hears Morse code.

  curl -s http://localhost:${port}${speech.path} -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' -d '{"input":"hello world"}' \\
    | sed 's/.*"base64":"\\([^"]*\\)".*/\\1/' | base64 -d > hello.wav

  curl -s http://localhost:${port}${transcription.path} -H 'Authorization: Bearer ${key}' -F file=@hello.wav

  npx larkway listen hello.wav --url http://localhost:${port} --key ${key}

The console is at http://localhost:${port}/console; the same key signs in.

`
}
