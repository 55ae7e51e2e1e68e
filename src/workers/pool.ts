import { availableParallelism } from 'node:os'
import { Piscina } from 'piscina'
import type { Base64Decoder } from '../schema/media.ts'
import type { Base64Task } from './base64.ts'
import { decodeBase64 } from './base64-text.ts'

/**
 * Text from which a worker decodes. A task costs the event loop 20 to 30 µs whatever its size, decoding inline 85 to
 * 100 µs per MiB: at 256 KiB they are even, here it is 42 against 100 and at 1 MiB 28 against 97, for up to twice the
 * CPU in all (`bench/micro/offload.ts`, medians on two cores of an AMD EPYC).
 */
export const OFFLOAD_BYTES = 512 * 1024
/** A thread decodes some 6 GB/s; more of them would only hold memory. */
const MAX_THREADS = 4
/** A thread costs some 10 MB, so it does not outlive the work by much. */
const IDLE_MS = 30_000

export interface Workers {
  readonly decoder: Base64Decoder
  /** Ends the threads; tasks under way are failed. */
  close(): Promise<void>
}

/** Starts the threads that compute what would hold up the event loop. */
export function createWorkers(): Workers {
  const pool = new Piscina<Base64Task, number>({
    filename: new URL('./base64.ts', import.meta.url).href,
    name: 'decode',
    minThreads: 0,
    maxThreads: Math.max(1, Math.min(MAX_THREADS, availableParallelism() - 1)),
    idleTimeout: IDLE_MS,
  })
  return {
    decoder: {
      decode(text, out) {
        if (text.length < OFFLOAD_BYTES || !isShared(text) || !isShared(out)) return decodeBase64(text, out)
        return pool.run({ text, out })
      },
    },
    close: () => pool.destroy(),
  }
}

/** Only shared memory reaches a thread without a copy, and a copy costs more than decoding. */
function isShared(view: Uint8Array): view is Uint8Array<SharedArrayBuffer> {
  return view.buffer instanceof SharedArrayBuffer
}
