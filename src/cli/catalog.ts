import { existsSync, readFileSync } from 'node:fs'
import { openDemo } from '../catalog/demo.ts'
import { makeKey } from '../catalog/key.ts'
import type { Surroundings } from '../catalog/provider.ts'
import type { Serving } from '../catalog/serving.ts'
import { openCatalog } from '../catalog/watch.ts'
import { factsOf } from '../providers/facts.ts'
import { PROVIDERS } from '../providers/index.ts'
import type { ServedCatalog } from '../schema/catalog-desk.ts'

/** Stands for every secret: what is only looked at needs none. */
const NOT_READ = 'not-read'
const DEFAULT_CONFIG = 'larkway.yaml'

/** Where secrets are. */
export type Secrets = Pick<Surroundings, 'env' | 'open'> & Partial<Pick<Surroundings, 'readSecret'>>

export const WITHOUT_SECRETS: Secrets = {
  env: new Proxy<Record<string, string>>({}, { get: () => NOT_READ }),
  readSecret: () => NOT_READ,
  open: () => NOT_READ,
}

/**
 * Reads a configuration to look at it, without its secrets: it can be explained and compared where they are not.
 *
 * @throws CatalogError when it is missing or faulty
 */
export async function readWithoutSecrets(path: string): Promise<ServedCatalog> {
  const { serving } = await openCatalog({ path, kinds: PROVIDERS, factsOf, ...WITHOUT_SECRETS })
  return serving.good()
}

/** The configuration that a server would serve which is started here; undefined: the demo. */
export function servedPath(given: string | undefined): string | undefined {
  return given ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
}

/**
 * What a server would serve before it has read the state. The key of the demo is not known.
 *
 * @param path as `servedPath` has it
 * @throws CatalogError when the configuration is missing or faulty
 */
export async function openServed(path: string | undefined, secrets: Secrets): Promise<Serving> {
  const outside = { kinds: PROVIDERS, factsOf, ...secrets }
  if (path !== undefined) return (await openCatalog({ path, ...outside })).serving
  const readSecret = (named: string) => readFileSync(named, 'utf8')
  return openDemo({ key: makeKey(), readSecret, ...outside })
}
