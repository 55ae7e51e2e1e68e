import type { AudioRef } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { Objects } from '../../contracts/objects.ts'
import { chunksOf, copyBytes, objectBytes } from './body-bytes.ts'

/** Larger audio takes its time anyway, and its memory is for others. */
const AHEAD_BYTES_MAX = 256 * 1024

/** Begins to read stored audio that is about to be sent. @returns gives back what it holds; idempotent */
export type BeginReading = (audio: AudioRef, signal: AbortSignal) => () => void

export interface ReadAhead {
  /** As in `Objects`; what is being read already is handed out once. */
  readonly get: Objects['get']
  readonly begin: BeginReading
}

/**
 * Reads the audio of a job while its money is reserved: the trip to the store is over by the time the provider is
 * connected. Where there is no memory for it nothing is read ahead.
 */
export function createReadAhead(objects: Pick<Objects, 'get'>, budget: ByteBudget): ReadAhead {
  const reading = new Map<string, Promise<Uint8Array>>()
  return {
    async get(key, start, end, signal) {
      const name = rangeName(key, start, end)
      const ahead = reading.get(name)
      if (ahead === undefined) return objects.get(key, start, end, signal)
      // Another attempt reads for itself: this one's bytes may still lie in the queue of a socket.
      reading.delete(name)
      const bytes = await ahead.catch(() => null)
      return bytes === null ? objects.get(key, start, end, signal) : chunksOf(bytes)
    },

    begin({ source, offset, length }, signal) {
      if (source.kind !== 'object' || length > AHEAD_BYTES_MAX || !budget.tryReserve(length)) return () => {}
      const name = rangeName(source.key, offset, offset + length)
      const ahead = copyBytes(objectBytes(objects, source.key, offset, offset + length, signal), length)
      // Whoever reads it asks the store again, and is told then.
      ahead.catch(() => {})
      reading.set(name, ahead)
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        if (reading.get(name) === ahead) reading.delete(name)
        budget.refund(length)
      }
    },
  }
}

function rangeName(key: string, start: number, end: number): string {
  return `${key} ${start} ${end}`
}
