import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { type ConsoleNode, startConsoleNode } from '../support/console-node.ts'

const PAGE = new URL('../../src/console/page/', import.meta.url)
const FIRST_LOAD_MAX = 100_000

let node: ConsoleNode
/** Path below `/console/assets/` → what is served there. */
const assets = new Map<string, string>()

const fetchAt = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${node.url}${path}`, { headers: { 'accept-encoding': 'identity', ...headers } })

t.before(async () => {
  node = await startConsoleNode(t)
  for (const name of readdirSync(PAGE, { recursive: true, encoding: 'utf8' }))
    if (/\.(ts|css)$/.test(name)) assets.set(name, await (await fetchAt(`/console/assets/${name}`)).text())
})

t.test('the page is the same under every path, and lets nothing in from elsewhere', async (t) => {
  const first = await fetchAt('/console')
  const html = await first.text()
  t.equal(first.status, 200)
  for (const path of [
    '/console/',
    '/console/acme/routes/acme.voice',
    '/console/~assets/keys',
    '/console/assetsx',
  ])
    t.equal(await (await fetchAt(path)).text(), html, path)

  const [, map = ''] = /<script type="importmap">(.*?)<\/script>/.exec(html) ?? []
  const policy = first.headers.get('content-security-policy') ?? ''
  const directives = Object.fromEntries(
    policy.split('; ').map((one) => [one.split(' ')[0], one.replace(/^\S+ /, '')]),
  )
  t.same(directives, {
    'default-src': "'none'",
    'script-src': `'self' 'sha256-${hash('sha256', map, 'base64')}'`,
    'style-src': "'self'",
    'img-src': "'self' data: blob:",
    'media-src': "'self' blob: data:",
    'connect-src': "'self'",
    'font-src': "'self'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  })
  t.match(Object.fromEntries(first.headers), {
    'content-type': 'text/html; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'permissions-policy': 'microphone=(self), camera=(), geolocation=()',
    'cache-control': 'no-cache',
  })
  const scripts = [...html.matchAll(/<script\b([^>]*)>(.*?)<\/script>/gs)]
  t.same(scripts.filter(([, , text]) => text !== '').length, 1, 'one script is in the page itself')
  t.notMatch(html, /<style|\sstyle=|\son\w+=|https?:\/\//, 'no style, handler or address of another host')
  t.ok(
    html.indexOf('importmap') < html.indexOf('modulepreload'),
    'names are known before modules are asked for',
  )
})

t.test('everything that the page names is there, and its first load is small', async (t) => {
  const html = await (await fetchAt('/console')).text()
  const named = [...html.matchAll(/(?:href|src)="(\/[^"]+)"/g)].map(([, path = '']) => path)
  t.ok(named.some((path) => path.endsWith('/main.ts')) && named.some((path) => path.endsWith('.css')))
  t.equal(
    new Set(named.filter((path) => !path.endsWith('/main.ts'))).size,
    named.filter((path) => !path.endsWith('/main.ts')).length,
    'each once',
  )
  let bytes = 0
  for (const path of new Set(['/console', ...named])) {
    const { body, headers, status } = await zipped(path)
    t.equal(status, 200, path)
    t.equal(headers.get('content-encoding'), 'gzip')
    bytes += body.length
  }
  t.comment(`${named.length} files, ${bytes} bytes compressed`)
  t.ok(bytes < FIRST_LOAD_MAX, `${bytes} bytes compressed`)
  t.notOk(
    named.some((path) => path.includes('uplot')),
    'charts are loaded where they are drawn',
  )
})

/** As it comes over the wire. */
async function zipped(path: string) {
  const { request } = await import('undici')
  const { statusCode, headers, body } = await request(`${node.url}${path}`, {
    headers: { 'accept-encoding': 'gzip' },
  })
  const known = new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  return { status: statusCode, headers: known, body: Buffer.from(await body.arrayBuffer()) }
}

const DYNAMIC_IMPORT = /\bimport\(\s*'([^'\n]+)'\s*\)/g

t.test('every module is JavaScript, and what it imports is there', async (t) => {
  const html = await (await fetchAt('/console')).text()
  const [, map = '{}'] = /<script type="importmap">(.*?)<\/script>/.exec(html) ?? []
  const { imports } = JSON.parse(map) as { imports: Record<string, string> }
  const modules = new Map([...assets].filter(([name]) => name.endsWith('.ts')))
  for (const [name, path] of Object.entries(imports)) {
    const answer = await fetchAt(path)
    t.equal(answer.status, 200, name)
    modules.set(path.replace('/console/assets/', ''), await answer.text())
  }
  t.ok(modules.size > 20)
  const parsed = parse(modules)
  t.same(parsed.faults, [], 'syntax')
  const lost = [...modules].flatMap(([name, text]) => {
    const later = [...text.matchAll(DYNAMIC_IMPORT)].map(([, specifier = '']) => specifier)
    return [...(parsed.imports[name] ?? []), ...later].flatMap((specifier) => {
      const isNamed = specifier in imports || specifier.startsWith('.')
      const path = imports[specifier] ?? new URL(specifier, `${node.url}/console/assets/${name}`).pathname
      return isNamed && modules.has(path.replace('/console/assets/', '')) ? [] : [`${name}: ${specifier}`]
    })
  })
  t.same(lost, [], 'imports')
  for (const [name, text] of modules) t.notMatch(text, /^\/\/# sourceMappingURL/m, name)
})

interface Parsed {
  readonly faults: readonly string[]
  /** By module: what it imports from the start. */
  readonly imports: Readonly<Record<string, readonly string[]>>
}

/** Faults that Node finds in texts as modules. */
function parse(modules: ReadonlyMap<string, string>): Parsed {
  const program = `
    import { SourceTextModule } from 'node:vm'
    import { readFileSync } from 'node:fs'
    const faults = []
    const imports = {}
    for (const [name, text] of JSON.parse(readFileSync(0, 'utf8')))
      try {
        imports[name] = new SourceTextModule(text).dependencySpecifiers
      } catch (error) {
        faults.push(name + ': ' + error.message)
      }
    process.stdout.write(JSON.stringify({ faults, imports }))`
  const flags = ['--experimental-vm-modules', '--no-warnings', '--input-type=module', '-e', program]
  const { stdout } = spawnSync(process.execPath, flags, {
    input: JSON.stringify([...modules]),
    encoding: 'utf8',
  })
  return JSON.parse(stdout) as Parsed
}

t.test('types are taken away in place, and files are tagged and compressed', async (t) => {
  const plain = await fetchAt('/console/assets/api.ts')
  t.equal(plain.headers.get('content-type'), 'text/javascript')
  const text = await plain.text()
  t.match(text, /\bcredentials: 'same-origin'/)
  t.notMatch(text, /: RequestInit|import type|<Answer>/)
  const { body, headers } = await zipped('/console/assets/api.ts')
  t.equal(gunzipSync(body).toString(), text)
  const etag = headers.get('etag') ?? ''
  const again = await fetchAt('/console/assets/api.ts', { 'accept-encoding': 'gzip', 'if-none-match': etag })
  t.equal(again.status, 304)
  t.equal((await fetchAt('/console/assets/style/tokens.css')).headers.get('content-type'), 'text/css')
  const head = await fetch(`${node.url}/console`, { method: 'HEAD' })
  t.same([head.status, await head.text()], [200, ''])
})

t.test('nothing but the page can be had', async (t) => {
  const tricks = [
    ...['', 'tsconfig.json', 'style', 'main.js', 'Main.ts', 'main.ts/', '/main.ts', './main.ts'],
    ...['style/../main.ts', '..%2fsession.ts', '%2e%2e/session.ts', '..%2f..%2f..%2fmain.ts'],
    ...['%252e%252e%252fsession.ts', 'vendor/preact', 'vendor/../../session.ts', 'vendor/undici.js'],
    ...['main.ts%00.css', 'toString', '__proto__', '..\\session.ts'],
  ]
  for (const trick of tricks) {
    const answer = await rawGet(`/console/assets/${trick}`)
    t.match(answer, /^HTTP\/1\.1 404 [\s\S]*"NOT_FOUND"/, trick)
  }
  t.equal((await fetch(`${node.url}/console/assets/main.ts`, { method: 'POST' })).status, 405)
})

/** As it is written: `fetch` would tidy the path up. */
async function rawGet(path: string): Promise<string> {
  const { connect } = await import('node:net')
  return new Promise((resolve, reject) => {
    const socket = connect(node.port, '127.0.0.1', () =>
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`),
    )
    let text = ''
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part
      if (text.includes('"details"')) socket.destroy()
    })
    socket.on('close', () => resolve(text)).on('error', reject)
  })
}

