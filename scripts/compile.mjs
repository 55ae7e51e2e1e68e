// Compiles the program: `src/` and the packages that it uses, bundled into a hundred files in place of 1,400, without
// types. Reading, stripping and linking the sources one by one took two thirds of what a start cost. The server is one
// of them, a script, which `load-program.mjs` runs with what V8 has compiled of it before.
// The sources stay the truth: every start compares them, and what differs is compiled anew. A folder that cannot be
// written, or sources that do not compile, are no obstacle: the program then runs from its sources.
//
// Run as a program it compiles, and starts the server once, so that V8's code caches are there too (Dockerfile).
// Plain JavaScript for Node 18 and newer, as the programs that use it run before a fitting Node is there.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { CACHE, main, ROOT, say, withLock } from './install.mjs'
import { SCRIPT } from './load-program.mjs'

const FOLDER = join(CACHE, 'program')
const CURRENT = join(FOLDER, 'current.json')
const SOURCES = join(ROOT, 'src')

/** Inputs of a compiled program besides its sources; the lock file represents the packages. */
const RECIPE = ['package-lock.json', 'scripts/compile.mjs', 'scripts/load-program.mjs']

/** The browser's part of the console made ready, in the folder of a compiled program; see `packPage`. */
const PAGE = 'page.pack'
const PAGE_SOURCES = 'src/console/page/'
const PAGE_MAKER = 'src/console/server/page-assets.ts'

/** Flags with which Node runs the server and its commands: see "Starting" in docs/operations.md. */
export const NODE_FLAGS = ['--v8-pool-size=1']

/** Programs of `src/`; those that threads run are found by how they are named (`THREAD`). */
const SERVER = 'main.ts'
const COMMAND = 'cli.ts'

/** In the order in which the server tries them. */
const NATIVE_SERVERS = ['uWebSockets.js', 'uWebSockets.js-glibc227']

/**
 * Find files of their own beside them: native builds, the program of a thread, WebAssembly. LAME is under the LGPL, so
 * that it stays a file of its own that can be exchanged. The last is used here only.
 */
export const UNBUNDLED = [
  ...NATIVE_SERVERS,
  ...['koffi', 'piscina', '@duckdb/node-api', 'wasm-media-encoders', 'libopus-wasm', 'esbuild'],
]

/** V8's code cache of the modules of a compiled program; Node writes it when the program ends in order. */
const CODE = 'v8'
/** Runs the script of the server. */
const LOADER = 'load-program.mjs'

/** Compiled programs that are kept: one that still runs loads parts of itself later on. */
const KEPT = 3

/**
 * Makes sure of a compiled program that equals the sources.
 *
 * @param {string} program a file of `src/`: `main.ts` or `cli.ts`
 * @param {string} node    the Node that is to run it
 * @returns {Promise<{ file: string, flags: string[], env: Record<string, string> }>} what Node is to run, compiled if
 *          that can be, and with which flags and environment
 */
export async function compiled(program, node = process.execPath) {
  try {
    const folder =
      readCurrent() ?? (await withLock('program', async () => readCurrent() ?? (await compile(node))))
    const env = { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE || join(folder, CODE) }
    return { file: join(folder, `${compiledName(program)}.js`), flags: NODE_FLAGS, env }
  } catch (error) {
    say(`runs from its sources, which takes longer to start: ${error.message}`)
    return { file: join(SOURCES, program), flags: NODE_FLAGS, env: {} }
  }
}

/** The compiled program if it is whole and its sources are as they were. */
function readCurrent() {
  try {
    const current = JSON.parse(readFileSync(CURRENT, 'utf8'))
    const folder = join(FOLDER, current.key)
    for (const [name, size] of current.outputs)
      if (statSync(join(folder, name)).size !== size) return undefined
    if (current.inputs.every(([path, stamp]) => stampOf(path) === stamp)) return folder
    // Copied or checked out anew, perhaps, and of the same content.
    const paths = listInputs()
    if (keyOf(paths) !== current.key) return undefined
    writeCurrent({ ...current, inputs: stamped(paths) })
    return folder
  } catch {
    return undefined
  }
}

/** Changes with every write to a file, also when its length or its time of modification are put back. */
function stampOf(path) {
  const { size, mtimeMs, ctimeMs } = statSync(join(ROOT, path))
  return `${size} ${mtimeMs} ${ctimeMs}`
}

const stamped = (paths) => paths.map((path) => [path, stampOf(path)])

function listInputs() {
  const sources = readdirSync(SOURCES, { recursive: true })
    .map((path) => `src/${String(path).split(sep).join('/')}`)
    .filter((path) => path.endsWith('.ts') || (path.startsWith(PAGE_SOURCES) && path.endsWith('.css')))
  return [...RECIPE, ...sources.sort()]
}

function keyOf(paths) {
  const hash = createHash('sha256')
  for (const path of paths)
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(ROOT, path)))
      .update('\0')
  return hash.digest('hex').slice(0, 20)
}

