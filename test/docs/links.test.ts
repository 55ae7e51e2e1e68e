import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { anchorsOf, MANUAL, proseOf } from '../support/manual.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
})
  .toString()
  .split('\0')
  .filter((path) => path !== '' && existsSync(ROOT + path))

const read = (path: string) => readFileSync(ROOT + path, 'utf8')

/** The links of a page that lead nowhere. */
function deadLinks(path: string, text: string): string[] {
  const targets = [...proseOf(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  return targets
    .filter((target) => !/^(?:https?|mailto):/.test(target))
    .filter((target) => {
      const [file = '', anchor] = target.split('#')
      const to = file === '' ? path : posix.join(posix.dirname(path), file)
      if (!existsSync(ROOT + to)) return true
      return anchor !== undefined && !anchorsOf(to === path ? text : read(to)).includes(anchor)
    })
    .map((target) => `${path}: ${target}`)
}

/** Pages and headings that a file names in passing, such as `docs/api.md#errors`, and that are not there. */
function deadMentions(path: string, text: string): string[] {
  return [...text.matchAll(/(?<![\w./-])((?:docs\/[\w-]+|README)\.md)(?:#([\w-]+))?/g)]
    .filter(([, file = '', anchor]) => {
      // A README beside the file, or the one of the repository.
      const beside = posix.join(posix.dirname(path), file)
      const to = [file, beside].filter((one) => existsSync(ROOT + one))
      return (
        to.length === 0 || (anchor !== undefined && !to.some((one) => anchorsOf(read(one)).includes(anchor)))
      )
    })
    .map(([mention]) => `${path}: ${mention}`)
}

/** Files and folders that code names by their place beside it, up to the first part of a name that is computed. */
function deadPlaces(path: string, text: string): string[] {
  return [...text.matchAll(/new URL\(\s*['"`](\.\.?\/[^'"`…]*)['"`],\s*import\.meta\.url/g)]
    .map(([, place = '']) => place)
    .filter((place) => {
      const known = place.includes('${') ? posix.dirname(`${place.split('${')[0]}x`) : place
      return !existsSync(ROOT + posix.join(posix.dirname(path), known))
    })
    .map((place) => `${path}: ${place}`)
}

t.test('every link of every page leads somewhere', async (t) => {
  const pages = tracked.filter((path) => path.endsWith('.md'))
  t.ok(pages.length > 10, 'the pages were found')
  for (const path of pages) t.same(deadLinks(path, read(path)), [], path)
})

t.test('what code, scripts and deployment files say of the manual is there', async (t) => {
  const texts = tracked.filter((path) => /\.(?:[mc]?[jt]s|ya?ml|conf|service|json|html|lua)$/.test(path))
  t.ok(texts.length > 500, 'the files were found')
  const self = 'test/docs/links.test.ts'
  t.same(
    texts.filter((path) => path !== self).flatMap((path) => deadMentions(path, read(path))),
    [],
  )
})

t.test('what code names by its place beside it is there', async (t) => {
  // Two name files that are not there, as samples.
  const code = tracked.filter((path) => /\.[mc]?[jt]s$/.test(path) && !/(?:links|tidy)\.test\.ts$/.test(path))
  const dead = code.flatMap((path) => deadPlaces(path, read(path)))
  t.same(dead, ['src/console/server/page-assets.ts: ./page.pack'], 'but for what is made when it is compiled')
  const naming = (...places: string[]) => places.map((place) => `new URL('${place}', import.meta.url)`).join()
  t.same(deadPlaces('test/a.ts', naming('../README.md', `./docs/$\{name}.ts`)), [])
  t.same(deadPlaces('test/a.ts', naming('../none.json', `./none/$\{name}.ts`)), [
    'test/a.ts: ../none.json',
    `test/a.ts: ./none/$\{name}.ts`,
  ])
})

t.test('every page of the manual can be reached from the README', async (t) => {
  const pages = new Map(MANUAL.map(({ path, text }) => [path, text]))
  const reached = new Set<string>()
  const queue = ['README.md']
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const text = pages.get(path)
    if (text === undefined || reached.has(path)) continue
    reached.add(path)
    for (const [, file = ''] of text.matchAll(/\]\(([^)\s#]+)/g))
      queue.push(posix.join(posix.dirname(path), file))
  }
  t.same([...reached].sort(), [...pages.keys()].sort())
})

t.test('a dead link, a dead anchor and a dead mention are found', async (t) => {
  const page = '# One page\n\n## A `name`, again\n\n## A name again\n'
  const good = '[a](#one-page) [b](#a-name-again-1) [c](bench/README.md) [d](https://example.com/#x)'
  t.same(deadLinks('README.md', page + good), [])
  const bad = '[a](#two-pages) [b](docs/none.md) [c](bench/README.md#none)'
  t.same(deadLinks('README.md', page + bad), [
    'README.md: #two-pages',
    'README.md: docs/none.md',
    'README.md: bench/README.md#none',
  ])
  t.same(deadMentions('src/a.ts', 'see docs/api.md#errors and README.md'), [])
  t.same(deadMentions('src/a.ts', 'see docs/api.md#nothing and docs/none.md'), [
    'src/a.ts: docs/api.md#nothing',
    'src/a.ts: docs/none.md',
  ])
})
