import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { test } from 'tap'
import { ROOT } from '../../scripts/install.mjs'

/** A program in the form of ours that compiles in no time: two entry points that share a module. */
const SMALL = {
  'main.ts': "import { version } from './version.ts'\nconsole.log(version)\n",
  'cli.ts':
    "import { help } from './cli/commands.ts'\nimport { version } from './version.ts'\nhelp(version)\n",
  'cli/commands.ts': "export const help = (version: string) => console.log('print this text', version)\n",
  'version.ts': "export const version: string = '1'\n",
  'console/page/view.ts': 'export const view = 1\n',
  'console/page/style/view.css': 'p { color: red }\n',
}

/** A copy of this folder with another program, or with ours. */
async function copyProgram(t, sources = SMALL) {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'larkway-compile-')))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const names = ['scripts', 'package.json', 'package-lock.json', ...(sources === null ? ['src'] : [])]
  for (const name of names)
    await cp(join(ROOT, name), join(folder, name), { recursive: true, preserveTimestamps: true })
  for (const [name, text] of Object.entries(sources ?? {})) {
    await mkdir(dirname(join(folder, 'src', name)), { recursive: true })
    await writeFile(join(folder, 'src', name), text)
  }
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

async function outputOf(args, options = {}) {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8')
    child[name].on('data', (text) => {
      output[name] += text
    })
  }
  await once(child, 'close')
  return output
}

/** Asks, in a process of its own, what is to be run in a folder. @returns that, and what was complained of */
async function compiledIn(folder) {
  const script = `
    const { compiled } = await import(${JSON.stringify(pathToFileURL(join(folder, 'scripts', 'compile.mjs')).href)})
    process.stdout.write(JSON.stringify(await compiled('cli.ts')))`
  const { stdout, stderr } = await outputOf(['--input-type=module', '-e', script])
  return { ...JSON.parse(stdout), complaint: stderr }
}

/** What the program says when it is asked for help. */
async function helpOf({ file, flags, env }) {
  return (await outputOf([...flags, file, 'help'], { env: { ...process.env, ...env } })).stdout
}

