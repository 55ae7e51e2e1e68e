import type { Merged, MergeTask } from './tasks.ts'
import { createTaskThread } from './thread.ts'

/** A thread costs some 30 MB with what it reads and writes Parquet by; files are merged once an hour. */
const IDLE_MS = 10_000
/** Of the heap; bytes of files are outside of it, and bounded by what is merged at a time. */
const HEAP_MIB = 512

const FILENAME = new URL('./tasks.ts', import.meta.url).href

/** Merges files of usage and sums them up, one task after the other, in a thread that ends when it is idle. */
export interface UsageWorker {
  /** Makes one file of some; their bytes are the caller's no more. */
  merge(task: MergeTask): Promise<Merged>
  /** Makes the sums of a file of records. */
  sumUp(file: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>
  /** Ends the thread; a task under way fails. */
  close(): Promise<void>
}

/** A thread of its own: calls wait for what the others do. */
export function createUsageWorker(): UsageWorker {
  const { run, close } = createTaskThread({ filename: FILENAME, idleMs: IDLE_MS, heapMib: HEAP_MIB })
  return {
    merge(task) {
      const bytes = task.inputs.flatMap(({ file, aggregate }) =>
        aggregate === null ? [file] : [file, aggregate],
      )
      const moved = bytes.map(({ buffer }) => buffer)
      return run('merge', task, moved) as Promise<Merged>
    },
    sumUp: (file) => run('sumUp', file) as Promise<Uint8Array<ArrayBuffer>>,
    close,
  }
}
