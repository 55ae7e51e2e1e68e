// Real servers for the tests, where the machine has none: a Redis, nginx, Ceph's S3 gateway (radosgw), and a browser.
// `node scripts/servers.mjs redis|nginx|s3|browser` fetches what is missing, and prints as JSON how to run it
// (test/support/servers.ts reads that).

import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { unpack } from './debian.mjs'
import { main, onPath, succeeds, Unusable } from './install.mjs'

const SKIP_HINT = 'or set LARKWAY_TEST_SKIP_SERVERS=1 to skip the tests that need it'

/**
 * @returns {Promise<{ command: string[], env: Record<string, string> }>} runs redis-server with options appended
 * @throws Unusable naming what to install
 */
export async function provideRedis() {
  const installed = onPath('redis-server')
  if (installed) return { command: [installed], env: {} }
  return unpackProgram('redis', 'redis-server', 'usr/bin/redis-server', '--version').catch((error) => {
    throw unavailable('no Redis', 'install redis-server (7.0 or newer)', error)
  })
}

/**
 * @returns {Promise<{ command: string[], env: Record<string, string> }>} runs nginx when its options are appended
 * @throws Unusable naming what to install
 */
export async function provideNginx() {
  // Debian's is where only root's PATH leads.
  const installed = onPath('nginx') || ['/usr/sbin/nginx'].find((path) => existsSync(path))
  if (installed) return { command: [installed], env: {} }
  return unpackProgram('nginx', 'nginx', 'usr/sbin/nginx', '-v').catch((error) => {
    throw unavailable('no nginx', 'install nginx (1.22 or newer)', error)
  })
}

/**
 * Chromium without what it draws windows with: it has the same pages for half of the CPU.
 *
 * @returns {Promise<{ command: string[], env: Record<string, string> }>} runs Chromium when its options are appended
 * @throws Unusable naming what to install
 */
export async function provideBrowser() {
  const name = 'chromium-headless-shell'
  const installed = onPath(name) || onPath('chromium')
  if (installed) return { command: [installed], env: {} }
  // Not the script in usr/bin, which looks for the program where it would be installed.
  return unpackProgram(name, name, `usr/lib/chromium/${name}`, '--version').catch((error) => {
    throw unavailable('no browser', `install ${name} or chromium`, error)
  })
}

/** A program of the machine's own Debian, not installed; with the libraries that it needs and the machine lacks. */
async function unpackProgram(name, debianPackage, path, versionFlag) {
  const folder = await unpack(name, [debianPackage])
  const env = { LD_LIBRARY_PATH: libraryFolders(folder).join(':') }
  const command = [join(folder, path)]
  if (succeeds(command[0], [versionFlag], { env: { ...process.env, ...env } })) return { command, env }
  throw new Unusable(`${command[0]} does not run on this machine`)
}

/** Tells a developer to install something, or to do without; other failures are left as they are. */
function unavailable(what, instead, error) {
  if (!(error instanceof Unusable)) return error
  return new Unusable(`${what} for the tests: ${instead}, ${SKIP_HINT}\n  ${error.message}`)
}

/** The folders of shared libraries, and those of private ones, which packages link by an absolute path (PulseAudio). */
function libraryFolders(root) {
  const lib = join(root, 'usr', 'lib')
  if (!existsSync(lib)) return []
  const multiarch = readdirSync(lib).filter((name) => name.endsWith('-linux-gnu'))
  return multiarch.flatMap((name) => {
    const shared = join(lib, name)
    const inside = readdirSync(shared, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    const withLibraries = inside.filter((entry) =>
      readdirSync(join(shared, entry.name)).some((file) => /^lib.*\.so/.test(file)),
    )
    return [shared, ...withLibraries.map((entry) => join(shared, entry.name))]
  })
}

/** The first is the one that the tests were written against; both were tried. */
const CEPH_SUITES = ['forky', 'trixie']

/**
 * Ceph 18 or newer: older ones refuse the checksum trailers of current S3 clients. Debian 12 has an older one, so it
 * is unpacked as a root of its own and run by chroot; without root rights in a user namespace.
 *
 * @returns {Promise<{ command: string[], root: string }>} runs a program of that root when its name is appended
 * @throws Unusable naming what to install
 */
export async function provideS3() {
  const faults = []
  for (const suite of CEPH_SUITES) {
    try {
      const root = await unpack(`ceph-${suite}`, ['ceph-mon', 'ceph-osd', 'radosgw'], suite)
      for (const folder of ['tmp', 'proc', 'run', 'var/tmp']) {
        if (!existsSync(join(root, folder))) mkdirSync(join(root, folder), { recursive: true })
      }
      const chroot = [onPath('chroot') || '/usr/sbin/chroot', root]
      const command = process.getuid() === 0 ? chroot : ['unshare', '-r', ...chroot]
      if (succeeds(command[0], [...command.slice(1), 'radosgw', '--version'])) return { command, root }
      throw new Unusable(`${command.join(' ')} radosgw --version failed: it needs root or user namespaces`)
    } catch (error) {
      if (!(error instanceof Unusable)) throw error
      faults.push(error.message)
    }
  }
  const instead = 'run them on Debian 12 or newer with apt-get, as root or with user namespaces'
  throw unavailable('no S3 server', instead, new Unusable(faults.join('\n  ')))
}

const COMMANDS = { redis: provideRedis, nginx: provideNginx, s3: provideS3, browser: provideBrowser }

if (process.argv[1] && readFileSync(process.argv[1]).equals(readFileSync(new URL(import.meta.url)))) {
  await main(async () => {
    const provide = COMMANDS[process.argv[2]]
    if (!provide) throw new Unusable('usage: node scripts/servers.mjs redis|nginx|s3|browser')
    process.stdout.write(`${JSON.stringify(await provide())}\n`)
  })
}
