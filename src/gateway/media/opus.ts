/** Opus always counts samples at 48 kHz, whatever the recording's rate. */
export const OPUS_RATE = 48_000

/**
 * Samples at 48 kHz in the Opus packet at `at`, by its first two bytes (RFC 6716 section 3.1); 0 when there is none.
 */
export function opusSamples(bytes: Uint8Array, at: number): number {
  const toc = bytes[at]
  if (toc === undefined) return 0
  const code = toc & 3
  const frames = code === 0 ? 1 : code === 3 ? (bytes[at + 1] ?? 0) & 63 : 2
  return frames * frameSamples(toc >> 3)
}

function frameSamples(configuration: number): number {
  const size = configuration & 3
  // SILK: 10, 20, 40 and 60 ms. Hybrid: 10 and 20 ms. CELT: 2.5, 5, 10 and 20 ms.
  if (configuration < 12) return size === 3 ? 2880 : 480 << size
  if (configuration < 16) return 480 << (size & 1)
  return 120 << size
}
