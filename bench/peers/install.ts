import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** What the peers are installed into; git-ignored. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDER = join(ROOT, '.larkway', 'bench-peers')
const PINNED = fileURLToPath(new URL('.', import.meta.url))

/** The part of scripts/install.mjs that is used. */
interface Installer {
  npmCi(folder: string, node: string, extra: readonly string[]): Promise<void>
}

/** Folder of the installed npm peers; their package.json is there, for `createRequire`. */
export const NPM_PEERS = FOLDER

/**
 * Installs the npm peers at the versions of peers/package-lock.json, unless they are there already.
 *
 * @returns null, or why they are missing
 */
export async function installNpmPeers(): Promise<string | null> {
  const same = (name: string) =>
    existsSync(join(FOLDER, name)) &&
    readFileSync(join(FOLDER, name)).equals(readFileSync(join(PINNED, name)))
  if (same('package-lock.json') && existsSync(join(FOLDER, 'node_modules', '.package-lock.json'))) return null
  try {
    mkdirSync(FOLDER, { recursive: true })
    for (const name of ['package.json', 'package-lock.json'])
      copyFileSync(join(PINNED, name), join(FOLDER, name))
    console.error('bench: installing the peers into .larkway/bench-peers (once)')
    const installer = (await import(pathToFileURL(join(ROOT, 'scripts', 'install.mjs')).href)) as Installer
    await installer.npmCi(FOLDER, process.execPath, ['--ignore-scripts'])
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

export function npmPeerVersion(name: string): string {
  const file = join(FOLDER, 'node_modules', name, 'package.json')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

/**
 * nginx from PATH; on Debian and its kin otherwise unpacked into `.larkway/nginx` without installing it.
 *
 * @returns the program's path, or null where there is none to be had
 */
export function findNginx(): string | null {
  const unpacked = join(ROOT, '.larkway', 'nginx')
  const places = ['nginx', '/usr/sbin/nginx', join(unpacked, 'usr', 'sbin', 'nginx')]
  const runs = (path: string) => spawnSync(path, ['-v']).status === 0
  const found = places.find(runs)
  if (found) return found

  mkdirSync(unpacked, { recursive: true })
  const options = { cwd: unpacked, stdio: 'ignore' } as const
  if (spawnSync('apt-get', ['download', 'nginx'], options).status !== 0) return null
  for (const file of readdirSync(unpacked).filter((name) => name.endsWith('.deb')))
    spawnSync('dpkg', ['-x', file, unpacked], options)
  return places.find(runs) ?? null
}

export function nginxVersion(path: string): string {
  return /nginx\/(\S+)/.exec(spawnSync(path, ['-v'], { encoding: 'utf8' }).stderr)?.[1] ?? 'unknown'
}
