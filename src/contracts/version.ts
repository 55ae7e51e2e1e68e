import { readFile } from 'node:fs/promises'

/** The version of Larkway that runs, e.g. `0.1.0`. */
export async function readVersion(): Promise<string> {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(text) as { version: string }
  return version
}