test('the program is compiled once, and again when a source has changed', async (t) => {
  const folder = await copyProgram(t)
  const first = await compiledIn(folder)
  t.match(first.file, join(folder, '.larkway', 'program'))
  t.equal(first.complaint, '')
  const madeMs = (await stat(first.file)).mtimeMs
  t.equal((await compiledIn(folder)).file, first.file)
  t.equal((await stat(first.file)).mtimeMs, madeMs, 'what equals the sources is not compiled again')
  t.match(await helpOf(first), 'print this text')

  const source = join(folder, 'src', 'cli', 'commands.ts')
  const { atime, mtime } = await stat(source)
  const text = await readFile(source, 'utf8')
  t.match(text, 'print this text')
  await writeFile(source, text.replace('print this text', 'PRINT THIS TEXT'))
  await utimes(source, atime, mtime)
  const changed = await compiledIn(folder)
  t.match(await helpOf(changed), 'PRINT THIS TEXT', 'also one that keeps its length and its time')
  t.match(await helpOf(first), 'print this text', 'a program that still runs keeps its parts')

  let last = changed
  for (const name of ['view.ts', join('style', 'view.css')]) {
    await appendFile(join(folder, 'src', 'console', 'page', name), '\n')
    const next = await compiledIn(folder)
    t.not(next.file, last.file, `and with it what browsers load: ${name}`)
    last = next
  }

  const copy = join(folder, 'copy')
  await mkdir(copy)
  for (const name of ['src', 'scripts', 'package.json', 'package-lock.json', 'node_modules', '.larkway'])
    await cp(join(folder, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
  const copied = await compiledIn(copy)
  t.match(copied.file, join(copy, '.larkway'))
  const { ino } = await stat(copied.file)
  t.equal((await stat((await compiledIn(copy)).file)).ino, ino, 'what is copied with its sources stays good')
})

test('a compiled program that is not whole is made again', async (t) => {
  const folder = await copyProgram(t)
  const { file } = await compiledIn(folder)
  const part = join(dirname(file), 'program.cjs')
  const damages = {
    'a part is cut off': () => truncate(part, 10),
    'a part is gone': () => rm(part),
    'all is gone': () => rm(dirname(file), { recursive: true }),
    'its list is no list': () => writeFile(join(folder, '.larkway', 'program', 'current.json'), '{'),
  }
  for (const [name, damage] of Object.entries(damages)) {
    const { size } = await stat(part)
    await damage()
    const again = await compiledIn(folder)
    t.equal(again.file, file, name)
    t.equal((await stat(part)).size, size, name)
  }
})

test('starts at the same time compile once', async (t) => {
  const folder = await copyProgram(t)
  const all = await Promise.all([1, 2, 3].map(() => compiledIn(folder)))
  for (const { file, complaint } of all) t.same([file, complaint], [all[0].file, ''])
  const left = await readdir(join(folder, '.larkway', 'program'))
  t.same(left.sort(), [dirname(all[0].file).split('/').at(-1), 'current.json'].sort(), 'nothing is left over')
})

test('where nothing can be compiled, the sources are run', async (t) => {
  const folder = await copyProgram(t)
  await writeFile(join(folder, '.larkway'), 'a file, so that nothing can be written below it')
  const readOnly = await compiledIn(folder)
  t.equal(readOnly.file, join(folder, 'src', 'cli.ts'))
  t.match(readOnly.complaint, 'runs from its sources')
  t.match(await helpOf(readOnly), 'print this text')

  await rm(join(folder, '.larkway'))
  await writeFile(join(folder, 'src', 'version.ts'), 'no TypeScript')
  const broken = await compiledIn(folder)
  t.equal(broken.file, join(folder, 'src', 'cli.ts'), 'and say themselves what is wrong with them')
  t.same(await readdir(join(folder, '.larkway', 'program')), [], 'nothing is left over')
})

test('a compiled server has its threads and its assets, and an image its code cache', async (t) => {
  const folder = await copyProgram(t, null)
  const image = join(folder, 'compiled')
  const { stderr } = await outputOf([join(folder, 'scripts', 'compile.mjs'), image])
  t.notMatch(stderr, /Error/)
  t.ok((await readdir(join(image, 'v8'), { recursive: true })).length > 5)
  const kept = join(image, 'program.v8')
  const { size, ino } = await stat(kept)
  t.ok(size > 1_000_000, 'with what a start compiles')
  const { origin, key, server } = await startImage(t, image, folder)
  const ask = (path, init) => fetch(`${origin}${path}`, init)
  for (const path of [
    '/readyz',
    '/docs',
    '/docs/swagger-ui-bundle.js',
    '/console',
    '/openapi.json',
    '/console/assets/main.ts',
  ])
    t.equal((await ask(path)).status, 200, path)
  const speech = await ask('/v1/speech', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'one' },
    body: JSON.stringify({ input: 'hello world' }),
  })
  t.equal(speech.status, 200, await speech.text())

  const read = async (at, path, coding) =>
    (await fetch(`${at}${path}`, { headers: { 'accept-encoding': coding } })).text()
  const module = '/console/assets/main.ts'
  const text = await read(origin, module, 'br')
  t.match(text, /^import\{/, 'the page was made ready, as short as it gets')
  for (const coding of ['gzip', 'identity']) t.equal(await read(origin, module, coding), text, coding)
  const [, root] = /src="(\/console\/assets\/[0-9a-f]{12})\/main\.ts"/.exec(
    await read(origin, '/console', 'br'),
  )
  server.kill('SIGKILL')
  t.equal((await stat(kept)).ino, ino, 'which is not made again')
  await truncate(kept, size - 1)
  await appendFile(join(folder, 'src', 'console', 'page', 'main.ts'), '\nconsole.info("newer")\n')
  const changed = await startImage(t, image, folder)
  t.ok((await stat(kept)).size >= size, 'but where it is damaged')
  const newer = await read(changed.origin, module, 'br')
  t.match(newer, 'newer', 'what has changed since is made when it is asked for')
  t.notMatch(await read(changed.origin, '/console', 'br'), root)
})

/** Starts a compiled server. @returns where it is, and its first key */
async function startImage(t, image, folder) {
  const server = spawn(process.execPath, [join(image, 'main.js')], {
    cwd: folder,
    env: { ...process.env, PORT: '0', HOST: '127.0.0.1', LARKWAY_DATA: await mkdtemp(join(folder, 'data-')) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => server.kill('SIGKILL'))
  let log = ''
  server.stdout.setEncoding('utf8')
  return new Promise((resolve, reject) => {
    server.stdout.on('data', (text) => {
      log += text
      const [, origin, key] = /-s (http:\S+)\/v1\/speech -H 'Authorization: Bearer ([^']+)'/.exec(log) ?? []
      if (key !== undefined) resolve({ origin, key, server })
    })
    server.on('exit', () => reject(new Error(`the server ended: ${log}`)))
  })
}
