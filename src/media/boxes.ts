import { latin1, u32be, u64be } from './bytes.ts'
import type { AudioWindow } from './window.ts'

/** A box of an ISO base media file (ISO/IEC 14496-12 section 4.2). */
export interface Box {
  readonly type: string
  /** First byte of the header. */
  readonly at: number
  /** First byte behind the header. */
  readonly from: number
  /** First byte behind the box, cut to what contains it. */
  readonly end: number
}

/** The boxes that follow one another from `at` to `end`. Ends early at a size that cannot be. */
export async function* boxes(window: AudioWindow, at: number, end: number): AsyncGenerator<Box> {
  for (let next = at; next + 8 <= end; ) {
    const box = readBox(await window.from(next, 16), next, end)
    if (!box) return
    yield box
    next = box.end
  }
}

/**
 * The box whose header `bytes` begins with, at `at` within something that ends at `end`; null when it is
 * none.
 */
export function readBox(bytes: Uint8Array, at: number, end: number): Box | null {
  if (bytes.length < 8) return null
  const short = u32be(bytes, 0)
  const headerBytes = short === 1 ? 16 : 8
  // Zero: up to the end of the file.
  const size = short === 0 ? end - at : short === 1 ? u64be(bytes, 8) : short
  if (size < headerBytes) return null
  return { type: latin1(bytes, 4, 4), at, from: at + headerBytes, end: Math.min(at + size, end) }
}
