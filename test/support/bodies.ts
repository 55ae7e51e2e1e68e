import type { AudioRef } from '../../src/contracts/audio.ts'

/** One part of a multipart body; `headers` replaces what would be written for name, filename and type. */
export interface Part {
  readonly name?: string
  readonly filename?: string
  readonly type?: string
  readonly headers?: readonly string[]
  readonly body: Uint8Array | string
}

export interface MultipartOptions {
  readonly boundary?: string
  readonly preamble?: string
  readonly epilogue?: string
  /** Blanks behind each boundary. */
  readonly padding?: string
  readonly closed?: boolean
}

export interface MultipartBody {
  readonly contentType: string
  readonly body: Buffer
  /** Where the content of each part begins. */
  readonly offsets: readonly number[]
}

/** A multipart/form-data body as RFC 7578 has it, unless told otherwise. */
export function multipart(parts: readonly Part[], options: MultipartOptions = {}): MultipartBody {
  const {
    boundary = '----lark7MA4YWxkTrZu0gW',
    preamble,
    epilogue = '\r\n',
    padding = '',
    closed = true,
  } = options
  const pieces: Buffer[] = []
  const offsets: number[] = []
  let length = 0
  const add = (piece: Uint8Array | string) => {
    const bytes = Buffer.from(piece as string)
    pieces.push(bytes)
    length += bytes.length
  }
  if (preamble !== undefined) add(`${preamble}\r\n`)
  parts.forEach((part, index) => {
    add(`${index === 0 ? '' : '\r\n'}--${boundary}${padding}\r\n${partHeaders(part).join('\r\n')}\r\n\r\n`)
    offsets.push(length)
    add(part.body)
  })
  if (closed) add(`\r\n--${boundary}--${padding}${epilogue}`)
  return { contentType: `multipart/form-data; boundary="${boundary}"`, body: Buffer.concat(pieces), offsets }
}

function partHeaders({ headers, name = '', filename, type }: Part): readonly string[] {
  if (headers !== undefined) return headers
  const file = filename === undefined ? '' : `; filename="${filename}"`
  const disposition = `Content-Disposition: form-data; name="${name}"${file}`
  return type === undefined ? [disposition] : [disposition, `Content-Type: ${type}`]
}

/**
 * `bytes` in pieces that end at `cuts`, which may be in any order and repeated: equal ones make an empty
 * piece.
 */
export function fragment(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts, bytes.length].map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

/** `bytes` in pieces of `size` bytes. */
export function slices(bytes: Buffer, size: number): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size))
  return pieces.length === 0 ? [bytes] : pieces
}

/** A body in one piece, byte by byte and in sevens: to whoever reads it, the cuts must not matter. */
export function cutsOf(body: Buffer): Buffer[][] {
  return [[body], slices(body, 1), slices(body, 7)]
}

/** Audio that no parser may mistake for text: every byte value, in an order that does not repeat soon. */
export function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length)
  let state = seed
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    bytes[i] = state >>> 24
  }
  return bytes
}

/** The audio that a reference means, read out of the whole body by JSON's and Node's own decoders. */
export function readAudio(body: Buffer, { offset, length, encoding }: Omit<AudioRef, 'source'>): Buffer {
  const range = body.subarray(offset, offset + length)
  if (encoding === 'identity') return range
  return Buffer.from(JSON.parse(`"${range.toString('latin1').replace(/[\t\r\n]/g, ' ')}"`), 'base64')
}
