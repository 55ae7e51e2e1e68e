// Draws docs/buildings.svg: which room of `src/` imports which, as a matrix in the order of the layers. A mark below
// the diagonal would be an import that runs up.
//
//   npm run buildings

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LAYERS, roomOf } from '../test/support/layers.ts'
import { sourceImports } from '../test/support/source-imports.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const PICTURE = join(ROOT, 'docs/buildings.svg')

const CELL = 20
const LABEL_WIDTH = 180
const MARGIN = 8
const COLOURS: Readonly<Record<string, string>> = {
  contracts: '#8a8f98',
  usage: '#b7791f',
  console: '#2f855a',
  sandbox: '#805ad5',
  cli: '#c05621',
  main: '#c05621',
  gateway: '#2b6cb0',
}

/** The rooms that files of each room import from. */
function importedRooms(): ReadonlyMap<string, ReadonlySet<string>> {
  const found = Map.groupBy(sourceImports(), ({ from }) => roomOf(`src/${from}`))
  return new Map([...found].map(([room, all]) => [room, new Set(all.map(({ to }) => roomOf(`src/${to}`)))]))
}

const colourOf = (room: string) => COLOURS[room.split('/')[0] ?? ''] ?? '#000000'

/** The picture, from the imports as they are. */
export function drawBuildings(): string {
  const rooms = LAYERS.flat()
  const imported = importedRooms()
  const size = rooms.length * CELL
  const [left, top] = [LABEL_WIDTH, LABEL_WIDTH]
  const parts: string[] = []
  for (const [row, from] of rooms.entries()) {
    const y = top + row * CELL
    const x = left + row * CELL + 14
    parts.push(
      `<text x="${left - 6}" y="${y + 14}" text-anchor="end" fill="${colourOf(from)}">${from}</text>`,
      `<text transform="translate(${x} ${top - 6}) rotate(-60)" fill="${colourOf(from)}">${from}</text>`,
      `<rect class="own" x="${left + row * CELL}" y="${y}" width="${CELL}" height="${CELL}"/>`,
    )
    for (const [column, to] of rooms.entries())
      if (to !== from && imported.get(from)?.has(to))
        parts.push(
          `<rect x="${left + column * CELL + 4}" y="${y + 4}" width="12" height="12" rx="2" fill="${colourOf(to)}">` +
            `<title>${from} imports ${to}</title></rect>`,
        )
  }
  let at = 0
  for (const layer of [[], ...LAYERS]) {
    at += layer.length * CELL
    parts.push(`<path class="line" d="M${left} ${top + at}h${size}M${left + at} ${top}v${size}"/>`)
  }
  const [width, height] = [left + size + LABEL_WIDTH / 2, top + size + MARGIN]
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`,
    '<style>text{font:12px system-ui,sans-serif}.line{stroke:#8a8f9866}.own{fill:#8a8f9844}</style>',
    ...parts,
    '</svg>\n',
  ].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(PICTURE, drawBuildings())
