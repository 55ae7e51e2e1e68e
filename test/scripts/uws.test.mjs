import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ROOT } from '../../scripts/install.mjs'
import { compareWithUpstream, installedBuilds, requireKnownBuilds } from '../../scripts/uws.mjs'

const NOWHERE = 'http://127.0.0.1:9'

/** A folder with one installed build. */
function folderWith(t, target, version, bytes) {
  const root = mkdtempSync(join(tmpdir(), 'larkway-uws-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  const folder = join(root, 'node_modules', '@uwsjs', target)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ version }))
  writeFileSync(join(folder, 'uws.node'), bytes)
  return root
}

/** Upstream's releases: path → file. */
async function startUpstream(t, files) {
  const asked = []
  const server = createServer((request, response) => {
    asked.push(request.url)
    const file = files[request.url]
    response.writeHead(file === undefined ? 404 : 200).end(file)
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  return { upstream: `http://127.0.0.1:${server.address().port}`, asked }
}

t.test('the builds that are installed here are known, without asking anybody', async (t) => {
  t.ok(installedBuilds().length > 0)
  await requireKnownBuilds({ upstream: NOWHERE })
})

t.test('a build that was changed is refused, and one that is not known, too', async (t) => {
  const changed = folderWith(t, 'linux-x64-22', '20.69.0', 'another parser')
  const env = { LARKWAY_UWS_UNKNOWN: '1' }
  const refusal = /is not the known [0-9a-f]{64}: remove node_modules/
  await t.rejects(requireKnownBuilds({ root: changed, upstream: NOWHERE, env }), { message: refusal })
  const unknown = folderWith(t, 'linux-arm64-22', '20.69.0', 'a parser')
  const unreachable = /could not be compared with\s+upstream's release: .* LARKWAY_UWS_UNKNOWN=1/
  await t.rejects(requireKnownBuilds({ root: unknown, upstream: NOWHERE, env: {} }), { message: unreachable })
  await requireKnownBuilds({ root: unknown, upstream: NOWHERE, env })
})

t.test('a build that is not known is compared with upstream once', async (t) => {
  const { upstream, asked } = await startUpstream(t, { '/v20.69.0/uws_linux_arm64_127.node': 'a parser' })
  const root = folderWith(t, 'linux-arm64-22', '20.69.0', 'a parser')
  await requireKnownBuilds({ root, upstream, env: {} })
  await requireKnownBuilds({ root, upstream, env: {} })
  t.equal(asked.length, 1)
  const other = folderWith(t, 'linux-arm64-22', '20.69.0', 'another parser')
  await t.rejects(requireKnownBuilds({ root: other, upstream, env: {} }), { message: /is not upstream's/ })
})

t.test("upstream's file takes the place of the installed one, and is known from then on", async (t) => {
  const { upstream } = await startUpstream(t, { '/v20.51.0/uws_linux_x64_127.node': "upstream's parser" })
  const root = folderWith(t, 'linux-x64-22', '20.51.4', 'a parser')
  t.equal(await compareWithUpstream({ root, upstream }), 1)
  t.equal(await compareWithUpstream({ root, upstream, install: true }), 0)
  const [build] = installedBuilds(root)
  t.equal(build.sha256, createHash('sha256').update("upstream's parser").digest('hex'))
  await requireKnownBuilds({ root, upstream: NOWHERE, env: {} })
})

t.test('the image looks at its builds before it has them', (t) => {
  const image = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
  t.match(image, /^RUN node scripts\/uws\.mjs && /m)
  t.match(image, /^ARG BASE=node:22\.\d+\.\d+-trixie-slim@sha256:[0-9a-f]{64}$/m)
  t.same(
    [...image.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base),
    Array(2).fill(`\${BASE}`),
  )
  const root = mkdtempSync(join(tmpdir(), 'larkway-uws-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  for (const name of ['install.mjs', 'uws.mjs']) {
    t.match(image, new RegExp(`^COPY .*scripts/${name}`, 'm'), 'with all that it imports')
    cpSync(join(ROOT, 'scripts', name), join(root, 'scripts', name))
  }
  t.end()
})
