import type { Objects } from '../schema/objects.ts'
import { unavailable } from './failure.ts'

/** Bytes handed to the store at a time; small enough that a working store takes them long before it seems stalled. */
const CHUNK_BYTES = 256 * 1024

export interface WholePut {
  readonly key: string
  /** The body, of exactly `length` bytes; ends when the signal that it is given aborts. */
  readonly bytes: (signal: AbortSignal) => Iterable<Uint8Array> | AsyncIterable<Uint8Array>
  readonly length: number
  readonly withinMs: number
  readonly signal: AbortSignal
}

/**
 * Puts a body that is there already. When `signal` aborts after the last byte is out, the store's answer is awaited
 * all the same: before that only the store knows whether there is an object, and one that is deleted too early stays.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE; the signal's reason, also when the object is there by then
 */
export async function putWhole(objects: Objects, put: WholePut): Promise<void> {
  const { key, bytes, length, withinMs, signal } = put
  const leaving = new AbortController()
  let handed = 0
  const leave = () => {
    if (handed < length) leaving.abort(signal.reason)
  }
  const stop = AbortSignal.any([leaving.signal, AbortSignal.timeout(withinMs)])
  async function* body(): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes(stop)) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        const piece = chunk.subarray(at, at + CHUNK_BYTES)
        handed += piece.length
        yield piece
      }
    }
  }
  signal.throwIfAborted()
  signal.addEventListener('abort', leave, { once: true })
  try {
    await objects.put(key, body(), length, { signal: stop })
  } catch (error) {
    signal.throwIfAborted()
    throw unavailable(error)
  } finally {
    signal.removeEventListener('abort', leave)
  }
  signal.throwIfAborted()
}
