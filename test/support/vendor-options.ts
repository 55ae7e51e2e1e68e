import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/**
 * The members of an interface in the types of a vendor's own client: the options of the published request.
 *
 * @param file below `node_modules`
 */
export function publishedOptions(file: string, name: string): string[] {
  const source = readFileSync(join(MODULES, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '')
  const body = new RegExp(`interface ${name}(?: extends [^{]*)? \\{([\\s\\S]*?)\\n\\}`).exec(source)?.[1]
  if (body === undefined) throw new Error(`there is no interface ${name} in ${file}`)
  return [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, member = '']) => member)
}
