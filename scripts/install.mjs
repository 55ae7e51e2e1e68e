// Fetches what the scripts need: npm packages at a pinned version and hash, into the git-ignored `.larkway/`.
// Plain JavaScript for Node 18 and newer: these files run before a fitting Node is there.

import { spawn, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/** Everything that is fetched lands here; removing the folder undoes it. */
export const CACHE = join(ROOT, '.larkway')

/** An end that is the user's to mend: its message is printed without a stack. */
export class Unusable extends Error {}

export function say(text) {
  process.stderr.write(`larkway: ${text}\n`)
}

/** Runs an entry point; prints `Unusable` as one message and every other error whole. Either way the status is 1. */
export async function main(run) {
  try {
    await run()
  } catch (error) {
    say(error instanceof Unusable ? error.message : error.stack)
    process.exitCode = 1
  }
}

/**
 * Runs a command to its end with its output kept back.
 *
 * @param lines how many of its last lines a failure tells
 * @returns {Promise<string>} standard output
 * @throws Unusable when it fails
 */
export async function capture(command, args, { lines = 12, ...options } = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  const output = []
  const all = []
  child.stdout.on('data', (chunk) => {
    output.push(chunk)
    all.push(chunk)
  })
  child.stderr.on('data', (chunk) => all.push(chunk))
  const status = await new Promise((done) => {
    child.on('error', (error) => done(error.message))
    child.on('close', (code, signal) => done(code === null ? signal : code))
  })
  if (status === 0) return Buffer.concat(output).toString()
  const tail = Buffer.concat(all).toString().trim().split('\n').slice(-lines).join('\n  ')
  throw new Unusable(`${[command, ...args].join(' ')} failed (${status})\n  ${tail}`)
}

/** The first file of that name on PATH, or undefined. */
export function onPath(name) {
  const folders = (process.env.PATH || '').split(delimiter)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

const UNWRITTEN_LOCK_MS = 5_000

/**
 * Holds a lock between processes while `work` runs, so that two starts in a fresh clone do not install twice.
 * The lock of a process that died is taken over.
 */
export async function withLock(name, work) {
  mkdirSync(CACHE, { recursive: true })
  const lock = join(CACHE, `${name}.lock`)
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      if (!holderLives(lock)) rmSync(lock, { force: true })
      await sleep(100)
    }
  }
  try {
    return await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function holderLives(lock) {
  try {
    const pid = Number(readFileSync(lock, 'utf8'))
    // Made, but not yet written; or its maker died in between.
    if (pid === 0) return Date.now() - statSync(lock).mtimeMs < UNWRITTEN_LOCK_MS
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/**
 * npm's own program, so that it can be run with another Node: npm chooses optional packages (the native builds)
 * by the Node that runs it.
 */
export function npmProgram() {
  const given = process.env.npm_execpath
  if (given?.endsWith('npm-cli.js') && existsSync(given)) return given
  const command = onPath('npm')
  const places = [
    command && realpathSync(command),
    join(dirname(process.execPath), '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    '/usr/share/nodejs/npm/bin/npm-cli.js',
  ]
  const found = places.find((path) => path?.endsWith('npm-cli.js') && existsSync(path))
  if (found) return found
  throw new Unusable('npm was not found: install npm (it comes with Node.js), then run this again')
}

/**
 * Installs what a folder's lock file says. The lock file stays as it is.
 *
 * @param node    the Node that runs npm, and that the packages will run on
 * @param command `install` for Larkway itself: `npm ci` refuses a lock file that lacks the native builds of some other
 *                platform, and those that the registry does not hold for a version are not in it. What the lock file
 *                does name is held to its version and hash either way
 * @param omitDev whether the dependencies for development are left out
 */
export async function npmInstall(folder, node, { command = ['install', '--no-save'], omitDev = false } = {}) {
  const quiet = ['--no-audit', '--no-fund', '--no-progress', '--no-update-notifier', '--loglevel=error']
  // npm hands its own settings and the root package to its children; a nested npm must not inherit them.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle|command)/.test(name)),
  )
  env.PATH = `${dirname(node)}${delimiter}${env.PATH}`
  const args = [
    npmProgram(),
    ...command,
    `--${omitDev ? 'omit' : 'include'}=dev`,
    '--ignore-scripts',
    ...quiet,
  ]
  try {
    await capture(node, args, { cwd: folder, env })
  } catch (error) {
    if (!(error instanceof Unusable)) throw error
    throw new Unusable(
      `packages could not be installed; is the npm registry within reach?\n  ${error.message}`,
    )
  }
}

/**
 * Installs packages at fixed versions into `.larkway/NAME`, their tarballs checked against the given hashes.
 * The folder appears whole or not at all.
 *
 * @param packages `[{ name, version, integrity }]`; without dependencies of their own
 * @param node     runs npm
 * @returns        the folder
 */
export async function installPinned(name, packages, node) {
  const folder = join(CACHE, name)
  if (isInstalled(folder, packages)) return folder
  return withLock(name, async () => {
    if (isInstalled(folder, packages)) return folder
    const names = packages.map((one) => `${one.name} ${one.version}`).join(', ')
    say(`fetching ${names} into .larkway/${name} (once)`)
    const draft = `${folder}.draft`
    rmSync(draft, { recursive: true, force: true })
    mkdirSync(draft, { recursive: true })
    const dependencies = Object.fromEntries(packages.map((one) => [one.name, one.version]))
    const locked = packages.map((one) => [
      `node_modules/${one.name}`,
      { version: one.version, integrity: one.integrity },
    ])
    const lock = { lockfileVersion: 3, packages: { '': { dependencies }, ...Object.fromEntries(locked) } }
    writeFileSync(join(draft, 'package.json'), JSON.stringify({ private: true, dependencies }))
    writeFileSync(join(draft, 'package-lock.json'), JSON.stringify(lock))
    try {
      // The packages may be meant for another Node than the one that runs npm.
      await npmInstall(draft, node, { command: ['ci', '--force'] })
      if (!isInstalled(draft, packages)) throw new Unusable(`npm did not install ${names}`)
      rmSync(folder, { recursive: true, force: true })
      renameSync(draft, folder)
    } finally {
      rmSync(draft, { recursive: true, force: true })
    }
    return folder
  })
}

function isInstalled(folder, packages) {
  return packages.every((one) => {
    try {
      const found = JSON.parse(readFileSync(join(folder, 'node_modules', one.name, 'package.json'), 'utf8'))
      return found.version === one.version
    } catch {
      return false
    }
  })
}

/** Whether a command ends with status 0; its output is dropped. */
export function succeeds(command, args, options = {}) {
  return spawnSync(command, args, { stdio: 'ignore', ...options }).status === 0
}
