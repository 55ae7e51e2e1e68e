import { diffRoutes, type RouteChange } from '../catalog/diff.ts'
import { parse, UsageError } from './arguments.ts'
import { readWithoutSecrets } from './catalog.ts'

/**
 * `larkway route diff OLD NEW`: a paragraph for each route that differs.
 *
 * @returns the exit code, 0 whether or not there are differences
 * @throws UsageError, CatalogError
 */
export async function diffFiles(args: readonly string[], print: (text: string) => void): Promise<number> {
  const [before, after] = parse(args, {}, 2).positionals
  if (before === undefined || after === undefined)
    throw new UsageError('route diff takes two configuration files')
  const [old, now] = [await readWithoutSecrets(before), await readWithoutSecrets(after)]
  const changes = diffRoutes(old.routes, now.routes)
  print(changes.length === 0 ? 'The routes are the same.\n' : changes.map(paragraph).join('\n'))
  return 0
}

function paragraph({ workspace, name, before, after, lines }: RouteChange): string {
  const versions = before === after ? `${after}, as before` : `${before ?? 'new'} → ${after ?? 'removed'}`
  return [`${workspace}/${name}  ${versions}`, ...lines.map((line) => `  ${line}`), ''].join('\n')
}
