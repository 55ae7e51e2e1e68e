// Loads TypeScript whose types have been stripped before. Stripping is a third of what a process costs to start, and
// a run of the tests starts some two thousand; the content of a file is its key, so that nothing stale is ever loaded.
// Preloaded by `--import`, also into processes that tests start; what is not in the cache Node strips itself.
// TypeBox is loaded from a bundle of a few files: its 680 modules are half of all that a gateway loads, and a fifth of
// what a process that loads one costs to start (0.86 to 0.68 s of CPU).
// Run as a program it fills the cache.

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const FOLDER = join(ROOT, '.larkway', 'types')
const SOURCES = ['src', 'test', 'bench', 'scripts']

const TYPEBOX = join(ROOT, 'node_modules', 'typebox')

const placeOf = (source) => join(FOLDER, createHash('sha1').update(source).digest('hex'))

/** The environment with which processes of the tests use what has been stripped. */
export const TYPE_CACHE_ENVIRONMENT = {
  NODE_OPTIONS: [process.env.NODE_OPTIONS, `--import=${import.meta.url}`].filter(Boolean).join(' '),
  NODE_COMPILE_CACHE: join(ROOT, '.larkway', 'compiled'),
}

/** Strips the types of every file of the repository that is new or has changed. */
function fill() {
  mkdirSync(FOLDER, { recursive: true })
  for (const folder of SOURCES) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true })) {
      if (String(name).endsWith('.ts')) keep(readFileSync(join(ROOT, folder, String(name)), 'utf8'))
    }
  }
}

function keep(source) {
  const place = placeOf(source)
  if (existsSync(place)) return
  try {
    const draft = `${place}.${process.pid}`
    writeFileSync(draft, module.stripTypeScriptTypes(source))
    renameSync(draft, place) // another run may read it meanwhile
  } catch {
    // Not to be stripped: Node says so where it is loaded.
  }
}

function readTypebox() {
  const { version, exports } = JSON.parse(readFileSync(join(TYPEBOX, 'package.json'), 'utf8'))
  return { exports, folder: join(FOLDER, `typebox-${version}`) }
}

/** Bundles every entry point of TypeBox at once, so that they share their modules as they do unbundled; by esbuild. */
async function bundleTypebox() {
  const { exports, folder } = readTypebox()
  if (existsSync(folder)) return
  const { build } = await import('esbuild').catch(() => ({}))
  if (build === undefined) return
  const draft = `${folder}.${process.pid}`
  await build({
    entryPoints: Object.entries(exports).map(([name, { import: file }]) => ({
      in: join(TYPEBOX, file),
      out: join('.', name, 'index'),
    })),
    outdir: draft,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    logLevel: 'silent',
  })
  renameSync(draft, folder)
}

/** The bundled modules of TypeBox by the names that they are imported by; none where they are not bundled. */
function findTypebox() {
  try {
    const { exports, folder } = readTypebox()
    if (!existsSync(folder)) return {}
    const url = (name) => pathToFileURL(join(folder, name, 'index.mjs')).href
    return Object.fromEntries(Object.keys(exports).map((name) => [join('typebox', name), url(name)]))
  } catch {
    return {} // in a copy of the repository without its packages
  }
}

function readStripped(url) {
  try {
    return readFileSync(placeOf(readFileSync(fileURLToPath(url), 'utf8')), 'utf8')
  } catch {
    return undefined
  }
}

// Versions of Node without it, which some tests start, do without the cache.
const typebox = findTypebox()
module.registerHooks?.({
  resolve(specifier, context, next) {
    if (!Object.hasOwn(typebox, specifier)) return next(specifier, context)
    return { url: typebox[specifier], format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context)
    const source = readStripped(url)
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true }
  },
})

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  fill()
  await bundleTypebox()
}
