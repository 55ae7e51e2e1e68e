import { readFile } from 'node:fs/promises'
import t from 'tap'
import { FAILURE_KINDS } from '../../src/schema/upstream.ts'

const FOLDER = new URL('../../src/providers/', import.meta.url)
const GUIDE = await readFile(new URL('README.md', FOLDER), 'utf8')

/** A quote out of the middle of something begins at the margin. */
const unindented = (text: string) => text.replaceAll(/^ +/gm, '')

t.test('what the guide quotes stands in the file', async (t) => {
  const quotes = [...GUIDE.matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)]
  t.equal(quotes.length, GUIDE.split('\n```').length >> 1, 'every block names its file')
  t.ok(quotes.length >= 5)
  for (const [, path = '', quote = ''] of quotes) {
    const source = unindented(await readFile(new URL(path, FOLDER), 'utf8'))
    let from = 0
    for (const part of unindented(quote).split(/^…\n/m)) {
      const at = source.indexOf(part, from)
      t.ok(part.trim() !== '' && at >= 0, `${path}: ${part.split('\n')[0]}`)
      from = at + part.length
    }
  }
})

t.test('what the guide names is there', async (t) => {
  const links = [...GUIDE.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, target = '']) => target)
  const paths = [...GUIDE.matchAll(/`((?:test|src)\/[\w./-]+\.ts)`/g)].map(([, path = '']) => `../../${path}`)
  for (const target of [...links, ...paths].filter((path) => !path.endsWith('/')))
    await t.resolves(readFile(new URL(target, FOLDER)), target)
  const kinds = [...GUIDE.matchAll(/^\| (`[a-z`, ]+`) +\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, kind]) => kind),
  )
  t.same(kinds.sort(), [...FAILURE_KINDS].sort(), 'every kind of failure, and no other')
})
