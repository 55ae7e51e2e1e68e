import { readdirSync } from 'node:fs'
import t from 'tap'
import { readSourceFile, SOURCES, sourceFiles, sourceImports } from './support/source-imports.ts'

/** Everyone may import all of it. */
const OPEN = 'contracts'

const buildings = readdirSync(SOURCES).filter((name) => !name.includes('.'))
const files = sourceFiles()
/** The entry points `main.ts` and `cli.ts` are buildings of one file. */
const buildingOf = (path: string) => path.split('/')[0]!
const arrows = sourceImports().filter(({ from, to }) => buildingOf(from) !== buildingOf(to))

const unique = (names: readonly string[]) => [...new Set(names)].sort()
const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)

for (const building of buildings) {
  const readme = readSourceFile(`${building}/README.md`)
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
    const lines = own.reduce((sum, path) => sum + readSourceFile(path).split('\n').length - 1, 0)
    t.ok(lines <= Number(budget.replaceAll(',', '')), `${lines} lines, and a budget of ${budget}`)
    t.ok(readme.split('\n').length <= 60, 'its README is a page')
  })
}
