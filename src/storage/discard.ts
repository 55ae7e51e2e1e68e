import type { StoredBody } from '../schema/audio.ts'
import type { BodyWriter, Spool } from '../schema/spool.ts'

/**
 * For bodies whose answer is known already: they are read to their end, checked and counted as all others, and no
 * byte of them is kept. The sender is never asked to stop, and there is no memory or store to wait for.
 */
export function createDiscardingSpool(): Spool {
  return { open: () => new DiscardedBody() }
}

class DiscardedBody implements BodyWriter {
  readonly ready = true
  onReady: () => void = () => {}
  onFailure: (error: Error) => void = () => {}
  #length = 0

  async start(): Promise<void> {}

  write(chunk: Uint8Array): void {
    this.#length += chunk.length
  }

  /** A body of that length with nothing in it: no reader can be asked for its audio. */
  async finish(): Promise<StoredBody> {
    return { source: { kind: 'memory', blocks: [] }, length: this.#length, release() {} }
  }

  async abort(): Promise<void> {}
}
