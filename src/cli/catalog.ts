import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { demoSnapshot } from '../catalog/demo.ts'
import { makeKey } from '../catalog/key.ts'
import { readCatalog } from '../catalog/parse.ts'
import type { Good } from '../catalog/snapshot.ts'
import { CatalogError } from '../catalog/watch.ts'
import { factsOf } from '../providers/facts.ts'
import { PROVIDERS } from '../providers/index.ts'
import type { Snapshot } from '../schema/catalog.ts'

/** Stands for every secret: what is only looked at needs none. */
const NOT_READ = 'not-read'
/** Stands for the demo's sandbox, which listens only while the server runs. */
const NO_SANDBOX = 'http://127.0.0.1:9/v1'
const DEFAULT_CONFIG = 'larkway.yaml'

/**
 * Reads a configuration to look at it, without its secrets: it can be explained and compared where they are not.
 *
 * @throws CatalogError when it is missing or faulty
 */
export async function readWithoutSecrets(path: string): Promise<Good> {
  const text = await readFile(path, 'utf8').catch(() => {
    throw new CatalogError(path, ['/: the file cannot be read'])
  })
  const env = new Proxy<Record<string, string>>({}, { get: () => NOT_READ })
  const reading = readCatalog(text, { kinds: PROVIDERS, factsOf, env, readSecret: () => NOT_READ })
  if ('faults' in reading) throw new CatalogError(path, reading.faults)
  return reading
}

/**
 * What a server that is started here would serve, without its secrets: the configuration, else the demo, whose key is
 * not read either.
 *
 * @param given the configuration that was named, if any
 * @throws CatalogError when it is missing or faulty
 */
export async function readServed(given: string | undefined): Promise<Snapshot> {
  const path = given ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  if (path !== undefined) return (await readWithoutSecrets(path)).snapshot
  return demoSnapshot({ sandboxUrl: NO_SANDBOX, key: makeKey(), kinds: PROVIDERS, factsOf })
}
