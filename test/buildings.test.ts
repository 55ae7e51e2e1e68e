import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { importsIn, readSource } from './support/source-text.ts'

const SOURCES = fileURLToPath(new URL('../src/', import.meta.url))
/** Everyone may import all of it. */
const OPEN = 'contracts'

const buildings = readdirSync(SOURCES).filter((name) => !name.includes('.'))
const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((path) =>
  /\.(?:ts|lua)$/.test(path),
)
const buildingOf = (path: string) => path.split('/')[0]!
const read = (path: string) => readFileSync(SOURCES + path, 'utf8')

/** An import of a file of another building; the entry points `main.ts` and `cli.ts` are buildings of one file. */
interface Arrow {
  readonly from: string
  readonly to: string
}

const arrows: Arrow[] = files
  .filter((path) => path.endsWith('.ts'))
  .flatMap((from) =>
    importsIn(readSource(read(from)))
      .filter(({ target }) => target.startsWith('.'))
      .map(({ target }) => ({ from, to: posix.join(posix.dirname(from), target) }))
      .filter(({ to }) => !to.startsWith('..') && buildingOf(to) !== buildingOf(from)),
  )

const unique = (names: readonly string[]) => [...new Set(names)].sort()
const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)

for (const building of buildings) {
  const readme = read(`${building}/README.md`)
  const [, entries = ''] = /^## Entry files\n\n([\s\S]*?)\n\n## /m.exec(readme) ?? []
  const [imported = '', open = ''] = entries.split(/(?=Others may import|Everyone may import)/)

  t.test(`${building} imports what its README says, and no other building`, async (t) => {
    const targets = arrows.filter(({ from }) => buildingOf(from) === building).map(({ to }) => buildingOf(to))
    t.same(unique(codeIn(imported)), unique(targets))
  })

  t.test(`others import the entry files of ${building} alone, and each is one for a reason`, async (t) => {
    const targets = arrows.filter(({ to }) => buildingOf(to) === building).map(({ to }) => to)
    t.same(
      building === OPEN ? [] : unique(codeIn(open).map((name) => `${building}/${name}`)),
      building === OPEN ? codeIn(open) : unique(targets),
    )
  })

  t.test(`${building} stays within its budget of lines`, async (t) => {
    const [, budget = ''] = /^## Budget\n\n([\d,]+) lines/m.exec(readme) ?? []
    const own = files.filter((path) => buildingOf(path) === building)
    const lines = own.reduce((sum, path) => sum + read(path).split('\n').length - 1, 0)
    t.ok(lines <= Number(budget.replaceAll(',', '')), `${lines} lines, and a budget of ${budget}`)
    t.ok(readme.split('\n').length <= 60, 'its README is a page')
  })
}
