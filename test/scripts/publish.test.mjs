import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { ROOT } from '../../scripts/install.mjs'

const BASE = `node:22-trixie-slim@sha256:${'a'.repeat(64)}`
const DIGEST = `sha256:${'b'.repeat(64)}`
/** Programs of their names that write down what they are asked, and answer as the real ones. */
const PROGRAM = `#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
while [ $# -gt 0 ]; do
  case $1 in
    create) echo container ;;
    cp) echo '{}' > "$3" ;;
    --digestfile) printf ${DIGEST} > "$2" ;;
    --metadata-file) printf '{"containerimage.digest":"${DIGEST}"}' > "$2" ;;
  esac
  shift
done
`

function checkout(t) {
  const folder = t.testdir({ bin: {}, scripts: {}, calls: '' })
  for (const name of ['publish.mjs', 'install.mjs'])
    cpSync(join(ROOT, 'scripts', name), join(folder, 'scripts', name))
  for (const name of ['docker', 'podman', 'cosign']) {
    writeFileSync(join(folder, 'bin', name), PROGRAM)
    chmodSync(join(folder, 'bin', name), 0o755)
  }
  writeFileSync(join(folder, '.gitignore'), 'bin\ncalls\n')
  const author = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false']
  for (const args of [
    ['init', '-q'],
    ['add', '-A'],
    [...author, 'commit', '-qm', 'All'],
  ])
    if (spawnSync('git', args, { cwd: folder }).status !== 0) throw new Error(`git ${args.join(' ')}`)
  return folder
}

function published(folder, ...args) {
  const CALLS = join(folder, 'calls')
  writeFileSync(CALLS, '')
  const PATH = `${join(folder, 'bin')}:${process.env.PATH}`
  const { status, stderr } = spawnSync(process.execPath, [join(folder, 'scripts/publish.mjs'), ...args], {
    env: { ...process.env, PATH, CALLS },
  })
  return { status, told: String(stderr), calls: readFileSync(CALLS, 'utf8').trim().split('\n') }
}

test('an image is signed by the digest that was pushed, with its bill of materials', async (t) => {
  const folder = checkout(t)
  for (const engine of ['docker', 'podman']) {
    const base = engine === 'docker' ? ['--base', BASE] : []
    const args = ['localhost:5000/larkway:1.2', ...base, '--engine', engine, '--', '--key', 'a.key']
    const { status, told, calls } = published(folder, ...args)
    t.equal(status, 0, told)
    t.match(told, `published and signed localhost:5000/larkway@${DIGEST}`)
    t.equal(calls[0].includes(`--build-arg BASE=${BASE}`), engine === 'docker', 'else that of the Dockerfile')
    t.same(new Set(calls.map((call) => call.split(' ')[0])), new Set([engine, 'cosign']))
    const signed = calls.slice(-2)
    t.match(signed[0], `cosign sign --yes --key a.key localhost:5000/larkway@${DIGEST}`)
    t.match(
      signed[1],
      /^cosign attest --yes --type cyclonedx --predicate \S+\/sbom.json --key a.key localhost/,
    )
    t.ok(signed[1].endsWith(DIGEST))
  }
})

test('a base that can change, changes that no commit has, and half a command are refused', async (t) => {
  const folder = checkout(t)
  const image = 'registry.example.com/larkway:1.2'
  const refused = (message, ...args) => {
    const { status, told, calls } = published(folder, ...args)
    t.equal(status, 1)
    t.match(told, message)
    t.same(calls, [''], 'nothing is built')
  }
  refused('--base with a digest', image, '--base', 'node:22')
  refused('name of an image', '--base', BASE)
  refused('name of an image', image, 'another', '--base', BASE)
  refused('docker or podman', image, '--base', BASE, '--engine', 'buildah')
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'src', 'a.ts'), '')
  refused('no commit has', image, '--base', BASE)
})
