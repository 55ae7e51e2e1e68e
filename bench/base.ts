import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { capture, npmInstall } from '../scripts/install.mjs'
import { ROOT } from './peers/install.ts'

/** An earlier state of this project that can be run beside the present one. */
export interface Base {
  readonly commit: string
  /** A whole tree: sources, scripts and packages. */
  readonly folder: string
}

/** All that a server is started from. */
const PATHS = 'src scripts package.json package-lock.json'
/** Written into a base when it is complete: whose packages it has. */
const DONE = '.bench-base'
const SHORT = 12

/**
 * The commit to compare with.
 *
 * @param ref      what was asked for; null: what was recorded last
 * @param recorded commit of the last entry of the history, if there is one
 * @returns the commit, or why there is none
 * @throws  Error when what was asked for is no commit
 */
export function findBase(
  ref: string | null,
  recorded: string | undefined,
  root = ROOT,
): { readonly commit: string } | { readonly reason: string } {
  const wanted = ref ?? recorded
  if (wanted === undefined) return { reason: 'the history has no entry yet' }
  const args = ['-C', root, 'rev-parse', '--verify', '--quiet', `${wanted}^{commit}`]
  const commit = spawnSync('git', args, { encoding: 'utf8' }).stdout?.trim()
  if (commit) return { commit: commit.slice(0, SHORT) }
  if (ref !== null) throw new Error(`--base ${ref}: git knows no such commit`)
  return { reason: `git does not know ${wanted}, the commit of the last entry of the history` }
}

/**
 * Unpacks a commit into `.larkway/bench-base/COMMIT`, once. It uses the packages of this tree where both lock files
 * are the same, else its own are installed.
 *
 * @throws when it cannot be had
 */
export async function provideBase(commit: string, root = ROOT): Promise<Base> {
  const folder = join(root, '.larkway', 'bench-base', commit)
  const base = { commit, folder }
  if (isComplete(folder, root)) return base
  const draft = `${folder}.draft`
  for (const path of [draft, folder]) rmSync(path, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  const unpack = `git -C "$1" archive "$2" -- ${PATHS} | tar -x -C "$3"`
  await capture('bash', ['-o', 'pipefail', '-c', unpack, 'unpack', root, commit, draft])
  const shared = haveSameLock(draft, root)
  if (shared) sharePackages(draft, root)
  else await npmInstall(draft, process.execPath)
  await writeFile(join(draft, DONE), shared ? 'shared' : 'own')
  renameSync(draft, folder)
  return base
}

/** A base that shares packages is of no use any more once this tree has others. */
function isComplete(folder: string, root: string): boolean {
  if (!existsSync(join(folder, DONE))) return false
  return readFileSync(join(folder, DONE), 'utf8') === 'own' || haveSameLock(folder, root)
}

function haveSameLock(folder: string, root: string): boolean {
  const read = (tree: string) => readFileSync(join(tree, 'package-lock.json'))
  return read(folder).equals(read(root))
}

/** Links each package and the fetched Node into folders of its own, where its scripts may note what they like. */
function sharePackages(draft: string, root: string): void {
  // Seen from where the draft will be: both lie in the same folder.
  const up = relative(draft, root)
  const link = (from: string, name: string) =>
    symlinkSync(join('..', up, from, name), join(draft, from, name))
  for (const from of ['node_modules', '.larkway']) mkdirSync(join(draft, from))
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== '.larkway-stamp') link('node_modules', name)
  if (existsSync(join(root, '.larkway', 'node-22'))) link('.larkway', 'node-22')
}
