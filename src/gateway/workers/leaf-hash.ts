import { createHash, type Hash } from 'node:crypto'
import type { AudioRef } from '../../contracts/audio.ts'
import { LEAF_BYTES, type LeafHashing } from '../../contracts/media.ts'
import { decodeBase64 } from './base64.ts'

const HASH_BYTES = 32
/** Text decoded at a time; see `base64-text.ts`. */
const TEXT_SLICE = 64 * 1024
/** Lives as long as its thread, and is done with whenever a function returns. */
const decoded = new Uint8Array((TEXT_SLICE / 4) * 3)

/** Hashes bytes that are cut anywhere; holds a hash state and the hashes so far, none of the bytes. */
export class LeafHashes implements LeafHashing {
  readonly #leaves: Buffer[] = []
  #leaf: Hash | null = null
  /** Bytes of the leaf so far. */
  #filled = 0

  update(view: Uint8Array): void {
    for (let at = 0; at < view.length; ) {
      const part = view.subarray(at, at + LEAF_BYTES - this.#filled)
      this.#leaf ??= createHash('sha256')
      this.#leaf.update(part)
      this.#filled += part.length
      at += part.length
      if (this.#filled === LEAF_BYTES) this.#endLeaf(this.#leaf)
    }
  }

  finish(): Uint8Array {
    if (this.#leaf !== null) this.#endLeaf(this.#leaf)
    // Not by Buffer.concat: a message would carry all of the pool that its result is a slice of.
    const hashes = new Uint8Array(this.#leaves.length * HASH_BYTES)
    for (const [i, leaf] of this.#leaves.entries()) hashes.set(leaf, i * HASH_BYTES)
    return hashes
  }

  #endLeaf(leaf: Hash): void {
    this.#leaves.push(leaf.digest())
    this.#leaf = null
    this.#filled = 0
  }
}

/** See `LeafHasher.hash`. */
export function hashLeaves(views: readonly Uint8Array[], encoding: AudioRef['encoding']): Uint8Array {
  const hashes = new LeafHashes()
  if (encoding === 'identity') for (const view of views) hashes.update(view)
  else decodeEach(views, (bytes) => hashes.update(bytes))
  return hashes.finish()
}

/** Decodes canonical base64 whose groups of four may lie across two views, or more. */
function decodeEach(views: readonly Uint8Array[], take: (bytes: Uint8Array) => void): void {
  const decode = (text: Uint8Array) => {
    const written = decodeBase64(text, decoded)
    if (written < 0) throw new Error('audio to be hashed is no base64, though it was when it arrived')
    take(decoded.subarray(0, written))
  }
  const group = new Uint8Array(4)
  let grouped = 0
  for (const view of views) {
    let at = grouped === 0 ? 0 : Math.min(4 - grouped, view.length)
    group.set(view.subarray(0, at), grouped)
    grouped += at
    if (grouped === 4) {
      decode(group)
      grouped = 0
    }
    const end = grouped > 0 ? at : view.length - ((view.length - at) % 4)
    for (; at < end; at += TEXT_SLICE) decode(view.subarray(at, Math.min(at + TEXT_SLICE, end)))
    group.set(view.subarray(end), grouped)
    grouped += view.length - end
  }
  if (grouped > 0) decode(group.subarray(0, grouped))
}

/** Views of shared memory: the message carries offsets and lengths, never the bytes. */
export interface LeavesTask {
  readonly views: readonly Uint8Array<SharedArrayBuffer>[]
  readonly encoding: AudioRef['encoding']
}

/** A task of the worker threads, by its file and this name. */
export function hash({ views, encoding }: LeavesTask): Uint8Array {
  return hashLeaves(views, encoding)
}
