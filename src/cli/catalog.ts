import { readFile } from 'node:fs/promises'
import { readCatalog } from '../catalog/parse.ts'
import type { Good } from '../catalog/snapshot.ts'
import { CatalogError } from '../catalog/watch.ts'
import { factsOf } from '../providers/facts.ts'
import { PROVIDERS } from '../providers/index.ts'

/** Stands for every secret: what is only looked at needs none. */
const NOT_READ = 'not-read'

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
