import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { type Call, createCommit } from './commit.ts'
import { openDatabase } from './database.ts'
import { createOperations } from './operations.ts'

// Entry of the thread that owns the file: a flush to the disk must not stop the gateway's event loop.

export interface WorkerOptions {
  readonly file: string
  /** Longest that a write waits for another process, ms. */
  readonly busyMs?: number | undefined
}

/** Calls of one turn of the node, and the moment of its clock, epoch ms: the thread has no time of its own. */
export interface Calls {
  readonly atMs: number
  readonly calls: readonly Call[]
}

/** Most calls that share a flush: the first of them waits for the last one. */
const GROUP_MAX = 500

const port = parentPort!
const { file, busyMs } = workerData as WorkerOptions
let nowMs = 0
const db = openDatabase(file, { busyMs, onCopied: (copied) => port.postMessage({ copied }) })
const commit = createCommit(
  db,
  createOperations(db, () => nowMs),
)

port.on('message', (first: Calls | 'close') => {
  const calls: Call[] = []
  // Calls that came while the last group was flushed are one group.
  for (let next: { message: Calls | 'close' } | undefined = { message: first }; next; ) {
    if (next.message === 'close') return close(calls)
    nowMs = next.message.atMs
    calls.push(...next.message.calls)
    next = calls.length < GROUP_MAX ? receiveMessageOnPort(port) : undefined
  }
  answerCalls(calls)
})
port.postMessage('open')

function answerCalls(calls: readonly Call[]): void {
  for (let from = 0; from < calls.length; from += GROUP_MAX)
    port.postMessage(commit(calls.slice(from, from + GROUP_MAX)))
}

function close(last: readonly Call[]): void {
  answerCalls(last)
  db.close()
  port.close()
}
