// Loads TypeScript whose types have been stripped before. Stripping is a third of what a process costs to start, and
// a run of the tests starts some two thousand; the content of a file is its key, so that nothing stale is ever loaded.
// Preloaded by `--import`, also into processes that tests start; what is not in the cache Node strips itself.
// Some packages are loaded from bundles of a few files. TypeBox's 680 modules are half of all that a gateway loads,
// and a fifth of what a process that loads one costs to start (0.86 to 0.68 s of CPU); tap costs each test file 0.12 s
// of CPU less, of 0.40 s that a small one takes. Threads that a gateway starts run the program that is compiled.
// Run as a program it fills the cache.

import * as crypto from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isMainThread } from 'node:worker_threads'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SOURCES_URL = new URL('..', import.meta.url).href
const FOLDER = join(ROOT, '.larkway', 'types')
const SOURCES = ['src', 'test', 'bench', 'scripts']

/**
 * Packages that are loaded from bundles of a few files, and the folder within each bundle. The stacks of failures leave
 * out what lies in a folder of tap's.
 */
const BUNDLED = {
  typebox: '.',
  tap: join('node_modules', '@tapjs', 'tap'),
  yaml: '.',
  pino: '.',
  '@elevenlabs/elevenlabs-js': '.',
}

/** Modules that look for files beside themselves: tap's `spawn` hands one to the process that it starts. */
const UNBUNDLED = ['@tapjs/processinfo']

/** The files that replace a package in the bundles. */
const REPLACED = {
  'async-hook-domain': join(ROOT, 'scripts', 'tap-domain.mjs'),
  tcompare: join(ROOT, 'scripts', 'tap-compare.mjs'),
}

/** The files beside its package that a bundle depends on: a change makes a new bundle. */
const MAKING = [fileURLToPath(import.meta.url), ...Object.values(REPLACED)]

const placeOf = (source) => join(FOLDER, crypto.hash('sha1', source))

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

/** @returns the files of each entry point of a package, as it is imported, and where its bundle belongs */
function readPackage(name) {
  const home = join(ROOT, 'node_modules', name)
  const { version, exports, main, type } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  const entries = Object.entries(exports ?? { '.': { node: main } })
    .map(([path, { import: at, node }]) => [path, typeof at === 'string' ? at : (at?.default ?? node)])
    .filter(([, file]) => file !== undefined)
  const making = crypto.hash('sha1', MAKING.map((file) => readFileSync(file, 'utf8')).join('')).slice(0, 12)
  const folder = join(FOLDER, `bundle-${name}-${version}-${making}`)
  return { home, entries, isCommonJs: type !== 'module', folder }
}

/** @returns the path of a module that has what a CommonJS one has, by its names */
function wrapped(file, draft) {
  const names = Object.keys(module.createRequire(import.meta.url)(file)).filter((name) => /^\w+$/.test(name))
  const wrapper = join(draft, `${crypto.hash('sha1', file)}.entry.mjs`)
  const named = names.filter((name) => name !== 'default').join(', ')
  mkdirSync(draft, { recursive: true })
  writeFileSync(
    wrapper,
    `import whole from ${JSON.stringify(file)}\nexport default whole\nexport const { ${named} } = whole\n`,
  )
  return wrapper
}

/** Bundles every entry point of a package at once: they share their modules as they do unbundled. By esbuild. */
async function bundle(name) {
  const { home, entries, isCommonJs, folder } = readPackage(name)
  if (existsSync(folder)) return
  const { build } = await import('esbuild').catch(() => ({}))
  if (build === undefined) return
  const draft = `${folder}.${process.pid}`
  await build({
    entryPoints: entries.map(([path, file]) => ({
      in: isCommonJs ? wrapped(join(home, file), draft) : join(home, file),
      out: join('.', path, 'index'),
    })),
    outdir: join(draft, BUNDLED[name]),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    logLevel: 'silent',
    external: UNBUNDLED,
    alias: REPLACED,
    // Its CommonJS parts require modules of Node.
    banner: {
      js: "import { createRequire as requirer } from 'node:module'; const require = requirer(import.meta.url);",
    },
  })
  renameSync(draft, folder)
}

/** The bundled modules of a package by the names that they are imported by; none where they are not bundled. */
function findBundled(name) {
  try {
    const { entries, folder } = readPackage(name)
    if (!existsSync(folder)) return []
    const url = (path) => pathToFileURL(join(folder, BUNDLED[name], path, 'index.mjs')).href
    return entries.map(([path]) => [join(name, path), url(path)])
  } catch {
    return [] // in a copy of the repository without its packages
  }
}

function readStripped(url) {
  try {
    return readFileSync(placeOf(readFileSync(fileURLToPath(url), 'utf8')), 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Resolves the relative imports of the repository's own files without asking the disk for links and for the package of
 * each: that is a fifth of the time in which a gateway's 440 files are loaded.
 */
function ownSource(specifier, { parentURL }) {
  if (!specifier.startsWith('.') || !specifier.endsWith('.ts')) return undefined
  const url = parentURL?.startsWith(SOURCES_URL) ? new URL(specifier, parentURL).href : ''
  return url.startsWith(SOURCES_URL) && !url.includes('/node_modules/') ? url : undefined
}

/** The folder of the compiled program; undefined: threads run from their sources. */
const PROGRAM = process.env.LARKWAY_TEST_PROGRAM

/** The compiled program of a thread that is about to start: 2 files in place of up to 60, as it ships. */
function compiledThread(specifier, { parentURL }) {
  if (isMainThread || PROGRAM === undefined || parentURL !== undefined) return undefined
  const source = `${SOURCES_URL}src/`
  if (!specifier.startsWith(source) || !specifier.endsWith('.ts')) return undefined
  const name = specifier.slice(source.length, -'.ts'.length).replaceAll('/', '-')
  const file = join(PROGRAM, `${name}.js`)
  return existsSync(file) ? pathToFileURL(file).href : undefined
}

// Versions of Node without it, which some tests start, do without the cache.
const bundled = Object.fromEntries(Object.keys(BUNDLED).flatMap(findBundled))
module.registerHooks?.({
  resolve(specifier, context, next) {
    const source = ownSource(specifier, context)
    // As Node would say: it strips what is not in the cache.
    if (source !== undefined) return { url: source, format: 'module-typescript', shortCircuit: true }
    const url = Object.hasOwn(bundled, specifier) ? bundled[specifier] : compiledThread(specifier, context)
    return url === undefined ? next(specifier, context) : { url, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context)
    const source = readStripped(url)
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true }
  },
})

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  fill()
  for (const name of Object.keys(BUNDLED)) await bundle(name)
}
