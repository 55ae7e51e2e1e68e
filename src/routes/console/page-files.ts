import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { speak, VOICES } from '../../sandbox/speak.ts'
import type { Asset } from '../assets.ts'
import { stripTypes } from './strip-types.ts'

/** Where what the page is made of is found, below the address of the node. */
export const ASSETS = '/console/assets'
export const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'
/** Audio for a first request, by a name that stays: commands that people copy hold it. */
export const SAMPLE = 'hello.wav'
const UPLOT_STYLE = 'uplot/dist/uPlot.min.css'
const FOLDER = new URL('page/', import.meta.url)

/**
 * The packages that the page imports, with the file that stands for each. Of uPlot only a script is published
 * minified, at a third of its size: it becomes a module by its last line.
 */
const PACKAGES: Readonly<Record<string, { readonly file: string; readonly ending?: string }>> = {
  preact: { file: 'preact' },
  'preact/hooks': { file: 'preact/hooks' },
  htm: { file: 'htm' },
  'htm/preact': { file: 'htm/preact' },
  uplot: { file: 'uplot/dist/uPlot.iife.min.js', ending: '\nexport { uPlot as default }\n' },
}

/** The files that stand for the names that modules of the page import, as their paths below the assets. */
export const IMPORTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(PACKAGES).map((name) => [name, vendorName(name)]),
)

/**
 * Names what the whole page is made of: its sources, the packages and how they are made ready. It stands in the
 * addresses as a folder, so that imports between modules find their way by themselves, and all of them change when
 * anything does.
 */
export function pageHash(): string {
  const hash = createHash('sha256').update(process.version)
  const packaged = [...Object.values(PACKAGES).map(({ file }) => file), UPLOT_STYLE]
  const own = ownFiles().map((name) => new URL(name, FOLDER))
  const made = ['page-files.ts', 'strip-types.ts'].map((name) => new URL(name, import.meta.url))
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
export function pageFiles(): ReadonlyMap<string, Asset> {
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
