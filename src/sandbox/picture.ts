import { crc32, deflateSync, inflateSync } from 'node:zlib'
import { CHARACTER_GAP_UNITS, characterOf, DASH_UNITS, type Mark, marksOf, WORD_GAP_UNITS } from './morse.ts'

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

/** Reads the text in a picture that `drawMorse` drew; describes any other picture. */
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

/** Null when the runs are not Morse code. The white behind the last mark does not count. */
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

/** A greyscale picture, a byte a pixel, 0 is black. */
interface Picture {
  readonly width: number
  readonly height: number
  readonly pixels: Uint8Array
  /** Texts of the file by keyword. */
  readonly notes: Readonly<Record<string, string>>
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const HEAD_BYTES = 13
/** Largest picture that is read, pixels: a few bytes may claim to be any number of them. */
const PIXELS_MAX = 32 * 1024 * 1024

/** Writes a PNG (ISO/IEC 15948): 8 bits of grey, no filter, not interlaced. */
export function writePng({ width, height, pixels, notes }: Picture): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head[8] = 8
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y += 1)
    rows.set(pixels.subarray(y * width, (y + 1) * width), y * (width + 1) + 1)
  const texts = Object.entries(notes).map(([name, text]) =>
    chunk('tEXt', Buffer.from(`${name}\0${text}`, 'latin1')),
  )
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', head),
    ...texts,
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND'),
  ])
}

/** Reads what `writePng` writes; null for any other bytes, other kinds of PNG among them. */
function readPng(bytes: Buffer): Picture | null {
  if (!bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE)) return null
  const chunks = chunksIn(bytes)
  const head = chunks.find(({ type }) => type === 'IHDR')?.data
  if (head === undefined || head.length !== HEAD_BYTES) return null
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)]
  const plain = head[8] === 8 && head[9] === 0 && head[12] === 0
  if (!plain || width * height === 0 || width * height > PIXELS_MAX) return null
  const pixels = pixelsOf(chunks, width, height)
  return pixels && { width, height, pixels, notes: notesOf(chunks) }
}

interface Chunk {
  readonly type: string
  readonly data: Buffer
}

function pixelsOf(chunks: readonly Chunk[], width: number, height: number): Uint8Array | null {
  const packed = Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data))
  const expected = height * (width + 1)
  let rows: Buffer
  try {
    rows = inflateSync(packed, { maxOutputLength: expected })
  } catch {
    return null
  }
  if (rows.length !== expected) return null
  const pixels = new Uint8Array(width * height)
  for (let y = 0; y < height; y += 1) {
    const at = y * (width + 1)
    if (rows[at] !== 0) return null
    pixels.set(rows.subarray(at + 1, at + 1 + width), y * width)
  }
  return pixels
}

function notesOf(chunks: readonly Chunk[]): Record<string, string> {
  const notes: Record<string, string> = {}
  for (const { type, data } of chunks) {
    const [name, text] = type === 'tEXt' ? data.toString('latin1').split('\0') : []
    if (name !== undefined && text !== undefined) notes[name] = text
  }
  return notes
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const whole = Buffer.alloc(12 + data.length)
  whole.writeUInt32BE(data.length, 0)
  whole.write(type, 4, 'latin1')
  whole.set(data, 8)
  whole.writeUInt32BE(crc32(whole.subarray(4, 8 + data.length)), 8 + data.length)
  return whole
}

function chunksIn(bytes: Buffer): Chunk[] {
  const chunks: Chunk[] = []
  for (let at = SIGNATURE.length; at + 12 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    if (at + 12 + length > bytes.length) break
    chunks.push({
      type: bytes.toString('latin1', at + 4, at + 8),
      data: bytes.subarray(at + 8, at + 8 + length),
    })
    at += 12 + length
  }
  return chunks
}
