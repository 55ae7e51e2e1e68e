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
<title>Larkway: reference</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<div id="reference"></div>
<noscript>The reference is drawn by a script. The same in JSON: <a href="openapi.json">openapi.json</a></noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`

/**
 * Keys stay in the memory of the page, and go with it. Without a `validatorUrl` of null Swagger UI would send the
 * document to a service of its makers. The plugin has forms begin empty, where Swagger UI would make up a value for
 * every optional field, and send it.
 */
const START = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#reference',
  validatorUrl: null,
  persistAuthorization: false,
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  defaultModelRendering: 'example',
  syntaxHighlight: { theme: 'idea' },
  plugins: [
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

/** What the page asks for, by name: no other file can be had. */
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
