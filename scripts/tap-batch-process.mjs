// Runs tap test files in this process, one after another, each with a root test of its own, and marks in its output
// where each ends: `tap-batch.mjs` starts it, reads that, and names the next file over descriptor 3. A file ends as its
// own process would have: when nothing keeps the process running any more. What would have ended a file's own process
// early ends this one.

import { readSync } from 'node:fs'
import module from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Test, t as unused } from 'tap'
import { cpuOfChildren } from './tap-file.mjs'

/** Where tap keeps its root. */
const TAP = Symbol.for('TAP private constructor')
const FACADE = 'larkway-test:tap'
/**
 * Where Node's `fetch` keeps its connections. npm's undici puts its own there if it is loaded first, with which a
 * streamed body of Node's `fetch` hangs.
 */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1')
/** Where npm's undici keeps those of its own, if it is loaded. */
const UNDICI_DISPATCHER = Symbol.for('undici.globalDispatcher.2')
/** Node's status for a module that waits for ever. */
const UNSETTLED = 13

unused.setTimeout(0) // of the process, which lasts longer than a file

const FILES = 3

await fetch('data:,') // makes the dispatcher Node's own
const Dispatcher = globalThis[DISPATCHER].constructor

const [mark] = process.argv.splice(2)
const environment = { ...process.env }
const folder = process.cwd()
let at = 0
let current = begin(nextFile() ?? process.exit(0), 0)

// The tap that a test file imports is its own root, not that of the process.
module.registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== 'tap' || context.parentURL !== current.url) return next(specifier, context)
    return { url: `${FACADE}?${at}`, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (!url.startsWith(FACADE)) return next(url, context)
    const source = `
      export const t = globalThis[Symbol.for('${TAP.description}')]
      export const test = t.test.bind(t)
      export default t`
    return { format: 'module', source, shortCircuit: true }
  },
})

process.on('beforeExit', () => {
  if (!current.isEnded) process.exit(current.isLoaded ? 1 : UNSETTLED)
  close()
  const file = nextFile()
  if (file === undefined) return
  at += 1
  current = begin(file, cpuSeconds())
  setImmediate(run) // something has to go on, or this event does not come again
})
// Tells and counts what is unfinished, as tap's own root does.
process.on('exit', () => current.root.results ?? current.root.endAll())
run()

/** Waits for the next file, with all else of this process; undefined: there is none. */
function nextFile() {
  const buffer = Buffer.alloc(4096)
  const path = buffer.toString('utf8', 0, readSync(FILES, buffer)).trim()
  return path === '' ? undefined : path
}

function begin(path, cpuBefore) {
  process.argv[1] = path // after it tap names folders
  const root = new Test({ name: 'TAP', timeout: Number(process.env.TAP_TIMEOUT ?? 30) * 1000 })
  globalThis[TAP] = root
  root.on('data', (chunk) => process.stdout.write(chunk))
  root.on('complete', () => root.comment(root.counts.toJSON()))
  root.runMain(() => {})
  return { root, url: pathToFileURL(path).href, cpuBefore, isLoaded: false, isEnded: false }
}

async function run() {
  const file = current
  file.root.on('end', () => {
    file.isEnded = true
  })
  await import(file.url).catch((error) => {
    console.error(error)
    process.exit(1)
  })
  file.isLoaded = true
  await idleness(file.root)
  if (!file.root.ended) file.root.end()
}

/** Resolves when a root has had no test for three turns, which is when tap ends its own, or has ended otherwise. */
function idleness(root) {
  return new Promise((done) => {
    const look = async () => {
      for (let turn = 0; turn < 3; turn++) {
        await sleep(0)
        if (!root.idle) return
      }
      done()
    }
    root.on('idle', look)
    root.on('end', done)
    if (root.idle) look()
  })
}

/** Ends the connections of `fetch`: they led to servers that are gone, and their ports are given again. */
function renewDispatchers() {
  globalThis[DISPATCHER].destroy()
  const ofUndici = globalThis[UNDICI_DISPATCHER]
  if (ofUndici !== undefined) {
    ofUndici.destroy()
    globalThis[UNDICI_DISPATCHER] = new ofUndici.constructor()
  }
  // Node 26's hands everything to undici's.
  globalThis[DISPATCHER] =
    Dispatcher.length === 0 ? new Dispatcher() : new Dispatcher(globalThis[UNDICI_DISPATCHER])
}

/** Says how the file has ended, and leaves the next one what this one found. */
function close() {
  const status = Number(process.exitCode ?? 0) || (current.root.results.ok ? 0 : 1)
  process.exitCode = undefined
  process.chdir(folder)
  renewDispatchers()
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(environment, name)) delete process.env[name]
  for (const [name, value] of Object.entries(environment)) {
    if (process.env[name] !== value) process.env[name] = value
  }
  process.stderr.write(`\n${mark}\n`)
  process.stdout.write(`\n${mark} ${status} ${cpuSeconds() - current.cpuBefore}\n`)
}

/** CPU of this process and of the children that it has awaited. */
function cpuSeconds() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6 + (cpuOfChildren() ?? 0)
}
