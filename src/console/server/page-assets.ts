import { createHash, hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { GatewayError } from '../../contracts/errors.ts'
import { type Asset, type AssetAnswer, IMMUTABLE, serveAsset } from '../../gateway/api/assets.ts'
import type { Exchange, Reply } from '../../gateway/edge/exchange.ts'
import type { EdgeRoute } from '../../gateway/edge/server.ts'
import { speak, VOICES } from '../../sandbox/speak.ts'
import { readPagePack, writePagePack } from './page-pack.ts'

/** Where what the page is made of is found, below the address of the node. */
const ASSETS = '/console/assets'
/**
 * Modules are UTF-8 whatever is said, and all else is what the page is, which says it. A view has some fifty files, a
 * third of which are hardly longer than their headers.
 */
const SCRIPT = 'text/javascript'
const STYLE = 'text/css'
/** Audio for a first request, by a name that stays: commands that people copy hold it. */
const SAMPLE = 'hello.wav'
const UPLOT_STYLE = 'uplot/dist/uPlot.min.css'
const FOLDER = new URL('../page/', import.meta.url)

/**
 * The packages that the page imports, with the file of each. uPlot publishes only a plain script
 * minified, at a third of the size: a last line makes it a module.
 */
const PACKAGES: Readonly<Record<string, { readonly file: string; readonly ending?: string }>> = {
  preact: { file: 'preact' },
  'preact/hooks': { file: 'preact/hooks' },
  uplot: { file: 'uplot/dist/uPlot.iife.min.js', ending: '\nexport { uPlot as default }\n' },
}

/** Files by the names under which modules of the page import them, as paths below the assets. */
const IMPORTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(PACKAGES).map((name) => [name, vendorName(name)]),
)

/**
 * Names what the whole page is made of: its sources, the packages and how they are made ready. It is a folder in the
 * addresses, so that imports between modules find their way by themselves, and all of them change when anything does.
 */
function pageHash(): string {
  const hash = createHash('sha256').update(process.version)
  const packaged = [...Object.values(PACKAGES).map(({ file }) => file), UPLOT_STYLE]
  const own = ownFiles().map((name) => new URL(name, FOLDER))
  const made = [new URL(import.meta.url)]
  for (const url of [...packaged.map((file) => new URL(import.meta.resolve(file))), ...own, ...made])
    hash
      .update(`${url.pathname.split('/').at(-1)}\0`)
      .update(readFileSync(url))
      .update('\0')
  return hash.digest('hex').slice(0, 12)
}

function ownFiles(): string[] {
  const paths = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).map((path) =>
    path.replaceAll('\\', '/'),
  )
  return paths.filter((name) => /\.(ts|css)$/.test(name)).sort()
}

/** The modules and style sheets of the page, and the packages, by their path below `ASSETS`: no other can be had. */
function pageFiles(): ReadonlyMap<string, Asset> {
  const files = new Map<string, Asset>()
  for (const [name, { file, ending = '' }] of Object.entries(PACKAGES))
    files.set(vendorName(name), { type: SCRIPT, load: () => packageScript(file, ending) })
  files.set(SAMPLE, { type: 'audio/wav', load: async () => speak('hello world', VOICES.alloy ?? 600, 1) })
  files.set('vendor/uplot.css', { type: STYLE, load: () => readPackage(UPLOT_STYLE) })
  for (const name of ownFiles()) {
    if (name.endsWith('.ts')) files.set(name, { type: SCRIPT, load: () => pageScript(name) })
    else files.set(name, { type: STYLE, load: () => readPage(name) })
  }
  return files
}

/** The console's colours and the theme that was chosen there, for the API reference. */
export const LOOK: Readonly<Record<'tokens.css' | 'theme.js', Asset>> = {
  'tokens.css': { type: STYLE, load: () => readPage('style/tokens.css') },
  'theme.js': { type: SCRIPT, load: () => pageScript('early.ts') },
}

