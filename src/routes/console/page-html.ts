import { hash } from 'node:crypto'
import type { Asset } from '../assets.ts'
import { IMPORTS, SCRIPT } from './page-files.ts'

const ENTRY = 'main.ts'
/** Runs before the first paint, and so is no module. */
const EARLY = 'early.ts'
/** In this order, before all others. */
const FIRST_STYLES = ['style/tokens.css', 'style/layout.css', 'style/parts.css']
const STATIC_IMPORT = /^\s*(?:import|export)\b(?:[^'"`;()]*?\bfrom)?\s*(['"])([^'"]+)\1/gm

/** The one script that stands in the page itself; the policy names it by its hash. */
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
export function pageHtml(files: ReadonlyMap<string, Asset>, root: string): Asset {
  return {
    type: 'text/html; charset=utf-8',
    load: () => written(files, root),
    headers: headersWith(importMap(root)),
  }
}

async function written(files: ReadonlyMap<string, Asset>, root: string): Promise<string> {
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

/** Those of `style/`, but for the ones that are called like a view: they are loaded with it. */
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
    for (const [, , specifier = ''] of text.matchAll(STATIC_IMPORT)) names.add(nameOf(specifier, name))
  }
  return [...names]
}

/** @returns a path below the root */
function nameOf(specifier: string, importer: string): string {
  return IMPORTS[specifier] ?? new URL(specifier, `http://page/${importer}`).pathname.slice(1)
}
