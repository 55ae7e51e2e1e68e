import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findBase, provideBase } from '../../bench/base.ts'
import { tempFolder } from '../support/scratch.ts'

const git = (root: string, ...args: string[]) =>
  execFileSync('git', ['-C', root, '-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], {
    encoding: 'utf8',
  }).trim()

/** A project of two commits, with packages as they are installed now; returns the first commit. */
async function project(t: Parameters<typeof tempFolder>[0], { sameLock = true } = {}) {
  const root = await tempFolder(t)
  git(root, 'init', '-q')
  for (const folder of ['src', 'scripts', 'node_modules/one', '.larkway/node-22'])
    mkdirSync(join(root, folder), { recursive: true })
  const commit = (text: string, lock: object) => {
    writeFileSync(join(root, 'src', 'main.ts'), text)
    writeFileSync(join(root, 'scripts', 'start.mjs'), text)
    writeFileSync(join(root, 'package.json'), '{"private":true}')
    writeFileSync(join(root, 'package-lock.json'), JSON.stringify(lock))
    git(root, 'add', 'src', 'scripts', 'package.json', 'package-lock.json')
    git(root, 'commit', '-qm', text)
    return git(root, 'rev-parse', 'HEAD')
  }
  const lock = { name: 'x', lockfileVersion: 3, packages: { '': { name: 'x' } } }
  const first = commit('first', lock)
  commit('second', sameLock ? lock : { ...lock, version: '1.0.0' })
  writeFileSync(join(root, 'node_modules', 'one', 'package.json'), '{}')
  writeFileSync(join(root, 'node_modules', '.larkway-stamp'), 'of the present tree')
  return { root, first }
}

t.test('which commit is compared with', async (t) => {
  const { root, first } = await project(t)
  const commit = first.slice(0, 12)
  t.same(findBase(null, commit, root), { commit }, 'what was recorded last')
  t.same(findBase('HEAD~1', 'fffffff', root), { commit }, 'what was asked for')
  t.match(findBase(null, undefined, root), { reason: /no entry/ })
  t.match(findBase(null, 'ffffffffffff', root), { reason: /git does not know ffffffffffff/ })
  t.throws(() => findBase('nonsense', commit, root), /--base nonsense: git knows no such commit/)
  t.match(findBase(null, commit, await tempFolder(t)), { reason: /git does not know/ }, 'no repository')
})

t.test('a base is a tree of its own, with the packages of this one', async (t) => {
  const { root, first } = await project(t)
  const { commit, folder } = await provideBase(first.slice(0, 12), root)
  t.equal(folder, join(root, '.larkway', 'bench-base', commit))
  t.equal(readFileSync(join(folder, 'src', 'main.ts'), 'utf8'), 'first')
  t.equal(readFileSync(join(folder, 'scripts', 'start.mjs'), 'utf8'), 'first')
  for (const path of ['node_modules/one', '.larkway/node-22'])
    t.equal(realpathSync(join(folder, path)), realpathSync(join(root, path)), path)
  t.notOk(existsSync(join(folder, 'node_modules', '.larkway-stamp')), 'what its scripts note is not shared')

  writeFileSync(join(folder, 'kept'), '')
  await provideBase(commit, root)
  t.ok(existsSync(join(folder, 'kept')), 'it is made once')
})

t.test('other packages are not shared', async (t) => {
  const { root, first } = await project(t, { sameLock: false })
  const { folder } = await provideBase(first.slice(0, 12), root)
  t.equal(readFileSync(join(folder, 'src', 'main.ts'), 'utf8'), 'first')
  t.notOk(existsSync(join(folder, 'node_modules', 'one')), 'it was installed by itself')
})

t.test('shared packages are given up when this tree gets others', async (t) => {
  const { root, first } = await project(t)
  const { commit, folder } = await provideBase(first.slice(0, 12), root)
  t.ok(existsSync(join(folder, 'node_modules', 'one')))
  writeFileSync(
    join(root, 'package-lock.json'),
    '{"name":"x","lockfileVersion":3,"packages":{"":{"name":"y"}}}',
  )
  await provideBase(commit, root)
  t.notOk(existsSync(join(folder, 'node_modules', 'one')))
})

t.test('a commit that git does not have is no base', async (t) => {
  const { root } = await project(t)
  await t.rejects(provideBase('ffffffffffff', root))
  t.notOk(existsSync(join(root, '.larkway', 'bench-base', 'ffffffffffff')))
})