function vendorName(name: string): string {
  return `vendor/${name}.js`
}

async function pageScript(name: string): Promise<string> {
  return stripTypes(await readPage(name))
}

function readPage(name: string): Promise<string> {
  return readFile(new URL(name, FOLDER), 'utf8')
}

/** Without the line that names a source map, which browsers would ask for and not get. */
async function packageScript(file: string, ending: string): Promise<string> {
  const text = await readPackage(file)
  return text.replace(/^\/\/# sourceMappingURL=.*$/m, '') + ending
}

function readPackage(file: string): Promise<string> {
  return readFile(new URL(import.meta.resolve(file)), 'utf8')
}

const ENTRY = 'main.ts'
/** Runs before the first paint, and so is no module. */
const EARLY = 'early.ts'
/** In this order, before all others. */
const FIRST_STYLES = ['style/tokens.css', 'style/layout.css', 'style/components.css']
const STATIC_IMPORT = /^\s*(?:import|export)\b(?:[^'"`;()]*?\bfrom)?\s*(['"])([^'"]+)\1/gm

/** The one inline script of the page; the policy names it by its hash. */
function importMap(root: string): string {
  const imports = Object.entries(IMPORTS).map(([name, path]) => [name, `${root}/${path}`])
  return JSON.stringify({ imports: Object.fromEntries(imports) })
}

const headersWith = (script: string) => ({
  'content-security-policy': [
    "default-src 'none'",
    `script-src 'self' 'sha256-${hash('sha256', script, 'base64')}'`,
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "media-src 'self' blob: data:",
    "connect-src 'self'",
    "font-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'microphone=(self), camera=(), geolocation=()',
})

/**
 * The page, which is the same under every path of the console. Nothing is asked of another host.
 *
 * @param root where its files are, below the address of the node
 */
function pageHtml(files: ReadonlyMap<string, Asset>, root: string): Asset {
  return {
    type: 'text/html; charset=utf-8',
    load: () => writtenAssets(files, root),
    headers: headersWith(importMap(root)),
  }
}

async function writtenAssets(files: ReadonlyMap<string, Asset>, root: string): Promise<string> {
  const styles = stylesIn(files).map((name) => `<link rel="stylesheet" href="${root}/${name}">`)
  const modules = (await modulesOf(files)).map((name) => `<link rel="modulepreload" href="${root}/${name}">`)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Larkway console</title>
<link rel="icon" href="data:,">
<script type="importmap">${importMap(root)}</script>
<script src="${root}/${EARLY}"></script>
${[...styles, ...modules].join('\n')}
<script type="module" src="${root}/${ENTRY}"></script>
</head>
<body>
<div id="console"></div>
<noscript>The console needs JavaScript. The larkway command can do the same.</noscript>
</body>
</html>
`
}

/** The style sheets of `style/`, without those named after a view: they are loaded with it. */
function stylesIn(files: ReadonlyMap<string, Asset>): string[] {
  const views = new Set([...files.keys()].map((name) => /^views\/([^/]+)\//.exec(name)?.[1]))
  const styles = [...files.keys()].filter((name) => {
    const own = /^style\/(.+)\.css$/.exec(name)?.[1]
    return own !== undefined && !views.has(own)
  })
  const first = FIRST_STYLES.filter((name) => styles.includes(name))
  return [...first, ...styles.filter((name) => !first.includes(name)).sort()]
}

/** The modules that the first one needs, so that a browser asks for all at once and not for one after the other. */
async function modulesOf(files: ReadonlyMap<string, Asset>): Promise<string[]> {
  const names = new Set([ENTRY])
  for (const name of names) {
    const file = files.get(name)
    if (file?.type !== SCRIPT) {
      names.delete(name)
      continue
    }
    const text = String(await file.load())
    for (const [, , specifier = ''] of text.matchAll(STATIC_IMPORT)) names.add(importedPath(specifier, name))
  }
  return [...names]
}

/** @returns a path below the root */
function importedPath(specifier: string, importer: string): string {
  return IMPORTS[specifier] ?? new URL(specifier, `http://page/${importer}`).pathname.slice(1)
}

type Answer = (exchange: Exchange) => Promise<Reply>

interface Opened {
  readonly hash: string
  readonly page: Answer
  readonly assets: ReadonlyMap<string, AssetAnswer>
}

/** The folder that the hash is, and what is in it. */
const HASHED = /^([0-9a-f]{12})\/(.+)$/

function openPage(packFile: URL): Opened {
  const files = pageFiles()
  const hash = pageHash()
  const packed = readPagePack(packFile, hash)
  const serve = (name: string, asset: Asset) => serveAsset({ ...asset, packed: packed.get(name) })
  const assets = new Map([...files].map(([name, asset]) => [name, serve(name, asset)]))
  return { hash, page: serve(PAGE, pageHtml(files, `${ASSETS}/${hash}`)), assets }
}

/** Name of the page itself in a pack. */
const PAGE = ''

/**
 * Makes the whole page ready, which takes half a second of CPU and would come with the first request otherwise. Run
 * while the program is compiled (scripts/compile.mjs).
 *
 * @param path of the file to write
 */
export async function packPage(path: string): Promise<void> {
  const files = pageFiles()
  const hash = pageHash()
  const assets = [...files].filter(([, { type }]) => type === SCRIPT || type === STYLE)
  await writePagePack(path, hash, [[PAGE, pageHtml(files, `${ASSETS}/${hash}`)], ...assets])
}

/** The page made ready, beside the compiled program; there is none beside the sources. */
const PACK = new URL('./page.pack', import.meta.url /* compiled */)

/**
 * GET /console and what is below it: the page, whose own script reads the rest of the path, and what it is made of. No
 * key is asked for, since nothing of that is secret. Files are read when the console is first opened.
 */
export function consolePage(pack = PACK): EdgeRoute[] {
  let opened: Opened | null = null
  const open = () => {
    opened ??= openPage(pack)
    return opened
  }
  const page = (exchange: Exchange) => open().page(exchange)
  return [
    get('/console', page),
    get(`${ASSETS}/*`, (exchange) => {
      const { hash, assets } = open()
      const path = exchange.params[0] ?? ''
      const [, given, name = path] = HASHED.exec(path) ?? []
      const file = assets.get(name)
      if (file === undefined) throw new GatewayError('NOT_FOUND')
      if (given === hash) return file(exchange, IMMUTABLE)
      // A page from before an upgrade, or from a node of another version: it gets the current file, uncached.
      return given === undefined ? file(exchange) : file(exchange, 'no-store')
    }),
    get('/console/*', page),
  ]
}

function get(path: string, answer: Answer): EdgeRoute {
  return {
    method: 'GET',
    path,
    async handle(exchange) {
      exchange.reply(await answer(exchange))
    },
  }
}

/** How Node's warning about it begins. That it may change is known: the tests load every module of the page. */
const WARNING = 'stripTypeScriptTypes '

/**
 * JavaScript out of TypeScript whose types can be erased. Before Node 26 it is printed anew, without comments: they are
 * a sixth of what a browser would load. Node's warning that this is experimental is kept back, and no other.
 *
 * @throws Error when the text is no such TypeScript
 */
export function stripTypes(source: string): string {
  const { emitWarning } = process
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    const text = typeof warning === 'string' ? warning : warning.message
    if (!text.startsWith(WARNING)) Reflect.apply(emitWarning, process, [warning, ...rest])
  }
  try {
    const text = stripTypeScriptTypes(source)
    return parseInt(process.versions.node, 10) < 26 ? stripTypeScriptTypes(text, { mode: 'transform' }) : text
  } finally {
    process.emitWarning = emitWarning
  }
}
