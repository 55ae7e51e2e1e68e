import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { cpuMeter, longestFirst, runTogether } from '../../scripts/test-queue.mjs'

const FILES = Array.from({ length: 12 }, (_, at) => `${at}.test.ts`)

/** Runs twelve files of 60 ms and tells how many ran at once at most, and in which order they were started. */
async function play(jobs) {
  const started = []
  let [running, peak] = [0, 0]
  const run = async (file) => {
    started.push(file)
    running += 1
    peak = Math.max(peak, running)
    await sleep(60)
    running -= 1
  }
  await runTogether(FILES, run, { judgedMs: 8, ...jobs })
  return { started, peak, left: running }
}

test('every file runs once, in order, and all have ended at the end', async (t) => {
  for (const share of [0, 1]) {
    const { started, left } = await play({ least: 2, most: 4, busyShare: () => share })
    t.same(started, FILES)
    t.equal(left, 0)
  }
})

test('while CPU is used, no more than the least number run at once; else up to the most', async (t) => {
  t.equal((await play({ least: 2, most: 4, busyShare: () => 1 })).peak, 2)
  t.equal((await play({ least: 2, most: 4, busyShare: () => 0 })).peak, 4)
  t.equal((await play({ least: 1, most: 1, busyShare: () => 0 })).peak, 1)
  let asked = 0
  const onceIdle = await play({ least: 2, most: 8, busyShare: () => (asked++ === 0 ? 0 : 1) })
  t.equal(onceIdle.peak, 3, 'one more for each time that CPU was left')
})

test('the CPU that is used is measured', async (t) => {
  const busyShare = cpuMeter()
  const until = performance.now() + 300
  while (performance.now() < until); // all of one core, but for what others take
  const share = busyShare()
  t.ok(share > 0.5 / cpus().length && share <= 1, `${share} of ${cpus().length} cores`)
})

test('the longest are first, and new ones before most, the largest of them first', (t) => {
  const seconds = { short: 1, long: 30, middle: 9 }
  const bytes = { new: 100, large: 200 }
  t.same(
    longestFirst(
      ['short', 'new', 'large', 'long', 'middle'],
      (file) => seconds[file],
      (file) => bytes[file] ?? 0,
    ),
    ['long', 'large', 'new', 'middle', 'short'],
  )
  t.end()
})
