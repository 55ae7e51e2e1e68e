// Runs one tap test file as a process of its own and counts what it really asserted.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Counts of assertions; a subtest is the sum of those in it. */
export const NONE = Object.freeze({ passed: 0, failed: 0, skipped: 0 })

export function add(a, b) {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped }
}

/**
 * @param node      the Node to run it with
 * @param file      test file, run by Node alone: tap as a library prints TAP and ends with a non-zero status on
 *                  failure. (`tap run` adds a shared `.tap` folder, in which two runs at once disturb each other.)
 * @param timeoutMs after it the file and all that it started are killed, and it counts as failed
 * @returns {Promise<{ counts, faults: string[], output: string, cpuSeconds?: number }>} `faults` say what is wrong with
 *                  the file as a whole; `cpuSeconds` is what it and the processes took that it had started and awaited
 */
export async function runTapFile(node, file, { cwd, env, timeoutMs }) {
  const group = startGroup(node, [file], { cwd, env, timeoutMs })
  const chunks = []
  group.child.stdout.on('data', (chunk) => chunks.push(chunk))
  group.child.stderr.on('data', (chunk) => chunks.push(chunk))
  const { status, timedOut, cpuSeconds } = await group.ended
  const output = Buffer.concat(chunks).toString()
  return { ...judge(output, status, timedOut ? timeoutMs : undefined), output, cpuSeconds }
}

/**
 * Says that Node 22 ended a process by a check of its own: a module was required while an import of it was under way
 * (https://github.com/nodejs/node/issues/55782). A file meets that once in some twenty runs of the second tier.
 */
const ENDED_BY_NODE = 'FATAL ERROR: v8::Module::IsGraphAsync'

/**
 * Runs a file, and once more where Node had ended it by that.
 *
 * @param run resolves with the result of a run, as `runTapFile` does
 */
export async function runDespiteNode(file, run) {
  const result = await run()
  if (!result.output.includes(ENDED_BY_NODE)) return result
  console.log(`again ${file}: Node ended it, ${ENDED_BY_NODE}`)
  return run()
}

/**
 * Starts a Node whose output is read.
 *
 * @param options.asked whether it has a pipe as its descriptor 3, by which it is asked for work
 * @returns `ended` resolves when it has ended and all its output has been read, after it and what it started have been
 *          killed: its status, as `judge` takes it, and what it took; `rest` stops the time-out, `prolong` begins it
 *          again
 */
export function startGroup(node, args, { cwd, env, timeoutMs, asked = false }) {
  const child = spawn(node, ['--enable-source-maps', ...args], {
    cwd,
    env: { ...env, TAP_TIMEOUT: String(Math.ceil(timeoutMs / 1000)) },
    stdio: ['ignore', 'pipe', 'pipe', asked ? 'pipe' : 'ignore'],
    detached: true, // a group of its own, so that what it starts can be ended with it
  })
  child.stdio[3]?.on('error', () => {}).resume() // it has ended, which `ended` tells
  if (running.size === 0) cpuOfEnded() // forgets those that ended before
  running.add(child)
  let timedOut = false
  let timer
  const rest = () => clearTimeout(timer)
  const prolong = () => {
    rest()
    timer = setTimeout(() => {
      timedOut = true
      killGroup(child)
    }, timeoutMs)
  }
  prolong()
  return { child, rest, prolong, ended: whenEnded() }

  async function whenEnded() {
    let cpuSeconds
    const closed = new Promise((done) => child.on('close', done))
    const status = await new Promise((done) => {
      child.on('error', (error) => done(error.message))
      child.on('exit', (code, signal) => {
        cpuSeconds = cpuOfEnded()
        done(code === null ? signal : code)
      })
    })
    rest()
    killGroup(child)
    running.delete(child)
    await closed
    return { status, timedOut, cpuSeconds }
  }
}

/** Kernel's unit of the times of a process in `/proc`: a hundredth of a second on every Linux. */
const TICKS_PER_SECOND = 100
let secondsBefore = 0

