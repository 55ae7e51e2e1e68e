// The native builds of uWebSockets.js, by their hash. They come from npm, in packages that one person makes of
// upstream's releases (@uwsjs/*); a build whose hash is not known is not run. Plain JavaScript for Node 18 and newer.
//
// node scripts/uws.mjs                        says what is installed, and fails where a hash is not the known one
// node scripts/uws.mjs --upstream             compares what is installed with the files of upstream's own releases
// node scripts/uws.mjs --upstream --install   takes upstream's files in place of what is installed, and pins them

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { main, ROOT, say, Unusable } from './install.mjs'

/** Where upstream's releases are: a folder for each tag. */
const UPSTREAM = 'https://raw.githubusercontent.com/uNetworking/uWebSockets.js'

/** Version of a package → tag of upstream's release, and SHA-256 of its `uws.node` by system, CPU and Node. */
const RELEASES = {
  '20.69.0': {
    tag: 'v20.69.0',
    sha256: {
      'linux-x64-22': '34d235864db874fbf3aeafd48b63f6fb80f61fb584a86f1e5f7b0291dbd7a3d4',
      'linux-x64-24': '177efdc682425d754474bd30f9586c487fa6694f790f3406a23885d0e61c07a0',
      'linux-x64-26': '604375741bf77780b34e7e299af9274cb1f56d73732201d19e3d8d8448176795',
    },
  },
  '20.51.4': {
    tag: 'v20.51.0',
    sha256: { 'linux-x64-22': 'f687e7c3666b5cca9d355184bbf07bb0550f5ba0d3ffd453248ccfec552dde6c' },
  },
}

/** Node's ABI, which upstream names its files by. */
const ABI = { 20: 115, 22: 127, 23: 131, 24: 137, 26: 147 }

const SCOPE = '@uwsjs'

/**
 * Lists the builds that are installed below a folder.
 *
 * @returns `[{ path, target, version, sha256 }]`; `target` is system, CPU and Node: `linux-x64-22`
 */
export function installedBuilds(root = ROOT) {
  const packages = join(root, 'node_modules')
  const nested = ['uWebSockets.js', 'uWebSockets.js-glibc227'].map((name) =>
    join(packages, name, 'node_modules'),
  )
  return [packages, ...nested]
    .map((folder) => join(folder, SCOPE))
    .filter((scope) => existsSync(scope))
    .flatMap((scope) => readdirSync(scope).map((target) => ({ target, folder: join(scope, target) })))
    .map(({ target, folder }) => ({ target, folder, path: join(folder, 'uws.node') }))
    .filter(({ path }) => existsSync(path))
    .map(({ target, folder, path }) => {
      const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      return { path, target, version, sha256: sha256Of(readFileSync(path)) }
    })
}

/** The hash that a build has to have; undefined where it is not known. Those that were compared here count too. */
function knownHash({ target, version }, root) {
  return readPins(root)[`${target}@${version}`] ?? RELEASES[version]?.sha256[target]
}

/**
 * Requires that each installed build is a known one. One whose hash this version does not have (Linux on arm64, macOS)
 * is compared with upstream's release once.
 *
 * @throws Unusable for a build with another hash, and for one that could not be compared, unless LARKWAY_UWS_UNKNOWN
 *         is 1
 */
export async function requireKnownBuilds({ root = ROOT, upstream = UPSTREAM, env = process.env } = {}) {
  for (const build of installedBuilds(root)) {
    const known = knownHash(build, root)
    if (known === build.sha256) continue
    if (known !== undefined) throw new Unusable(`${describe(build)} is not the known ${known}: ${AGAIN}`)
    if (env.LARKWAY_UWS_UNKNOWN === '1') {
      say(`${describe(build)} is not known, and runs because LARKWAY_UWS_UNKNOWN is 1`)
      continue
    }
    const released = await fetchUpstream(build, upstream).catch((error) => {
      throw new Unusable(`${describe(build)} is not known to this version, and could not be compared with
  upstream's release: ${error.message}. LARKWAY_UWS_UNKNOWN=1 runs it all the same`)
    })
    if (sha256Of(released) !== build.sha256)
      throw new Unusable(`${describe(build)} is not upstream's ${sha256Of(released)}: ${AGAIN}`)
    pin(build, root)
  }
}

const AGAIN = 'remove node_modules and start again, or run node scripts/uws.mjs --upstream --install'

/** @throws Error when the release does not have it, or is out of reach */
async function fetchUpstream({ target, version }, upstream) {
  const [system, cpu, node] = target.split('-')
  const tag = RELEASES[version]?.tag ?? `v${version}`
  const url = `${upstream}/${tag}/uws_${system}_${cpu}_${ABI[node]}.node`
  const response = await fetch(url).catch((error) => {
    throw new Error(`${url} is out of reach (${error.cause?.code ?? error.message})`)
  })
  if (!response.ok) throw new Error(`${url} answers ${response.status}`)
  return Buffer.from(await response.arrayBuffer())
}

/** Compares each installed build with upstream's release, and puts upstream's in its place where `install` is set. */
export async function compareWithUpstream({ root = ROOT, upstream = UPSTREAM, install = false } = {}) {
  let differ = 0
  for (const build of installedBuilds(root)) {
    const released = await fetchUpstream(build, upstream)
    const sha256 = sha256Of(released)
    if (sha256 === build.sha256) console.log(`${describe(build)}: upstream's own`)
    else if (install) {
      // In a new file: the installed one may be in use, or linked to from elsewhere.
      rmSync(build.path)
      writeFileSync(build.path, released)
      pin({ ...build, sha256 }, root)
      console.log(`${describe(build)}: replaced by upstream's ${sha256}`)
    } else {
      differ += 1
      console.log(`${describe(build)}: upstream's is ${sha256}`)
    }
  }
  return differ
}

function describe({ target, version, sha256 }) {
  return `uWebSockets.js ${version} for ${target}, ${sha256},`
}

function sha256Of(bytes) {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Where hashes are that were compared on this machine; git-ignored. */
const pinsOf = (root) => join(root, '.larkway', 'uws-hashes.json')

function readPins(root) {
  try {
    return JSON.parse(readFileSync(pinsOf(root), 'utf8'))
  } catch {
    return {}
  }
}

function pin({ target, version, sha256 }, root) {
  const pins = { ...readPins(root), [`${target}@${version}`]: sha256 }
  mkdirSync(dirname(pinsOf(root)), { recursive: true })
  writeFileSync(pinsOf(root), JSON.stringify(pins, null, 2))
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  await main(async () => {
    const options = process.argv.slice(2)
    if (options.includes('--upstream')) {
      const differ = await compareWithUpstream({ install: options.includes('--install') })
      if (differ > 0) throw new Unusable(`${differ} of the installed builds are not upstream's`)
      return
    }
    await requireKnownBuilds()
    for (const build of installedBuilds()) console.log(`${describe(build)} is known`)
  })
