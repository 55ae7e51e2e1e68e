// Debian packages without installing them: fetched with the machine's own apt, from the mirror and under the keys that
// its own sources name, and unpacked into a folder. Needs no root and changes nothing outside that folder.

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CACHE, capture, onPath, say, Unusable, withLock } from './install.mjs'

/** Written into a folder when it is complete. */
const DONE = '.unpacked'

/** Files that no program here reads; a third of the bytes. */
const LEFT_OUT = ['./usr/share/doc/*', './usr/share/man/*', './usr/share/locale/*', './usr/share/info/*']

/**
 * Unpacks packages and what they depend on into `.larkway/NAME`. The folder appears whole or not at all.
 *
 * @param suite `trixie`, …: a whole root, with its own C library, for chroot or for a program whose interpreter is
 *              set to it. Undefined: the machine's own suite, and only what the machine has not installed
 * @returns     the folder
 * @throws Unusable where there is no apt, or where it finds no such packages
 */
export async function unpack(name, packages, suite) {
  const folder = join(CACHE, name)
  if (existsSync(join(folder, DONE))) return folder
  return withLock(name, async () => {
    if (existsSync(join(folder, DONE))) return folder
    for (const tool of ['apt-get', 'dpkg-deb', 'tar']) {
      if (!onPath(tool))
        throw new Unusable(`${packages.join(', ')}: can be fetched on Debian only; ${tool} is missing`)
    }
    say(`fetching ${packages.join(', ')} from Debian${suite ? ` ${suite}` : ''} into .larkway/${name} (once)`)
    const draft = `${folder}.draft`
    rmSync(draft, { recursive: true, force: true })
    const root = join(draft, 'root')
    const debs = await download(join(draft, 'apt'), packages, suite)
    mkdirSync(root, { recursive: true })
    for (const link of suite ? ['bin', 'sbin', 'lib', 'lib64'] : []) await mergedFolder(root, link)
    const exclude = LEFT_OUT.map((pattern) => `--exclude='${pattern}'`).join(' ')
    const extract = `dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --keep-directory-symlink --no-same-owner ${exclude}`
    for (const deb of debs) await capture('bash', ['-o', 'pipefail', '-c', extract, 'unpack', deb, root])
    writeFileSync(join(root, DONE), `${debs.length}\n`)
    rmSync(folder, { recursive: true, force: true })
    renameSync(root, folder)
    rmSync(draft, { recursive: true, force: true })
    return folder
  })
}

/** `/bin` is a link to `/usr/bin`, and so on: packages hold files under either name. */
async function mergedFolder(root, name) {
  mkdirSync(join(root, 'usr', name), { recursive: true })
  await capture('ln', ['-s', `usr/${name}`, join(root, name)])
}

/** @returns paths of the .deb files */
async function download(folder, packages, suite) {
  for (const part of ['lists/partial', 'cache/archives/partial', 'etc']) {
    mkdirSync(join(folder, part), { recursive: true })
  }
  writeFileSync(join(folder, 'status'), '')
  const options = [
    `Dir::State::lists=${folder}/lists`,
    `Dir::Cache=${folder}/cache`,
    'Debug::NoLocking=true',
    'APT::Sandbox::User=',
    'APT::Install-Recommends=false',
    'Acquire::Languages=none',
    'Acquire::Retries=2',
    // A mirror may hold a suite's index for longer than the index says it is good for.
    'Acquire::Check-Valid-Until=false',
  ]
  if (suite) {
    const keyring = KEYRINGS.find((path) => existsSync(path))
    const signed = keyring ? `[signed-by=${keyring}] ` : ''
    writeFileSync(join(folder, 'etc', 'sources.list'), `deb ${signed}${await ownMirror()} ${suite} main\n`)
    options.push(`Dir::Etc::sourcelist=${folder}/etc/sources.list`, 'Dir::Etc::sourceparts=/dev/null')
    options.push(`Dir::State::status=${folder}/status`, 'Dir::Etc::preferencesparts=/dev/null')
  }
  const flags = options.flatMap((option) => ['-o', option])
  const env = { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' }
  // One of the machine's sources may be out of reach without being the one that is needed.
  const update = await capture('apt-get', [...flags, '-q', 'update'], { env }).catch((error) => error.message)
  try {
    await capture('apt-get', [...flags, '-qy', '--download-only', 'install', ...packages], { env })
  } catch (error) {
    throw new Unusable(
      `${error.message}\nafter apt-get update said:\n  ${update.split('\n').slice(-6).join('\n  ')}`,
    )
  }
  const archives = join(folder, 'cache', 'archives')
  return readdirSync(archives)
    .filter((file) => file.endsWith('.deb'))
    .sort()
    .map((file) => join(archives, file))
}

/** Debian's own keys, those of its next suite among them; newer and older name. */
const KEYRINGS = ['pgp', 'gpg'].map((type) => `/usr/share/keyrings/debian-archive-keyring.${type}`)

/** The mirror from which this machine gets its own suite; it holds the others too. */
async function ownMirror() {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
  const codename = (release.match(/^VERSION_CODENAME=(.*)$/m) || [])[1]
  const format = '$(REPO_URI)|$(RELEASE)'
  const targets = await capture('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'])
  const rows = targets.split('\n').map((row) => row.split('|'))
  const found = rows.find(([, suite]) => suite === codename)
  if (!/^ID=debian$/m.test(release) || !found)
    throw new Unusable('other suites can be fetched on Debian only, whose apt sources name a mirror')
  return found[0]
}
