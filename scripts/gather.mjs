// Gathers what runs, and nothing else, in a folder by itself: the compiled program, the files that it reads, the few
// packages that are not bundled, what the licences of all of them ask for, and a bill of materials. For an image.
// Plain JavaScript for Node 18 and newer, as the programs that use it run before a fitting Node is there.

import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { compileInto, UNBUNDLED } from './compile.mjs'
import { capture, main, ROOT, Unusable } from './install.mjs'

const PACKAGES = join(ROOT, 'node_modules')
/** Used to compile, and the build of uWebSockets.js for systems that the image is not. */
const NOT_RUN = new Set(['esbuild', 'uWebSockets.js-glibc227'])
/** Read as files: what browsers get of them. */
const READ = ['swagger-ui-dist', 'preact', 'uplot']
/** Parts of packages that nothing runs. Licences stay. */
const LEFT_OUT =
  /(^|\/)(docs?|examples?|test|tests|__tests__|benchmarks?|\.github)$|\.(map|md|markdown|cc|hh?|d\.[cm]?ts)$/i
const LICENCE = /^(licen[cs]e|copying|notice)/i

/** @returns {object} the package's own description; null: it is not here */
function manifestOf(name) {
  const path = join(PACKAGES, name, 'package.json')
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null
}

/** Names of packages, and of all that they need of what is installed here. */
function withDependencies(names, found = new Set()) {
  for (const name of names) {
    const manifest = manifestOf(name)
    if (manifest === null || found.has(name)) continue
    found.add(name)
    withDependencies(Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }), found)
  }
  return found
}

/** Sources that the program reads: scripts of Redis, tables, the page of the console, and what its hash is made of. */
const SOURCES_READ = /\.(lua|json|css)$|\/console\/page\/|\/console\/server\/page-assets\.ts$/

function copyAssets(folder) {
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true }).map((path) => join('src', String(path)))
  for (const path of sources.filter((path) => SOURCES_READ.test(path)))
    if (statSync(join(ROOT, path)).isFile()) cpSync(join(ROOT, path), join(folder, path))
}

function copyPackages(folder) {
  const run = withDependencies(UNBUNDLED.filter((name) => !NOT_RUN.has(name)))
  for (const name of new Set([...run, ...READ]))
    cpSync(join(PACKAGES, name), join(folder, 'node_modules', name), {
      recursive: true,
      filter: (path) => !LEFT_OUT.test(path.slice(join(PACKAGES, name).length)),
    })
}

/**
 * The bill of materials of what is installed for the server, without the time and the number of its making. All of the
 * lock file is asked for: with `--omit dev` npm leaves out what packages for tests need as well, such as ws.
 */
async function billOfMaterials() {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']
  const {
    serialNumber: _,
    metadata,
    components,
    dependencies,
    ...bill
  } = JSON.parse(await capture('npm', args, { cwd: ROOT }))
  const { timestamp: __, ...known } = metadata
  const isOurs = ({ properties }) => !properties?.some(({ name }) => name === 'cdx:npm:package:development')
  const own = components.filter((one) => isOurs(one) && manifestOf(fullName(one)) !== null)
  const named = new Set([known.component['bom-ref'], ...own.map((one) => one['bom-ref'])])
  const between = dependencies
    .filter(({ ref }) => named.has(ref))
    .map((one) => ({ ...one, dependsOn: one.dependsOn?.filter((ref) => named.has(ref)) }))
  return { ...bill, metadata: known, components: own, dependencies: between }
}

const fullName = ({ group, name }) => (group ? `${group}/${name}` : name)

/** The licences of installed packages, one after the other: bundled code has none of its own beside it. */
function licences(components) {
  const names = [...new Set(components.map(fullName))].sort()
  return names.map((name) => {
    const folder = join(PACKAGES, name)
    const files = readdirSync(folder).filter((file) => LICENCE.test(file))
    const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim())
    const { version = '', license = '' } = manifestOf(name)
    return `${name} ${version} (${license})\n\n${texts.join('\n\n')}`
  })
}

async function gather(folder) {
  // V8's code cache is of the place where the program lies: in an image, the same folder.
  const compiled = join(ROOT, 'compiled')
  for (const path of [folder, compiled]) if (existsSync(path)) throw new Unusable(`${path} is there already`)
  await compileInto(compiled)
  mkdirSync(folder, { recursive: true })
  cpSync(compiled, join(folder, 'compiled'), { recursive: true })
  rmSync(compiled, { recursive: true })
  for (const name of ['package.json', 'LICENSE']) cpSync(join(ROOT, name), join(folder, name))
  copyAssets(folder)
  copyPackages(folder)
  const bill = await billOfMaterials()
  writeFileSync(join(folder, 'sbom.json'), `${JSON.stringify(bill, null, 2)}\n`)
  writeFileSync(
    join(folder, 'LICENCES.txt'),
    `${licences(bill.components).join(`\n\n${'-'.repeat(80)}\n\n`)}\n`,
  )
}

await main(() => gather(resolve(process.argv[2])))
