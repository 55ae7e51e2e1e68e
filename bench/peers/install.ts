import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npmInstall } from '../../scripts/install.mjs'
import { provideNginx } from '../../scripts/servers.mjs'

/** Folder of the installed peers; git-ignored. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDER = join(ROOT, '.larkway', 'bench-peers')
const PINNED = fileURLToPath(new URL('.', import.meta.url))

/** Folder of the installed npm peers; their package.json is there, for `createRequire`. */
export const NPM_PEERS = FOLDER

/**
 * Installs the npm peers at the versions of peers/package-lock.json, unless they are there already.
 *
 * @throws when they cannot be installed: a table that lacks them would say less than it seems to
 */
export async function installNpmPeers(): Promise<void> {
  const same = (name: string) =>
    existsSync(join(FOLDER, name)) &&
    readFileSync(join(FOLDER, name)).equals(readFileSync(join(PINNED, name)))
  if (same('package-lock.json') && existsSync(join(FOLDER, 'node_modules', '.package-lock.json'))) return
  mkdirSync(FOLDER, { recursive: true })
  for (const name of ['package.json', 'package-lock.json'])
    copyFileSync(join(PINNED, name), join(FOLDER, name))
  console.error('bench: installing the peers into .larkway/bench-peers (once)')
  await npmInstall(FOLDER, process.execPath, { command: ['ci'] })
}

export function npmPeerVersion(name: string): string {
  const file = join(FOLDER, 'node_modules', name, 'package.json')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

export interface Nginx {
  readonly command: string
  readonly env: Readonly<Record<string, string>>
  readonly version: string
}

/**
 * nginx as the tests have it: the machine's own, or Debian's unpacked into `.larkway/nginx`.
 *
 * @throws when there is none to be had
 */
export async function findNginx(): Promise<Nginx> {
  const { command, env } = await provideNginx()
  const [program = ''] = command
  const told = spawnSync(program, ['-v'], { encoding: 'utf8', env: { ...process.env, ...env } }).stderr
  return { command: program, env, version: /nginx\/(\S+)/.exec(told)?.[1] ?? 'unknown' }
}