/** @returns the CPU seconds of children that have ended since it was called last; undefined where no kernel tells it */
function cpuOfEnded() {
  const seconds = cpuOfChildren()
  const since = seconds === undefined ? undefined : seconds - secondsBefore
  secondsBefore = seconds ?? 0
  return since
}

/** @returns the CPU seconds of this process's children that have ended; undefined where no kernel tells it */
export function cpuOfChildren() {
  try {
    // The name before them may hold spaces.
    const fields = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND // cutime and cstime, proc_pid_stat(5)
  } catch {
    return undefined
  }
}

const running = new Set()

/** For a run that is interrupted. */
export function killAll() {
  for (const child of running) killGroup(child)
}

function killGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // The group has ended, which is what was wanted.
  }
}

/**
 * Reads a file's TAP. tap's own closing line (`# { total: 3, pass: 2, fail: 1 }`) is taken from what the library
 * counted, so that a line printed by tested code cannot pass for a result. Without it the file crashed, and
 * its own lines count.
 *
 * @param status     exit code, or the signal's name
 * @param timedOutMs the timeout that it was killed by, if it was
 */
export function judge(output, status, timedOutMs) {
  const total = [...output.matchAll(/^# \{ (total: .*) \}$/gm)].pop()
  const counts = total ? readTotal(total[1]) : countLines(output)
  const faults = []
  if (timedOutMs !== undefined) faults.push(`timed out after ${timedOutMs / 1000} s and was killed`)
  else if (status !== 0 && counts.failed === 0) {
    faults.push(total ? `ended with status ${status}` : `ended before its tests did (status ${status})`)
  } else if (counts.passed + counts.failed + counts.skipped === 0) {
    if (/^1\.\.0 # (?!no tests found)\S/m.test(output)) counts.skipped = 1
    else faults.push('holds no test')
  } else if (!total) faults.push(`ended before its tests did (status ${status})`)
  counts.failed += faults.length
  return { counts, faults }
}

function readTotal(text) {
  const field = (name) => Number((text.match(`\\b${name}: (\\d+)`) || [0, 0])[1])
  return { passed: field('pass'), failed: field('fail'), skipped: field('skip') + field('todo') }
}

function countLines(output) {
  const counts = { ...NONE }
  const lines = output.split('\n')
  for (const [index, line] of lines.entries()) {
    const result = line.match(/^( *)(not )?ok \d+/)
    if (!result || endsSubtest(lines, index, result[1])) continue
    if (/ # (SKIP|TODO)/i.test(line)) counts.skipped++
    else if (result[2]) counts.failed++
    else counts.passed++
  }
  return counts
}

/** A subtest's closing line stands right after its deeper plan line; it sums up, it asserts nothing. */
function endsSubtest(lines, index, indent) {
  let above = index - 1
  while (above >= 0 && lines[above].trim() === '') above--
  return above >= 0 && lines[above].startsWith(`${indent}    1..`)
}

/** Every failing assertion with its place in the tree of subtests and its diagnosis, to be read by a person. */
export function failures(output) {
  const found = []
  const path = []
  const lines = output.split('\n')
  for (const [index, line] of lines.entries()) {
    const subtest = line.match(/^( *)# Subtest: (.*)$/)
    if (subtest) path.splice(subtest[1].length / 4, Infinity, subtest[2])
    const failed = line.match(/^( *)not ok \d+ - (.*)$/)
    if (!failed || / # TODO/i.test(line) || endsSubtest(lines, index, failed[1])) continue
    const title = [...path.slice(0, failed[1].length / 4), failed[2]].join(' > ')
    found.push([title, ...diagnosis(lines, index + 1, failed[1])].join('\n'))
  }
  return found
}

function diagnosis(lines, start, indent) {
  if (lines[start] !== `${indent}  ---`) return []
  const end = lines.indexOf(`${indent}  ...`, start)
  return lines.slice(start + 1, end < 0 ? start + 40 : end).map((line) => line.slice(indent.length))
}
