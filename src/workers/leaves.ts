import type { AudioRef } from '../schema/audio.ts'
import { hashLeaves } from './leaf-hash.ts'

/** Views of shared memory: the message carries offsets and lengths, never the bytes. */
export interface LeavesTask {
  readonly views: readonly Uint8Array<SharedArrayBuffer>[]
  readonly encoding: AudioRef['encoding']
}

/** A task of the worker threads, by its file and this name. */
export function hash({ views, encoding }: LeavesTask): Uint8Array {
  return hashLeaves(views, encoding)
}
