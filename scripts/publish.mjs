// Builds the image, pushes it, and signs it with its bill of materials, for whoever has a registry:
// `node scripts/publish.mjs registry.example.com/larkway:0.1.0`, with another base than that of the Dockerfile by
// `--base node:22-trixie-slim@sha256:…`. What comes after `--` goes to cosign, such as `--key`. Docker (with Buildx) or
// Podman, and cosign. A commit makes the same layers each time. Plain JavaScript for Node 18 and newer.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, main, onPath, ROOT, say, Unusable } from './install.mjs'

const run = (command, args) => capture(command, args, { cwd: ROOT })

/** The digest of what was pushed. Times of files are those of the commit, so that a layer depends on it alone. */
const PUSHES = {
  async docker({ image, base, seconds, folder }) {
    const metadata = join(folder, 'metadata.json')
    const output = `type=image,name=${image},push=true,rewrite-timestamp=true`
    const made = [...base, '--build-arg', `SOURCE_DATE_EPOCH=${seconds}`]
    // Buildx would add a statement of how it was built, with the time, which makes each digest another.
    const args = ['--provenance=false', '--output', output, '--metadata-file', metadata, ...made]
    await run('docker', ['buildx', 'build', ...args, '.'])
    return JSON.parse(readFileSync(metadata, 'utf8'))['containerimage.digest']
  },
  async podman({ image, base, seconds, folder }) {
    const digest = join(folder, 'digest')
    // The one form of an image that keeps a health check.
    const made = ['--format', 'docker', '--timestamp', seconds, ...base]
    await run('podman', ['build', ...made, '--tag', image, '.'])
    await run('podman', ['push', '--digestfile', digest, image])
    return readFileSync(digest, 'utf8').trim()
  },
}

async function copyBill(engine, image, path) {
  const container = (await run(engine, ['create', image])).trim()
  await run(engine, ['cp', `${container}:/larkway/sbom.json`, path])
  await run(engine, ['rm', container])
}

async function publish() {
  const options = { base: { type: 'string' }, engine: { type: 'string' } }
  const { values, positionals, tokens } = parseArgs({ options, allowPositionals: true, tokens: true })
  const [image, ...forCosign] = positionals
  const end = tokens.find(({ kind }) => kind === 'option-terminator')
  if (image === undefined || (forCosign.length > 0 && end === undefined))
    throw new Unusable('publish takes the name of an image with its registry and tag')
  if (values.base !== undefined && !/@sha256:[0-9a-f]{64}$/.test(values.base))
    throw new Unusable('publish takes --base with a digest, such as node:22-trixie-slim@sha256:…')
  const base = values.base === undefined ? [] : ['--build-arg', `BASE=${values.base}`]
  const engine = values.engine ?? (onPath('docker') === undefined ? 'podman' : 'docker')
  if (!Object.hasOwn(PUSHES, engine)) throw new Unusable('--engine is docker or podman')
  const missing = [engine, 'cosign'].find((program) => onPath(program) === undefined)
  if (missing !== undefined) throw new Unusable(`there is no ${missing}`)
  if ((await run('git', ['status', '--porcelain'])) !== '')
    throw new Unusable('the checkout has changes that no commit has')
  const seconds = (await run('git', ['log', '-1', '--format=%ct'])).trim()
  const folder = mkdtempSync(join(tmpdir(), 'larkway-publish-'))
  try {
    const digest = await PUSHES[engine]({ image, base, seconds, folder })
    const pushed = `${image.replace(/:[^:/]*$/, '')}@${digest}`
    const bill = join(folder, 'sbom.json')
    // Docker has pushed it without keeping it, and fetches it by its digest.
    await copyBill(engine, engine === 'docker' ? pushed : image, bill)
    await run('cosign', ['sign', '--yes', ...forCosign, pushed])
    await run('cosign', ['attest', '--yes', '--type', 'cyclonedx', '--predicate', bill, ...forCosign, pushed])
    say(`published and signed ${pushed}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

await main(publish)
