import { once } from 'node:events'
import type { StatementSync } from 'node:sqlite'
import { parentPort, receiveMessageOnPort } from 'node:worker_threads'
import { type Call, createCommit } from './commit.ts'
import { openDatabase } from './database.ts'
import { createOperations } from './operations.ts'

// Entry of the thread that owns the file: a flush to the disk must not stop the gateway's event loop.

export interface WorkerOptions {
  readonly file: string
  /** Longest that a write waits for another process, ms. */
  readonly busyMs?: number | undefined
}

/** Calls of one turn of the node, and the moment of its clock: the thread has no time of its own. */
export interface Calls {
  /** Epoch ms. */
  readonly atMs: number
  /** On the clock that is never set, ms. */
  readonly steadyMs: number
  readonly calls: readonly Call[]
}

/** Most calls that share a flush: the first of them waits for the last one. */
const GROUP_MAX = 500
/** Differences below this are drift between two calls, or too short to end a lease that is renewed in time. */
const STEP_MS = 2_000

const port = parentPort!
// Posted, as the thread may be started before its file is known.
const [{ file, busyMs }] = (await once(port, 'message')) as [WorkerOptions]
let nowMs = 0
const db = openDatabase(file, { busyMs, onCopied: (copied) => port.postMessage({ copied }) })
const extensions = extensionsOfLeases()
/** From the steady clock to that of the epoch; unknown at first. */
let offsetMs = Number.POSITIVE_INFINITY
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
    extendLeases(next.message)
    calls.push(...next.message.calls)
    next = calls.length < GROUP_MAX ? receiveMessageOnPort(port) : undefined
  }
  answerCalls(calls)
})
port.postMessage('open')

/**
 * Extends leases when the machine's clock is set forward, or runs on while the machine is suspended. They would all end
 * at once: running jobs would begin a second time, answers of calls under way would not be kept for their idempotency
 * keys, and their money would be charged as lost. Several servers of one file may each do it: what was extended is not
 * extended again.
 */
function extendLeases({ atMs, steadyMs }: Calls): void {
  const stepMs = Math.round(atMs - steadyMs - offsetMs)
  try {
    if (stepMs >= STEP_MS) for (const extension of extensions) extension.run({ atMs, stepMs })
    offsetMs = atMs - steadyMs
  } catch {
    // The file cannot be written, which the calls find out by themselves. The next of them tries it again.
  }
}

function extensionsOfLeases(): readonly StatementSync[] {
  const which = 'WHERE lease_until_ms > :atMs - :stepMs AND lease_until_ms <= :atMs'
  const later = 'lease_until_ms = lease_until_ms + :stepMs'
  return [
    db.prepare(`UPDATE jobs SET ${later} ${which}`),
    db.prepare(`UPDATE reservations SET ${later} ${which}`),
    db.prepare(`
      UPDATE slots SET ${later}, expires_at_ms = expires_at_ms + :stepMs ${which} AND state = 'running'`),
  ]
}

function answerCalls(calls: readonly Call[]): void {
  for (let from = 0; from < calls.length; from += GROUP_MAX)
    port.postMessage(commit(calls.slice(from, from + GROUP_MAX)))
}

function close(last: readonly Call[]): void {
  answerCalls(last)
  db.close()
  port.close()
}
