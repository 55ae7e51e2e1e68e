import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'tap'
import { ROOT } from '../../scripts/install.mjs'

const MIB = 1024 ** 2
/** That of the image has `npm sbom`; one that comes with an old Node may not. */
const withoutSbom =
  spawnSync('npm', ['sbom', '--help']).status === 0 ? false : 'this npm makes no bill of materials'
/** Without DuckDB and the native server, which differ by platform. */
const REST_MIB_MAX = 25

function gathered(t) {
  const folder = mkdtempSync(join(tmpdir(), 'larkway-gather-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const image = join(folder, 'image')
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts/gather.mjs'), image])
  if (status !== 0) throw new Error(String(stderr))
  return image
}

/** Every file with its size and its hash. */
function filesIn(folder) {
  return readdirSync(folder, { recursive: true })
    .map(String)
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort()
    .map((path) => {
      const bytes = readFileSync(join(folder, path))
      return { path, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
    })
}

/** The uWebSockets.js of an image needs the glibc of an image; on an older machine the other build stands in. */
function fitted(image) {
  for (const name of readdirSync(join(ROOT, 'node_modules')).filter((one) =>
    /^(uWebSockets\.js|@uwsjs)/.test(one),
  ))
    cpSync(join(ROOT, 'node_modules', name), join(image, 'node_modules', name), { recursive: true })
}

async function served(t, image) {
  const env = {
    PATH: process.env.PATH,
    PORT: '0',
    LARKWAY_DATA: join(image, 'data'),
    LARKWAY_DRAIN_SECONDS: '0',
  }
  const child = spawn(process.execPath, ['compiled/main.js'], {
    cwd: image,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  for await (const line of createInterface({ input: child.stdout }))
    if (line.includes('"msg":"listening"')) {
      child.stdout.resume()
      return JSON.parse(line).port
    }
  throw new Error('it does not serve')
}

test('an image has what runs, says what that is, and is the same each time', {
  skip: withoutSbom,
  timeout: 240_000,
}, async (t) => {
  const image = gathered(t)
  const files = filesIn(image)
  t.same(files, filesIn(gathered(t)), 'two are the same, file by file')
  const kept = files.filter(({ path, bytes }) => path === 'compiled/program.v8' && bytes > MIB)
  t.equal(kept.length, 1, "V8's code cache is there")
  const platform = /^node_modules\/@(duckdb|uwsjs)\//
  const rest = files.filter(({ path }) => !platform.test(path)).reduce((sum, { bytes }) => sum + bytes, 0)
  t.ok(rest / MIB < REST_MIB_MAX, `${(rest / MIB).toFixed(1)} MiB beside DuckDB and the native server`)
  t.comment(
    `${files.length} files, ${Math.round(files.reduce((sum, { bytes }) => sum + bytes, 0) / MIB)} MiB`,
  )
  t.notOk(
    files.some(({ path }) =>
      /node_modules\/(esbuild|typescript|@aws-sdk|uWebSockets\.js-glibc227)\//.test(path),
    ),
  )

  const { components, serialNumber } = JSON.parse(readFileSync(join(image, 'sbom.json'), 'utf8'))
  const named = new Set(components.map(({ group, name }) => (group ? `${group}/${name}` : name)))
  for (const name of Object.keys(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).dependencies))
    t.ok(named.has(name) || name.startsWith('uWebSockets.js'), `${name} is in the bill of materials`)
  t.equal(serialNumber, undefined)
  const licences = readFileSync(join(image, 'LICENCES.txt'), 'utf8')
  for (const name of ['ioredis', '@aws-sdk/client-s3', 'pino']) t.match(licences, `\n${name} `)

  fitted(image)
  const port = await served(t, image)
  const origin = `http://127.0.0.1:${port}`
  for (const path of ['/readyz', '/console', '/docs', '/docs/swagger-ui.css', '/openapi.json']) {
    const response = await fetch(origin + path)
    t.equal(response.status, 200, path)
    await response.arrayBuffer()
  }
  const page = await (await fetch(`${origin}/console`)).text()
  for (const [, path] of page.matchAll(/"(\/console\/assets\/[^"]+)"/g))
    t.equal((await fetch(origin + path)).status, 200, path)
  const key = readFileSync(join(image, 'data', 'demo-key'), 'utf8').trim()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  for (const format of ['mp3', 'opus']) {
    const body = JSON.stringify({ input: 'sos', response_format: format })
    const response = await fetch(`${origin}/v1/speech`, { method: 'POST', headers, body })
    t.equal(response.status, 200, `${format}, by WebAssembly in a thread`)
    await response.arrayBuffer()
  }
  const usage = await fetch(`${origin}/v1/usage?by=model`, { headers })
  t.equal(usage.status, 200, 'DuckDB answers')
  await usage.arrayBuffer()

  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
  const [, command] = /HEALTHCHECK[^[]+CMD (\[.*\])/.exec(dockerfile)
  const [program, ...args] = JSON.parse(command)
  const looks = (asked) =>
    spawnSync(program, args, { env: { ...process.env, PORT: String(asked) }, timeout: 5_000 }).status
  t.equal(looks(port), 0, 'it is healthy')
  t.not(looks(1), 0, 'where nothing listens, it is not')
})

test('what the Dockerfile copies is not kept from it', async (t) => {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
  const allowed = readFileSync(join(ROOT, '.dockerignore'), 'utf8')
    .match(/^!(.+)$/gm)
    .map((line) => line.slice(1))
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*)$/gm)].flatMap(([, line]) =>
    line.split(' ').slice(0, -1),
  )
  t.ok(copied.length > 5)
  for (const path of copied) {
    t.ok(existsSync(join(ROOT, path)), path)
    t.ok(allowed.includes(path), `${path} is in the context`)
  }
  const scripts = copied.filter((path) => path.startsWith('scripts/'))
  t.ok(scripts.length > 3)
  for (const path of scripts)
    for (const [, name] of readFileSync(join(ROOT, path), 'utf8').matchAll(/^import .* from '\.\/(.+)'$/gm))
      t.ok(scripts.includes(`scripts/${name}`), `${path} finds ${name}`)
})
