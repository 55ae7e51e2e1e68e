import { u16be, u32be } from './bytes.ts'

/** Identifier and length of an EBML element (RFC 8794 sections 4 to 6). */
export interface Element {
  readonly id: number
  readonly headerBytes: number
  /** Infinite when unknown. */
  readonly size: number
}

/** The element at `at`, or null. */
export function readElement(bytes: Uint8Array, at: number): Element | null {
  const first = bytes[at] ?? 0
  const idBytes = Math.clz32(first) - 23
  if (idBytes > 4) return null
  let id = 0
  for (let index = at; index < at + idBytes; index++) id = id * 256 + (bytes[index] ?? 0)

  const marked = bytes[at + idBytes] ?? 0
  const sizeBytes = Math.clz32(marked) - 23
  if (sizeBytes > 8) return null
  let size = marked - (1 << (8 - sizeBytes))
  let isUnknown = size === (1 << (8 - sizeBytes)) - 1
  for (let index = at + idBytes + 1; index < at + idBytes + sizeBytes; index++) {
    const byte = bytes[index] ?? 0
    size = size * 256 + byte
    isUnknown &&= byte === 0xff
  }
  return { id, headerBytes: idBytes + sizeBytes, size: isUnknown ? Number.POSITIVE_INFINITY : size }
}

/** A track number has the form of an element's size. */
export function trackNumber(bytes: Uint8Array, at: number): { value: number; bytes: number } | null {
  const first = bytes[at] ?? 0
  const length = Math.clz32(first) - 23
  if (length > 2) return null
  return { bytes: length, value: length === 1 ? first & 0x7f : u16be(bytes, at) & 0x3fff }
}

export function unsigned(bytes: Uint8Array, at: number, size: number): number {
  let value = 0
  for (let index = at; index < at + Math.min(size, 8); index++) value = value * 256 + (bytes[index] ?? 0)
  return value
}

export function float(bytes: Uint8Array, at: number, size: number): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setUint32(0, u32be(bytes, at))
  if (size === 4) return view.getFloat32(0)
  view.setUint32(4, u32be(bytes, at + 4))
  return size === 8 ? view.getFloat64(0) : 0
}
