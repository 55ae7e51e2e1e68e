import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { drawBuildings, PICTURE } from '../../scripts/draw-buildings.ts'
import { OBJECT_KINDS } from '../../src/gateway/storage/key.ts'
import { LAYERS } from '../support/layers.ts'
import { codeWords, section } from '../support/manual.ts'

const ROOT = new URL('../../', import.meta.url)
const PAGE = 'docs/architecture.md'

/** The prefixes that rows of a table name, each once. */
function prefixesIn(text: string): string[] {
  const cells = [...text.matchAll(/^\|.*\|$/gm)].flatMap(([row]) => codeWords(row))
  return [...new Set(cells.filter((word) => /^[a-z]+\/$/.test(word)))].sort()
}

const PREFIXES = OBJECT_KINDS.map((kind) => `${kind}/`).sort()

t.test('the map of folders has every folder in its layer, and no other', async (t) => {
  const [, map = ''] = [...section('Folders', PAGE).matchAll(/^```text\n([\s\S]*?)^```$/gm)][1] ?? []
  const drawn = map
    .split('\n\n')
    .map((layer) =>
      layer.split('\n').flatMap((line) => (line.split(/ {2,}/)[0] ?? '').split(' ').filter(Boolean)),
    )
  const isFolder = (name: string) => existsSync(new URL(`src/${name}/`, ROOT))
  t.same(
    drawn.map((names) => names.filter((name) => name.endsWith('/')).sort()),
    LAYERS.map((names) =>
      names
        .filter(isFolder)
        .map((name) => `${name}/`)
        .sort(),
    ),
  )
  for (const [at, names] of drawn.entries())
    for (const file of names.filter((name) => name.endsWith('.ts'))) {
      t.ok(existsSync(new URL(`src/${file}`, ROOT)), file)
      t.ok(LAYERS[at]?.includes(file.slice(0, -3)), `${file} is in layer ${at}`)
    }
})

t.test('the list of buildings has every one', async (t) => {
  const [, list = ''] = /^```text\n([\s\S]*?)^```$/m.exec(section('Folders', PAGE)) ?? []
  const named = [...list.matchAll(/^(\w+)\/ /gm)].map(([, name]) => name)
  const there = readdirSync(new URL('src/', ROOT)).filter((name) => !name.includes('.'))
  t.same(named.sort(), there.sort())
})

t.test('the picture of the buildings is that of the imports', async (t) => {
  t.equal(readFileSync(PICTURE, 'utf8'), drawBuildings(), '`npm run buildings` draws it')
})

t.test('the table of what is kept where has every kind of object, and no other', async (t) => {
  const kept = prefixesIn(section('What is kept where', PAGE)).filter((word) => word !== 'usage-segments/')
  t.same(kept, PREFIXES)
})

t.test('the rules for a bucket say how long each kind of object is needed', async (t) => {
  const readme = readFileSync(new URL('scripts/deploy/README.md', ROOT), 'utf8')
  const [, rules = ''] = readme.split('\n## Lifecycle rules of the bucket\n')
  t.same(prefixesIn(rules.split('\n## ')[0] ?? ''), PREFIXES)
})
