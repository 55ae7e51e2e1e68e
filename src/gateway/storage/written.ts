import { crc32 } from 'node:zlib'
import type { WrittenBytes } from '../../contracts/audio.ts'

/** Counts the bytes of an object on their way to the store or back, and makes their CRC-32. */
export class WrittenTally {
  #bytes = 0
  #crc32 = 0

  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length
    this.#crc32 = crc32(chunk, this.#crc32)
  }

  get written(): WrittenBytes {
    return { bytes: this.#bytes, crc32: this.#crc32 }
  }
}

/** Counts `body` in `tally` while it passes. */
export async function* tallied(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  tally: WrittenTally,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    tally.add(chunk)
    yield chunk
  }
}
