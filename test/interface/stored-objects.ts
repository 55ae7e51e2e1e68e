import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Names of the files in the object store of a data folder. */
export async function storedObjects(dataFolder: string): Promise<string[]> {
  const folder = join(dataFolder, 'objects')
  const files = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return files.filter((file) => file.isFile()).map(({ name }) => name)
}
