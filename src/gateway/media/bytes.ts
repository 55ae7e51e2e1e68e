// Numbers out of bytes. Reading past the end counts the missing bytes as zero, so that a parser of hostile
// input needs no try: it checks lengths where they matter and gets a number everywhere else.

export const u16be = (bytes: Uint8Array, at: number): number => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)

export const u16le = (bytes: Uint8Array, at: number): number => (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8)

export const u32be = (bytes: Uint8Array, at: number): number =>
  u16be(bytes, at) * 0x10000 + u16be(bytes, at + 2)

export const u32le = (bytes: Uint8Array, at: number): number =>
  u16le(bytes, at) + u16le(bytes, at + 2) * 0x10000

/** Exact up to 2^53; no file is that long, so what lies above is only ever compared. */
export const u64be = (bytes: Uint8Array, at: number): number =>
  u32be(bytes, at) * 0x1_0000_0000 + u32be(bytes, at + 4)

/** Exact up to 2^53, as `u64be`. */
export const u64le = (bytes: Uint8Array, at: number): number =>
  u32le(bytes, at) + u32le(bytes, at + 4) * 0x1_0000_0000

/** `length` bytes as ISO 8859-1; shorter when they end. */
export const latin1 = (bytes: Uint8Array, at: number, length: number): string =>
  view(bytes).toString('latin1', at, at + length)

/** Position of the last `pattern` in `bytes` before `end`, or -1. */
export const lastIndexOf = (bytes: Uint8Array, pattern: Uint8Array | string, end: number): number =>
  end < 0 ? -1 : view(bytes).lastIndexOf(pattern, end, 'latin1')

/** Position of the first `pattern` in `bytes` at or after `start`, or -1. */
export const indexOf = (bytes: Uint8Array, pattern: string, start: number): number =>
  view(bytes).indexOf(pattern, start, 'latin1')

/** The same memory as a Buffer; works for shared memory too. */
function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** A chunk stays valid while one more is asked for, so it is only copied where a read crosses into the next. */
export function joinedBytes(rest: Uint8Array, chunk: Uint8Array): Uint8Array {
  if (rest.length === 0) return chunk
  const both = new Uint8Array(rest.length + chunk.length)
  both.set(rest)
  both.set(chunk, rest.length)
  return both
}
