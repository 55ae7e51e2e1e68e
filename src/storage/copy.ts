/**
 * Copies `source` into `target` at `at`. What does not fit must not be given.
 *
 * Not by `set`: into shared memory V8 copies byte by byte, at 4 GB/s, unless both sides happen to be aligned alike,
 * which chunks of a body never are. `fill` ends in one memcpy, at 16 to 29 GB/s.
 */
export function copyInto(target: Uint8Array, at: number, source: Uint8Array): void {
  if (source.length > 0) Buffer.prototype.fill.call(target, source, at, at + source.length)
}
