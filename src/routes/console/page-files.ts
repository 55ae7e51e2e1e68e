import { readdirSync } from 'node:fs'
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

/** What a browser finds under the names that modules of the page import. */
export const IMPORTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(PACKAGES).map((name) => [name, `${ASSETS}/${vendorName(name)}`]),
)

/** The modules and style sheets of the page, and the packages, by their path below `ASSETS`: no other can be had. */
export function pageFiles(): ReadonlyMap<string, Asset> {
  const files = new Map<string, Asset>()
  for (const [name, { file, ending = '' }] of Object.entries(PACKAGES))
    files.set(vendorName(name), { type: SCRIPT, load: () => packageScript(file, ending) })
  files.set(SAMPLE, { type: 'audio/wav', load: async () => speak('hello world', VOICES.alloy ?? 600, 1) })
  files.set('vendor/uplot.css', { type: STYLE, load: () => readPackage('uplot/dist/uPlot.min.css') })
  for (const path of readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })) {
    const name = path.replaceAll('\\', '/')
    if (name.endsWith('.ts')) files.set(name, { type: SCRIPT, load: () => pageScript(name) })
    else if (name.endsWith('.css')) files.set(name, { type: STYLE, load: () => readPage(name) })
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
