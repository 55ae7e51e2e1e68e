/** Views of shared memory: the message carries offsets and lengths, never the bytes. */
export interface Base64Task {
  readonly text: Uint8Array<SharedArrayBuffer>
  readonly out: Uint8Array<SharedArrayBuffer>
}

/** The task of the worker threads. Piscina calls the default export of its file; this is the name it is given. */
export function decode({ text, out }: Base64Task): number {
  return decodeBase64(text, out)
}

/**
 * Text decoded at a time. A string of this size still stays in the young heap: 6.5 GB/s, against 1.1 GB/s with slices
 * of 128 KiB.
 */
const SLICE_BYTES = 64 * 1024
const PADDING = '='.charCodeAt(0)

/** Bytes that `text`, base64 without white space, decodes to. */
function decodedLength(text: Uint8Array): number {
  const padding = text.at(-1) !== PADDING ? 0 : text.at(-2) !== PADDING ? 1 : 2
  return (text.length / 4) * 3 - padding
}

/**
 * Decodes base64, of the standard or the URL-safe alphabet, slice by slice.
 *
 * @param text length divisible by 4, padding only at its end
 * @param out  at least as long as the decoded text
 * @returns decoded bytes written, or -1 when `text` is no base64 or `out` too short
 */
export function decodeBase64(text: Uint8Array, out: Uint8Array): number {
  if (text.length === 0) return 0
  const expected = decodedLength(text)
  if (text.length % 4 !== 0 || expected > out.length) return -1
  const source = Buffer.from(text.buffer, text.byteOffset, text.byteLength)
  const target = Buffer.from(out.buffer, out.byteOffset, out.byteLength)
  let written = 0
  for (let from = 0; from < source.length; from += SLICE_BYTES) {
    const slice = source.toString('latin1', from, from + SLICE_BYTES)
    const last = from + SLICE_BYTES >= source.length
    // Node's decoder skips invalid characters and stops at padding, so anything wrong makes the result too short.
    const wanted = last ? expected - written : (SLICE_BYTES / 4) * 3
    if (target.write(slice, written, wanted, 'base64') !== wanted) return -1
    written += wanted
  }
  return written
}
