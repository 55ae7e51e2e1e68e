import { readFile } from 'node:fs/promises'
import type { Asset } from '../assets.ts'

/**
 * The page and what it is made of. Everything comes from here: nothing is inline but what Swagger UI puts into the page
 * itself, and no other host is ever asked.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Icons of Swagger UI's style sheet, and pictures that were just made.
  "img-src 'self' data: blob:",
  'media-src data: blob:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Relative, so that the page works below a path of a proxy, too. */
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Larkway API reference</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/tokens.css">
<link rel="stylesheet" href="docs/page.css">
<script src="docs/theme.js"></script>
</head>
<body>
<header class="top">
<p class="top-name">Larkway <span>API reference</span></p>
<nav aria-label="Larkway"><a href="console">Console</a> <a href="openapi.json">openapi.json</a></nav>
</header>
<main id="reference"></main>
<noscript>This page needs JavaScript. The same as JSON: <a href="openapi.json">openapi.json</a></noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`

/**
 * Keys stay in the memory of the page, and go with it. Without a `validatorUrl` of null Swagger UI would send the
 * document to a service of its makers. The plugins have forms begin empty, where Swagger UI would make up a value for
 * every optional field, and send it; draw no link within a button, and no main part
 * within that of the page. A field that is left empty is no part of the request, nor of the command that is shown for
 * it. Swagger UI skips levels of headings: they are put right as it draws.
 */
const START = `const withoutEmpty = (request) => {
  if (!(request.body instanceof FormData)) return request
  for (const name of new Set(request.body.keys()))
    if (request.body.getAll(name).every((value) => value === '')) request.body.delete(name)
  return request
}
const LEVELS = [['h3.opblock-tag, .webhooks h2, section.models h4', 2], ['.opblock h4', 3], ['.opblock h5', 4]]
const NAMES = [
  ['#operations', 'Operations'],
  ['select:not([id])', 'Content type'],
  ['textarea', 'Request body'],
  ['table.parameters', 'Parameters'],
  ['.opblock-section-request-body table', 'Fields of the body'],
  ['table.responses-table', 'Responses'],
  ['table.headers', 'Headers'],
  ['table', 'Details'],
  ['.auth-container input', 'API key'],
  ['.opblock input', 'Value'],
]
const level = () => {
  for (const [selector, value] of LEVELS)
    for (const heading of document.querySelectorAll(selector)) heading.setAttribute('aria-level', value)
  for (const [selector, name] of NAMES)
    for (const part of document.querySelectorAll(selector)) part.ariaLabel ??= name
  for (const code of document.querySelectorAll('.microlight')) code.tabIndex = 0
}
// The layout of Swagger UI has a main part of its own, which the page's cannot hold.
const reference = (React) => ({ getComponent, specSelectors }) => {
  const draw = (name) => React.createElement(getComponent(name, true))
  if (specSelectors.loadingStatus() !== 'success') return draw('BaseLayout')
  const within = (className, ...names) => React.createElement('div', { className }, ...names.map(draw))
  const authorize = within('schemes wrapper', 'AuthorizeBtnContainer')
  const schemes = React.createElement('div', { className: 'scheme-container' }, authorize)
  return React.createElement('div', { className: 'swagger-ui' },
    draw('SvgAssets'), draw('errors'), within('information-container wrapper', 'InfoContainer'), schemes,
    React.createElement('div', { id: 'operations', role: 'group', tabIndex: -1 },
      within('wrapper', 'operations'), within('webhooks-container wrapper', 'Webhooks'), within('wrapper', 'Models')))
}
new MutationObserver(level).observe(document.getElementById('reference'), { childList: true, subtree: true })
SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#reference',
  validatorUrl: null,
  persistAuthorization: false,
  deepLinking: true,
  displayRequestDuration: true,
  layout: 'Reference',
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  defaultModelRendering: 'example',
  syntaxHighlight: false,
  requestInterceptor: withoutEmpty,
  plugins: [
    ({ React }) => ({
      wrapComponents: { DeepLink: () => ({ text }) => React.createElement('span', null, text) },
      components: { Reference: reference(React) },
    }),
    () => ({
      afterLoad() {
        const sampleOf = this.fn.getSampleSchema
        this.fn.getSampleSchema = (schema, type, ...more) => {
          if (type !== false) return sampleOf(schema, type, ...more)
          return (schema.get ? schema.get('type') : schema.type) === 'array' ? '[]' : ''
        }
      },
    }),
  ],
})
`

const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'

/** GET /docs */
export const PAGE_ASSET: Asset = {
  type: 'text/html; charset=utf-8',
  load: async () => PAGE,
  headers: {
    'content-security-policy': POLICY,
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
  },
}

/** Files of the page by name, beside `tokens.css` and `theme.js`, which whoever serves it brings. */
export const PAGE_FILES: Readonly<Record<string, Asset>> = {
  'swagger-ui.css': { type: STYLE, load: () => ofSwaggerUi('swagger-ui.css') },
  'swagger-ui-bundle.js': { type: SCRIPT, load: () => ofSwaggerUi('swagger-ui-bundle.js') },
  'page.css': { type: STYLE, load: () => readFile(new URL('page.css', import.meta.url)) },
  'start.js': { type: SCRIPT, load: async () => START },
}

/**
 * A file of the package `swagger-ui-dist`. Its one dependency, `@scarf/scarf`, is a script that would report the
 * installation to its makers: install scripts are off in `scripts/install.mjs` and in the Dockerfile, `package.json`
 * switches it off by name for whoever installs by hand, and nothing here ever loads it.
 */
function ofSwaggerUi(name: string): Promise<Uint8Array> {
  return readFile(new URL(name, import.meta.resolve('swagger-ui-dist/package.json')))
}
