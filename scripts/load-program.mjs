// Lies beside a compiled program, and loads it (`compile.mjs`).
//
// Node keeps of a module what V8 compiles before that runs, so that functions which a start calls were compiled anew
// each time. What is kept here has those that were called while all modules of the program were evaluated. Later ones
// would be more, but not the same in each image: which of them there are depends on what comes first.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Script } from 'node:vm'
import { crc32 } from 'node:zlib'

/** A file in the folder of a compiled program. */
export const SCRIPT = 'program.cjs'

const FOLDER = dirname(fileURLToPath(import.meta.url))
const CACHE = join(FOLDER, 'program.v8')
const CHECKSUM_BYTES = 4

/** Runs the script. @returns its exports */
export function load() {
  const filename = join(FOLDER, SCRIPT)
  const cachedData = readCache()
  const script = new Script(readFileSync(filename, 'latin1'), { filename, cachedData })
  const main = join(FOLDER, 'main.js')
  const isKept = cachedData !== undefined && !script.cachedDataRejected
  const meta = {
    url: pathToFileURL(main).href,
    filename: main,
    resolve: (specifier) => import.meta.resolve(specifier),
    import: (specifier) => import(specifier),
  }
  const module = { exports: {} }
  script.runInThisContext()(module.exports, createRequire(main), module, meta)
  if (!isKept) writeCache(script)
  return module.exports
}

/** @returns undefined where there is none that is whole: V8 takes what it is given */
function readCache() {
  try {
    const bytes = readFileSync(CACHE)
    const data = bytes.subarray(CHECKSUM_BYTES)
    return crc32(data) === bytes.readUInt32LE(0) ? data : undefined
  } catch {
    return undefined
  }
}

/** Processes that start at the same time may each write it; which of them is the last does not matter. */
function writeCache(script) {
  const draft = `${CACHE}.${process.pid}`
  try {
    writeFileSync(draft, '') // where nothing can be written, V8 does not work for it
    const data = script.createCachedData()
    const checksum = Buffer.alloc(CHECKSUM_BYTES)
    checksum.writeUInt32LE(crc32(data))
    writeFileSync(draft, Buffer.concat([checksum, data]))
    renameSync(draft, CACHE)
  } catch {
    // The folder cannot be written, or the disk is full.
    rmSync(draft, { force: true })
  }
}
