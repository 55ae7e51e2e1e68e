import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { FAILURE_KINDS } from '../../src/contracts/upstream.ts'
import { codeWords, section } from '../support/manual.ts'

/** Folders whose README walks through their code. */
const GUIDED = ['src/gateway/providers/', 'src/gateway/api/']

const folderOf = (path: string) => new URL(`../../${path}`, import.meta.url)
const guideOf = (path: string) => readFile(new URL('README.md', folderOf(path)), 'utf8')

/** A quote out of the middle of something begins at the margin. */
const unindented = (text: string) => text.replaceAll(/^ +/gm, '')

for (const path of GUIDED) {
  const folder = folderOf(path)
  const guide = await guideOf(path)

  t.test(`what the guide of ${path} quotes stands in the file`, async (t) => {
    const quotes = [...guide.matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)]
    t.equal(quotes.length, guide.split('\n```').length >> 1, 'every block names its file')
    t.ok(quotes.length >= 5)
    for (const [, file = '', quote = ''] of quotes) {
      const source = unindented(await readFile(new URL(file, folder), 'utf8'))
      let from = 0
      for (const part of unindented(quote).split(/^…\n/m)) {
        const at = source.indexOf(part, from)
        t.ok(part.trim() !== '' && at >= 0, `${file}: ${part.split('\n')[0]}`)
        from = at + part.length
      }
    }
  })

  t.test(`what the guide of ${path} names is there`, async (t) => {
    const links = [...guide.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, target = '']) => target)
    const files = [...guide.matchAll(/`((?:test|src)\/[\w./-]+\.ts)`/g)].map(
      ([, file = '']) => `../../../${file}`,
    )
    for (const target of [...links, ...files].filter((one) => !one.endsWith('/')))
      await t.resolves(readFile(new URL(target, folder)), target)
  })
}

t.test('the recipes list the files that name their examples, and no others', async (t) => {
  const root = new URL('../../', import.meta.url)
  const page = await readFile(new URL('docs/how-to-add.md', root), 'utf8')
  const [, ...recipes] = page.split(/^## /m)
  t.equal(recipes.length, 6)
  const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root })
  const files = `${tracked}`.split('\n').filter((path) => /^docs\/|\.(?:ts|json|lua|py|yml)$/.test(path))
  for (const recipe of recipes) {
    const [title = ''] = recipe.split('\n')
    const [, name = '', scope = ''] = /^<!-- example: (\S+) in (.*) -->$/m.exec(recipe) ?? []
    const example = new RegExp(name)
    const isInScope = (path: string) =>
      path !== 'docs/how-to-add.md' &&
      scope.split(' ').some((one) => path === one || path.startsWith(`${one}/`))
    const named: string[] = []
    for (const path of files.filter(isInScope))
      if (example.test(path) || example.test(await readFile(new URL(path, root), 'utf8'))) named.push(path)
    const rows = [...recipe.matchAll(/^\d+\. ((?:`[^`]+`(?:, )?)+):/gm)]
    const listed = rows.flatMap(([, paths = '']) => [...paths.matchAll(/`([^`]+)`/g)].map(([, path]) => path))
    t.same(listed.sort(), named.sort(), title)
    t.ok(rows.length >= 4 && rows.length === [...recipe.matchAll(/^\d+\. /gm)].length, `${title}: all rows`)
    for (const [, path = ''] of recipe.matchAll(/`((?:src|test|docs|scripts)\/[^`\s]*)`/g))
      t.ok(existsSync(new URL(path, root)), path)
  }
})

t.test('the guide of src/gateway/providers/ names every kind of failure, and no other', async (t) => {
  const guide = await guideOf('src/gateway/providers/')
  const kinds = [...guide.matchAll(/^\| (`[a-z`, ]+`) +\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, kind]) => kind),
  )
  t.same(kinds.sort(), [...FAILURE_KINDS].sort())
})

t.test('the manual names every outcome of an attempt, and no other', async (t) => {
  const outcomes = ['abandoned', ...FAILURE_KINDS]
  const row = /^\| `larkway_attempts_total` \|.*?\| Attempts; (.*) \|$/m
  const [, metric = ''] = row.exec(section('Metrics')) ?? []
  t.same(codeWords(metric).sort(), [...outcomes, 'ok', 'error_type'].sort(), 'the metric')
  const [, span = ''] = /A failed attempt has as `error\.type` (.*?)\./.exec(section('Tracing')) ?? []
  t.same(codeWords(span).sort(), [...outcomes].sort(), 'the span')
})
