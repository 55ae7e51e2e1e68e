import { CHARACTER_GAP_UNITS, characterOf, DASH_UNITS, type Mark, WORD_GAP_UNITS } from './morse.ts'
import { readPng, writePng } from './png.ts'
import { marksOf } from './telegraph.ts'

/** Keyword of the note that holds the side of a unit, pixels. */
const UNIT = 'Unit'
const BLACK = 0
const WHITE = 255

/**
 * Draws a text as Morse code, a square a unit, line by line with a line of white between; null when it does not fit or
 * cannot be said.
 */
export function drawMorse(text: string, width: number, height: number): Buffer | null {
  const marks = marksOf(text)
  if (marks === null) return null
  const units = marks.flatMap(({ tone, units }) => Array.from({ length: units }, () => tone))
  const side = sideOf(units.length, width, height)
  if (side === null) return null
  const columns = Math.floor(width / side)
  const pixels = new Uint8Array(width * height).fill(WHITE)
  for (const [index, tone] of units.entries()) {
    if (!tone) continue
    const [left, top] = [(index % columns) * side, Math.floor(index / columns) * 2 * side]
    for (let y = top; y < top + side; y += 1) pixels.fill(BLACK, y * width + left, y * width + left + side)
  }
  return writePng({ width, height, pixels, notes: { [UNIT]: String(side) } })
}

/** What a picture says that `drawMorse` drew; of another picture, what it is. */
export function describePicture(bytes: Buffer, mediaType: string): string {
  const picture = readPng(bytes)
  if (picture === null) return `${bytes.length} bytes of ${mediaType}`
  const { width, height, pixels, notes } = picture
  const side = Number(notes[UNIT])
  const plain = `a picture of ${width}x${height} pixels`
  if (!Number.isInteger(side) || side < 1 || side > width) return plain
  const columns = Math.floor(width / side)
  const lines = Math.floor((height + side) / (2 * side))
  const units = Array.from({ length: columns * lines }, (_, index) => {
    const [x, y] = [(index % columns) * side, Math.floor(index / columns) * 2 * side]
    return pixels[y * width + x] === BLACK
  })
  return readMarks(runsOf(units)) ?? plain
}

/** The largest square that lets all units fit; null when even a pixel is too much. */
function sideOf(units: number, width: number, height: number): number | null {
  for (let side = Math.min(width, height); side >= 1; side -= 1) {
    if (Math.floor(width / side) * Math.floor((height + side) / (2 * side)) >= units) return side
  }
  return null
}

function runsOf(units: readonly boolean[]): Mark[] {
  const runs: { tone: boolean; units: number }[] = []
  for (const tone of units) {
    const last = runs.at(-1)
    if (last?.tone === tone) last.units += 1
    else runs.push({ tone, units: 1 })
  }
  return runs
}

/** Null when the runs are no Morse code. The white behind the last mark does not count. */
function readMarks(runs: readonly Mark[]): string | null {
  const last = runs.findLastIndex(({ tone }) => tone)
  let text = ''
  let symbol = ''
  for (const { tone, units } of runs.slice(0, last + 1)) {
    if (tone) symbol += units === 1 ? '.' : units === DASH_UNITS ? '-' : '?'
    else if (units === CHARACTER_GAP_UNITS || units === WORD_GAP_UNITS) {
      const character = characterOf(symbol)
      if (character === null) return null
      text += units === WORD_GAP_UNITS ? `${character} ` : character
      symbol = ''
    } else if (units !== 1) return null
  }
  const character = characterOf(symbol)
  return character === null ? null : text + character
}