t.test('Node does not warn of its stripping of types, and still warns of all else', async (t) => {
  const module = new URL('../../src/console/server/page-assets.ts', import.meta.url)
  const isPrintedAnew = parseInt(process.versions.node, 10) < 26
  const program = `
    const { stripTypes } = await import(${JSON.stringify(module)})
    const expected = '${isPrintedAnew ? 'const a = 1;' : 'const a         = 1 // so'}'
    if (stripTypes('const a: number = 1 // so').trim() !== expected) throw new Error('types are left')
    process.emitWarning('of something else', 'ExperimentalWarning')
    try { stripTypes('enum A { B }') } catch { process.stdout.write('refused') }`
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    cwd: fileURLToPath(PAGE),
    env: { ...process.env, NODE_OPTIONS: '' }, // tap silences warnings from Node 26 on
  })
  t.equal(child.stdout, 'refused')
  t.notMatch(child.stderr, /stripTypeScriptTypes/)
  t.match(child.stderr, /ExperimentalWarning: of something else/)
})

t.test('files whose address has the hash of all of them are kept for good', async (t) => {
  const html = await (await fetchAt('/console')).text()
  const [, root = ''] = /src="(\/console\/assets\/[0-9a-f]{12})\/main\.ts"/.exec(html) ?? []
  for (const [, address = ''] of html.matchAll(/(?:src|href)="(\/[^"]+)"/g)) t.match(address, root, address)
  const fresh = await fetchAt(`${root}/main.ts`)
  t.match(fresh.headers.get('cache-control'), /max-age=31536000, immutable/)
  const old = await fetchAt('/console/assets/0123456789ab/main.ts')
  t.equal(old.status, 200, 'a page from before an upgrade still works')
  t.equal(old.headers.get('cache-control'), 'no-store', 'and keeps nothing of what is not its own')
  t.equal(await old.text(), await fresh.text())
  t.equal((await fetchAt(`${root}/nothing.ts`)).status, 404)
})
