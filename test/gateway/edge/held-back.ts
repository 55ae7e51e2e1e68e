const PIECE = Buffer.alloc(8_000, 'x').fill('!', 7_999)

/** Pieces of a stream until one is not taken at once: the reader is behind, and the kernel holds what it can. */
export async function* untilHeldBack(): AsyncGenerator<Uint8Array, void> {
  for (;;) {
    const yieldedMs = performance.now()
    yield PIECE
    if (performance.now() - yieldedMs > 300) return
  }
}
