// Which test files run at the same time, and in which order.

import { statSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/** How often another file may be started beside the least number, ms: what was started last shows by then. */
const JUDGED_MS = 250
/** Share of the CPU from which on no further file is started. */
const BUSY = 0.93

/**
 * Runs every file. Most of them wait for a great part of their time, for servers to start, deadlines and slow senders,
 * so that a fixed number of them leaves CPU unused, or asks for too much where several compute at once.
 *
 * @param files       in the order in which they are started
 * @param run         runs one of them
 * @param least, most files at a time: the least while there are any, more of them as long as CPU is left
 */
export async function runTogether(files, run, { least, most, busyShare = cpuMeter(), judgedMs = JUDGED_MS }) {
  const queue = [...files]
  const running = new Set()
  const start = () => {
    const work = run(queue.shift()).then(() => running.delete(work))
    running.add(work)
  }
  let judgedAt = performance.now()
  while (queue.length > 0) {
    while (queue.length > 0 && running.size < least) start()
    if (performance.now() - judgedAt >= judgedMs) {
      judgedAt = performance.now()
      const isFree = busyShare() < BUSY
      if (isFree && queue.length > 0 && running.size < most) start()
    }
    await Promise.race([...running, sleep(judgedMs / 4, undefined, { ref: false })])
  }
  await Promise.all(running)
}

/** Makes a function that tells the share of the machine's CPU that was used since it was called last. */
export function cpuMeter() {
  const read = () => {
    const times = cpus().map((one) => one.times)
    const sum = (pick) => times.reduce((total, one) => total + pick(one), 0)
    return { idle: sum(({ idle }) => idle), all: sum((one) => Object.values(one).reduce((a, b) => a + b, 0)) }
  }
  let last = read()
  return () => {
    const now = read()
    const all = now.all - last.all
    const share = all > 0 ? 1 - (now.idle - last.idle) / all : 1
    last = now
    return share
  }
}

/**
 * Puts those that took longest first, so that none of them is left for the end, when nothing else is to be done.
 *
 * @param secondsOf what a file took in the last run; undefined: it is new. In a fresh clone all are, and the largest
 *                  come first
 */
export function longestFirst(files, secondsOf, bytesOf = (file) => statSync(file).size) {
  const known = files.map((file) => ({ file, seconds: secondsOf(file) ?? NEW_SECONDS, bytes: bytesOf(file) }))
  return known.sort((a, b) => b.seconds - a.seconds || b.bytes - a.bytes).map(({ file }) => file)
}

/** Assumed for a new file: longer than most. */
const NEW_SECONDS = 10
