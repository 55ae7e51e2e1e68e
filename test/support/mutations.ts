import fc from 'fast-check'

/** Bytes that counts and sizes are likely to stumble over. */
const lie = fc.oneof(
  fc.constantFrom(
    [0],
    [0xff],
    [0, 0, 0, 0],
    [0xff, 0xff, 0xff, 0xff],
    [0x7f, 0xff, 0xff, 0xff],
    [0x80, 0, 0, 0],
  ),
  fc.array(fc.nat(255), { minLength: 1, maxLength: 9 }),
)
/** A change to a file. */
export const change = fc.record({
  place: fc.double({ min: 0, max: 1, noNaN: true }),
  inHead: fc.boolean(),
  bytes: lie,
})

/** A copy with changes. */
export function mutated(
  original: Buffer,
  changes: readonly { place: number; inHead: boolean; bytes: readonly number[] }[],
): Buffer {
  const copy = Buffer.from(original)
  for (const { place, inHead, bytes } of changes) {
    copy.set(
      bytes,
      Math.floor(place * (inHead ? Math.min(600, copy.length) : copy.length) - bytes.length * place),
    )
  }
  return copy
}
