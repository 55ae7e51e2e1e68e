import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { test } from 'tap'
import { CACHE, ROOT } from '../../scripts/install.mjs'

const RUNTIME = pathToFileURL(join(ROOT, 'scripts', 'runtime.mjs')).href

/** A stand-in for the server: says who it is and which signals it gets, and ends with status 7 on SIGTERM. */
const PROGRAM = `
  const say = (text) => process.stdout.write(text + '\\n')
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => {
    say('got ' + name)
    if (name === 'SIGTERM') setTimeout(() => process.exit(7), 100)
  })
  setInterval(() => {}, 1000)
  say('pid ' + process.pid + ' args ' + process.argv.slice(2))
`

/** Starts a launcher as `npm start` does. `line` resolves with the first line of output that matches. */
async function launch(t, source = PROGRAM) {
  await mkdir(CACHE, { recursive: true })
  const folder = await mkdtemp(join(CACHE, 'runtime-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'program.mjs'), source)
  const program = JSON.stringify({ file: join(folder, 'program.mjs') })
  await writeFile(
    join(folder, 'launcher.mjs'),
    `import { run } from '${RUNTIME}'\nrun(process.execPath, ${program}, ['--one', 'two'], { ownGroup: true })`,
  )
  const launcher = spawn(process.execPath, [join(folder, 'launcher.mjs')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => launcher.kill('SIGKILL'))
  const lines = []
  const reader = createInterface({ input: launcher.stdout })
  reader.on('line', (text) => lines.push(text))
  const line = async (pattern) => {
    for (;;) {
      const found = lines.find((text) => pattern.test(text))
      if (found) return found
      await once(reader, 'line')
    }
  }
  return { launcher, lines, line }
}

test('arguments, signals and the exit status pass through', async (t) => {
  const { launcher, lines, line } = await launch(t)
  t.match(await line(/^pid/), /args --one,two$/)
  launcher.kill('SIGHUP')
  await line(/got SIGHUP/)
  launcher.kill('SIGINT')
  launcher.kill('SIGINT')
  await line(/got SIGINT/)
  launcher.kill('SIGTERM')
  t.same(await once(launcher, 'exit'), [7, null])
  t.same(
    lines.filter((text) => text === 'got SIGINT'),
    ['got SIGINT'],
    'a Ctrl-C that comes twice at once counts once',
  )
})

test('a program killed by a signal gives the status of a shell', async (t) => {
  const { launcher, line } = await launch(t)
  const pid = Number(/pid (\d+)/.exec(await line(/^pid/))[1])
  process.kill(pid, 'SIGKILL')
  t.same(await once(launcher, 'exit'), [137, null])
})

test('a program that is done is not held up', async (t) => {
  const { launcher } = await launch(t, 'process.exitCode = 3')
  t.same(await once(launcher, 'exit'), [3, null])
})

// Else the server would live on with its port, and nobody to stop it.
test('when the launcher is killed, the program ends itself', async (t) => {
  const { launcher, line } = await launch(t)
  const pid = Number(/pid (\d+)/.exec(await line(/^pid/))[1])
  launcher.kill('SIGKILL')
  t.equal(await line(/got SIGTERM/), 'got SIGTERM')
  const isAlive = () => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  for (let tries = 0; tries < 200 && isAlive(); tries++) await new Promise((done) => setTimeout(done, 50))
  t.notOk(isAlive())
})

/** Runs `prepare` of the clone in this folder, as if by a Node that is too old for it. @returns the Node it chooses */
async function preparedBy(clone, options = {}, env = {}) {
  const script = `
    Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })
    const { prepare } = await import(${JSON.stringify(pathToFileURL(join(clone, 'scripts', 'runtime.mjs')).href)})
    process.stdout.write(await prepare(${JSON.stringify(options)}))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  let chosen = ''
  child.stdout.on('data', (text) => {
    chosen += text
  })
  await once(child, 'close')
  return chosen
}

/** A clone whose packages are installed, and whose Node of its own was fetched: a link to the one that runs this. */
async function startedClone(t) {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'larkway-clone-')))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const clone = join(folder, 'one')
  await mkdir(join(clone, 'node_modules'), { recursive: true })
  await cp(join(ROOT, 'scripts'), join(clone, 'scripts'), { recursive: true })
  for (const file of ['package.json', 'package-lock.json', 'node_modules/.package-lock.json'])
    await cp(join(ROOT, file), join(clone, file))
  for (const name of await readdir(join(ROOT, 'node_modules')))
    if (!name.startsWith('.'))
      await symlink(join(ROOT, 'node_modules', name), join(clone, 'node_modules', name))
  const runtime = await readFile(join(ROOT, 'scripts', 'runtime.mjs'), 'utf8')
  const platform = `'${process.platform}-${process.arch}': {`
  const [, name, version] = /name: '([^']+)',\s+version: '([^']+)'/.exec(runtime.split(platform)[1])
  const fetched = join(clone, '.larkway', 'node-22', 'node_modules', name)
  await mkdir(join(fetched, 'bin'), { recursive: true })
  await writeFile(join(fetched, 'package.json'), JSON.stringify({ name, version }))
  await symlink(process.execPath, join(fetched, 'bin', 'node'))
  return { clone, copy: join(folder, 'two') }
}

test('a clone that was copied runs the Node of its own folder', async (t) => {
  const { clone, copy } = await startedClone(t)
  const first = await preparedBy(clone)
  t.match(first, join(clone, '.larkway'), 'the clone has a Node of its own')
  await cp(clone, copy, { recursive: true, verbatimSymlinks: true })
  t.equal(await preparedBy(copy), join(copy, first.slice(clone.length)), 'and so has its copy')
  // As it was written until now.
  const stampFile = join(copy, 'node_modules', '.larkway-stamp')
  const stamp = JSON.parse(await readFile(stampFile, 'utf8'))
  await writeFile(stampFile, JSON.stringify({ ...stamp, node: first }))
  t.match(await preparedBy(copy), copy, 'a stamp that names the Node of another folder does not count')
  await rm(clone, { recursive: true })
  t.match(await preparedBy(copy), copy, 'and nothing is needed of the first folder')
})

test('a start installs what runs, and the rest only where it was installed before', async (t) => {
  const { clone } = await startedClone(t)
  const installed = join(clone, 'node_modules', '.package-lock.json')
  const whole = await readFile(installed, 'utf8')
  const { packages } = JSON.parse(whole)
  const running = Object.fromEntries(Object.entries(packages).filter(([, { dev }]) => !dev))
  // Writes down how it was called, and has installed everything.
  const npm_execpath = join(clone, 'npm-cli.js')
  const calls = join(clone, 'calls')
  const source = `import { appendFileSync, copyFileSync } from 'node:fs'
    appendFileSync(${JSON.stringify(calls)}, process.argv.filter((one) => one.endsWith('=dev')) + ' ')
    copyFileSync(${JSON.stringify(join(clone, 'whole.json'))}, ${JSON.stringify(installed)})`
  const only = async (packages) => writeFile(installed, JSON.stringify({ packages }))
  await Promise.all([writeFile(npm_execpath, source), writeFile(join(clone, 'whole.json'), whole)])
  const prepared = async (options) => {
    await writeFile(calls, '')
    t.match(await preparedBy(clone, options, { npm_execpath }), clone)
    return readFile(calls, 'utf8')
  }
  const onlyRuns = true
  await only({})
  t.equal(await prepared({ onlyRuns }), '--omit=dev ', 'a first start')
  await only(running)
  t.equal(await prepared({ onlyRuns }), '', 'a second one')
  t.equal(await prepared({}), '--include=dev ', 'the first test')
  t.equal(await prepared({}), '', 'a second one')
  t.equal(await prepared({ onlyRuns }), '', 'a start after it')
  await writeFile(join(clone, 'package.json'), `${await readFile(join(clone, 'package.json'), 'utf8')}\n`)
  await only(running)
  t.equal(await prepared({ onlyRuns }), '--include=dev ', 'a start where the packages have changed since')
})
