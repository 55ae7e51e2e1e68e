import type { AudioReader } from '../../contracts/audio.ts'
import { nextTurn } from '../../contracts/time.ts'
import type { Piece } from '../../contracts/upstream.ts'

/** State of reading the audio: its failures are the store's, not the provider's. */
export class Reading {
  /** Made when there is audio to read: most requests have none. */
  #controller: AbortController | null = null
  #stopped: Error | null = null
  failed = false
  error: unknown = undefined
  /** Settles when no generator reads the body any more, so that its memory may be given back; null: none ever did. */
  ended: Promise<void> | null = null

  /** Aborts when the reading is to stop. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#stopped !== null) this.#controller.abort(this.#stopped)
    return this.#controller.signal
  }

  stop(reason: Error): void {
    this.#stopped ??= reason
    this.#controller?.abort(reason)
  }
}

/** Largest body that is copied: in one write it costs less than a generator, which has one for each piece. */
const COPIED_BYTES_MAX = 32 * 1024

/** Bytes that the body has on the wire. */
export function bodyLength(pieces: readonly Piece[]): number {
  let bytes = 0
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) bytes += piece.length
    else
      bytes += piece.as === 'bytes' ? piece.audio.decodedBytes : 4 * Math.ceil(piece.audio.decodedBytes / 3)
  }
  return bytes
}

/**
 * A body with audio is copied or goes out as a generator, so that no pooled buffer lies in the queue of a socket when a
 * provider answers before it has read the whole: by then the buffer may hold another caller's audio.
 */
export function encodeBody(pieces: readonly Piece[], bytes: number, reader: AudioReader, reading: Reading) {
  const [only] = pieces
  if (only === undefined) return null
  if (pieces.length === 1 && only instanceof Uint8Array) return only
  const isSmall = bytes <= COPIED_BYTES_MAX
  const parts = pieces.map((piece) => (piece instanceof Uint8Array ? piece : isSmall && heldAudio(piece)))
  if (parts.every((part) => part instanceof Uint8Array)) return Buffer.concat(parts)
  return streamPieces(pieces, reader, reading)
}

/** Audio as it rests in one block; null: it has to be read. */
function heldAudio({ audio, as }: Exclude<Piece, Uint8Array>): Uint8Array | null {
  const { source, offset, length, encoding } = audio
  if (as !== 'bytes' || encoding !== 'identity' || source.kind !== 'memory') return null
  const part = source.blocks[0]?.subarray(offset, offset + length)
  return part?.length === audio.decodedBytes ? part : null
}

async function* streamPieces(pieces: readonly Piece[], reader: AudioReader, reading: Reading) {
  const { signal } = reading
  const { promise, resolve } = Promise.withResolvers<void>()
  reading.ended = promise
  try {
    for (const piece of pieces) {
      if (piece instanceof Uint8Array) yield piece
      else if (piece.as === 'bytes') yield* chunksInTurns(reader.bytes(piece.audio, signal))
      else yield* chunksInTurns(reader.base64(piece.audio, signal))
    }
  } catch (error) {
    reading.failed = !signal.aborted
    reading.error = error
    throw error
  } finally {
    resolve()
  }
}

/** Bytes handed to sockets in one turn of the event loop, by all bodies together: about half a millisecond of work. */
const TURN_BYTES = 1024 * 1024
/** Bytes of one body in a turn, so that at least two share it. */
const PART_BYTES = TURN_BYTES / 2

let leftBytes = TURN_BYTES

/**
 * Takes a part of this turn for a body that wants to be sent.
 *
 * @returns bytes that it may send; 0: none before the next turn
 */
function takeTurn(wantedBytes: number): number {
  if (leftBytes === TURN_BYTES) {
    // Before all who wait for the next turn from now on, and those come in the order in which they began to wait.
    setImmediate(() => {
      leftBytes = TURN_BYTES
    })
  }
  const bytes = Math.min(wantedBytes, leftBytes)
  leftBytes -= bytes
  return bytes
}

/**
 * Cuts large chunks and lets the event loop turn between the pieces: providers that take them as fast as they come
 * would otherwise hold up all others for the whole of their bodies, some 10 ms for 25 MB.
 */
async function* chunksInTurns(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let ownBytes = PART_BYTES
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const bytes = takeTurn(Math.min(ownBytes, chunk.length - at))
      if (bytes > 0) yield chunk.subarray(at, at + bytes)
      at += bytes
      ownBytes -= bytes
      if (bytes > 0 && ownBytes > 0) continue
      ownBytes = PART_BYTES
      await nextTurn()
    }
  }
}