/** Readers see the old or the new one, and it names a folder that is whole. */
function writeCurrent(current) {
  const draft = `${CURRENT}.${process.pid}`
  try {
    writeFileSync(draft, JSON.stringify(current))
    renameSync(draft, CURRENT)
  } catch (error) {
    if (error.code !== 'EROFS' && error.code !== 'EACCES') throw error
  }
}

/** @returns {Promise<string>} the folder */
async function compile(node) {
  const paths = listInputs()
  const inputs = stamped(paths) // before anything is read: what changes from here on is noticed by the next start
  const key = keyOf(paths)
  const draft = join(FOLDER, `draft-${process.pid}`)
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  try {
    const folder = join(FOLDER, key)
    await Promise.all([bundle(draft, folder, paths), packPage(draft, node)])
    const outputs = readdirSync(draft).map((name) => [name, statSync(join(draft, name)).size])
    rmSync(folder, { recursive: true, force: true })
    renameSync(draft, folder)
    writeCurrent({ key, inputs, outputs })
    removeOld(key)
    return folder
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

function removeOld(key) {
  const madeMs = (name) => statSync(join(FOLDER, name)).mtimeMs
  const others = readdirSync(FOLDER).filter((name) => /^[0-9a-f]{20}$/.test(name) && name !== key)
  for (const name of others.sort((a, b) => madeMs(b) - madeMs(a)).slice(KEPT - 1))
    rmSync(join(FOLDER, name), { recursive: true, force: true })
}

/** How sources name the program of a thread or a process; bundlers know this form. */
const THREAD = /new URL\(\s*'(\.{1,2}\/[^']+\.ts)',\s*import\.meta\.url\s*\)/g
/** The place of a source. `import.meta.filename` is left alone: it tells which program was started. */
const PLACE = /import\.meta\.url(?! *\/\* compiled \*\/)/g

const compiledName = (path) => path.replace(/\.ts$/, '').replaceAll('/', '-')

/** The name of a compiled file for a source that another one names by `THREAD`. */
function threadName(importer, path) {
  return compiledName(
    relative(SOURCES, resolve(dirname(importer), path))
      .split(sep)
      .join('/'),
  )
}

/** Packages in CommonJS require Node's own modules. */
const REQUIRE = `import { createRequire as $createRequire } from 'node:module'
const require = $createRequire(import.meta.url)`

/**
 * @param folder   is written
 * @param place    of the compiled program later on
 * @param paths    the inputs
 */
async function bundle(folder, place, paths) {
  const { build } = await import('esbuild')
  const options = {
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'node',
    target: 'node22',
    external: UNBUNDLED,
    // Names are kept, and lines are short, as stack traces tell of both.
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 120,
    plugins: [
      { name: 'places', setup: (build) => keepPlaces(build, place) },
      { name: 'http', setup: loadHttpAlone },
      { name: 'server', setup: leaveServer },
    ],
    logLevel: 'silent',
  }
  const [{ metafile }] = await Promise.all([
    build({ ...options, ...serverOptions(join(folder, SCRIPT)), metafile: true }),
    build({ ...options, ...moduleOptions(paths), outdir: folder }),
  ])
  adaptScript(join(folder, SCRIPT), Object.values(metafile.outputs)[0].imports)
  copyFileSync(join(ROOT, 'scripts', LOADER), join(folder, LOADER))
  const main = `import { load } from './${LOADER}'\nexport const { serve, work } = load()\n`
  writeFileSync(join(folder, `${compiledName(SERVER)}.js`), main)
}

/** A script whose value is a function, which the loader calls. */
function serverOptions(outfile) {
  const banner = { js: '(function (exports, require, module, meta) {' }
  const define = { 'import.meta': 'meta' }
  return {
    entryPoints: [join(SOURCES, SERVER)],
    outfile,
    format: 'cjs',
    define,
    banner,
    footer: { js: '})' },
  }
}

/** The command and the threads: most of them need little of what there is. */
function moduleOptions(paths) {
  const entries = new Map([[compiledName(COMMAND), join(SOURCES, COMMAND)]])
  for (const file of paths.filter((path) => path.endsWith('.ts')).map((path) => join(ROOT, path)))
    for (const [, path] of readFileSync(file, 'utf8').matchAll(THREAD))
      entries.set(threadName(file, path), resolve(dirname(file), path))
  entries.delete(compiledName(SERVER))
  return {
    entryPoints: Object.fromEntries(entries),
    splitting: true,
    format: 'esm',
    chunkNames: 'part-[hash]',
    banner: { js: REQUIRE },
  }
}

/**
 * Adapts what esbuild leaves as it is to a script. Only a module may import: the loader does it instead. A character
 * beyond Latin-1, which is in a regular expression then, would have V8 take two bytes for each of the whole text.
 */
function adaptScript(file, imports) {
  const text = readFileSync(file, 'utf8')
  if (RAW_TEXT.test(text)) throw new Error('a raw text that is not ASCII cannot be escaped')
  const dynamic = imports.filter(({ kind, external }) => kind === 'dynamic-import' && external)
  if ((text.match(IMPORT) ?? []).length !== dynamic.length) throw new Error('a text looks like an import')
  const escaped = (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`
  writeFileSync(file, text.replaceAll(IMPORT, 'meta.import("').replaceAll(NOT_ASCII, escaped))
}

const IMPORT = /\bimport\("/g
const NOT_ASCII = /[^\0-\x7f]/g
const RAW_TEXT = /(?<!RegExp\()String\.raw`[^`]*[^\0-\x7f]/

/**
 * Imports of node:http become what `require` gives. An import statement makes Node read every export at once, among
 * them WebSocket, for which it loads its own copy of undici: 9 MiB and a tenth of a start.
 */
function loadHttpAlone({ onResolve, onLoad }) {
  onResolve({ filter: /^node:http$/ }, ({ kind }) =>
    kind === 'import-statement' ? { path: 'http', namespace: 'node' } : undefined,
  )
  onLoad({ filter: /.*/, namespace: 'node' }, () => ({
    contents: "module.exports = process.getBuiltinModule('node:http')",
    loader: 'js',
  }))
}

/** Has the command start the server by what loads its script. */
function leaveServer({ onResolve }) {
  onResolve({ filter: /^\.\/main\.ts$/ }, ({ kind, resolveDir }) =>
    kind === 'dynamic-import' && resolveDir === SOURCES ? { path: './main.js', external: true } : undefined,
  )
}

/** Has compiled files find assets beside their sources, and compiled threads beside themselves. */
function keepPlaces({ onLoad }, folder) {
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    if (!path.startsWith(SOURCES)) return undefined
    const source = readFileSync(path, 'utf8')
    if (!source.includes('import.meta.url')) return undefined
    const own = relative(folder, path).split(sep).join('/')
    const contents = source
      .replace(THREAD, (_, to) => `new URL('./${threadName(path, to)}.js', import.meta.url /* compiled */)`)
      .replace(PLACE, `new URL('${own}', import.meta.url).href`)
    return { contents, loader: 'ts' }
  })
}

/**
 * Makes the browser's part of the console ready, which the first one who opens it would wait for otherwise, for 0.4 s
 * and more. Where that fails it is made then. The Node that serves it makes it: its version is in the hash.
 */
async function packPage(folder, node) {
  const maker = join(ROOT, PAGE_MAKER)
  if (!existsSync(maker)) return
  const program = `const { packPage } = await import(${JSON.stringify(pathToFileURL(maker).href)})
    await packPage(${JSON.stringify(join(folder, PAGE))})`
  const child = spawn(node, ['--no-warnings', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await new Promise((resolve) => child.on('error', resolve).on('exit', resolve))
}

/**
 * Makes V8's code cache the same each time: hashes get one seed, and scripts one number. Native parts, by themselves
 * loaded at a moment that the machine chooses, therefore come first. V8 reads such a cache without these flags.
 */
const SAME_CACHE = [
  '--random-seed=1',
  `--import=data:text/javascript,${encodeURIComponent(`import { createRequire } from 'node:module'
    const require = createRequire(${JSON.stringify(join(ROOT, 'package.json'))})
    try { require('koffi') } catch {}
    for (const name of ${JSON.stringify(NATIVE_SERVERS)}) try { require(name); break } catch {}`)}`,
]

/**
 * Compiles for an image, which is not changed: starts the server once and stops it, for V8's code cache. Its threads
 * start one after the other, as V8 numbers functions in the order in which all of them compile: it is told its place,
 * and has no demo.
 */
export async function compileInto(folder) {
  await bundle(folder, folder, listInputs())
  await packPage(folder, process.execPath)
  const data = mkdtempSync(join(tmpdir(), 'larkway-'))
  const config = join(data, 'larkway.yaml')
  writeFileSync(config, '{"providers":{},"routes":{},"workspaces":{}}')
  const settings = { PORT: '0', LARKWAY_DATA: data, LARKWAY_CONFIG: config, LARKWAY_DRAIN_SECONDS: '0' }
  const server = spawn(process.execPath, [...NODE_FLAGS, ...SAME_CACHE, join(folder, 'main.js'), 'alone'], {
    env: { ...process.env, ...settings, NODE_COMPILE_CACHE: join(folder, CODE) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  server.stdout.on('data', (text) => {
    if (String(text).includes('"msg":"listening"')) server.kill('SIGINT')
  })
  const code = await new Promise((resolve) => server.on('exit', resolve))
  rmSync(data, { recursive: true, force: true })
  if (code !== 0) throw new Error(`the compiled server ended with ${code}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await main(() => compileInto(resolve(process.argv[2])))
