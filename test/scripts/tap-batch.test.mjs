import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { CACHE, ROOT } from '../../scripts/install.mjs'
import { TapProcesses } from '../../scripts/tap-batch.mjs'

// Files that share a process are judged as those are that have one of their own, whatever becomes of the others.

/** Runs files of that content one after another. @returns what was found of each, and its output */
async function run(t, contents, timeoutMs = 60_000) {
  await mkdir(CACHE, { recursive: true })
  const folder = await mkdtemp(join(CACHE, 'tap-batch-')) // inside the repository, where files find tap
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const files = contents.map((_, index) => join(folder, `${index}.test.mjs`))
  await Promise.all(
    files.map((file, index) => writeFile(file, `import t, { test } from 'tap'\n${contents[index]}`)),
  )
  const processes = new TapProcesses(process.execPath, { cwd: ROOT, env: process.env, timeoutMs })
  t.teardown(() => processes.end())
  const results = []
  for (const file of files) {
    const startedAt = performance.now()
    results.push({ ...(await processes.run(file)), ms: performance.now() - startedAt })
  }
  return results
}

const PID = `console.log('process ' + process.pid);`
const GOOD = `${PID} test('a', async (t) => { t.ok(1); t.ok(1) })`
const pidOf = ({ output }) => Number(/process (\d+)/.exec(output)[1])
const counted = (passed, failed, skipped) => ({ passed, failed, skipped })

function assertCounted(t, result, { counts, fault }) {
  t.match(result.counts, { ...counts, failed: Number }, result.output)
  t.equal(result.counts.failed > 0, counts.failed > 0, result.output)
  if (fault) t.match(result.faults.join('\n'), fault)
  else t.same(result.faults, [])
}

/** Asserts that the file in the middle is counted so, and the good ones around it are what they are alone. */
async function between(t, content, { timeoutMs, ...expected }) {
  const [before, result, after] = await run(t, [GOOD, content, GOOD], timeoutMs)
  for (const one of [before, after]) t.match(one, { counts: counted(2, 0, 0), faults: [] }, one.output)
  assertCounted(t, result, expected)
  return { before, result, after }
}

test('files run in one process, each with its own counts and its own output', async (t) => {
  const { before, result, after } = await between(
    t,
    `${PID} console.error('said aside'); t.ok(1)
     test('s', { skip: 'why' }, () => {}); test('b', async (t) => { t.test('c', async (t) => t.ok(1)) })`,
    { counts: counted(2, 0, 1) },
  )
  t.equal(pidOf(result), pidOf(before))
  t.equal(pidOf(after), pidOf(before))
  t.match(result.output, /said aside/)
  t.notMatch(before.output + after.output, /said aside/)
  t.ok(
    before.cpuSeconds > result.cpuSeconds && result.cpuSeconds >= 0,
    'the first one has started the process',
  )
})

const KEEPS_PROCESS = {
  'a failed assertion': {
    content: `test('a', async (t) => { t.equal(1, 2); t.ok(1) })`,
    counts: counted(1, 1, 0),
  },
  'an error thrown': {
    content: `test('a', async (t) => { t.ok(1); throw new Error('boom') })`,
    counts: counted(1, 1, 0),
  },
  'an error thrown where nobody catches it': {
    content: `test('a', async (t) => {
      t.ok(1); setTimeout(() => { throw new Error('boom') }); await new Promise((done) => setTimeout(done, 300)) })
      test('b', async (t) => t.ok(1))`,
    counts: counted(2, 1, 0),
  },
  'a promise that is rejected and nobody waits for': {
    content: `test('a', async (t) => {
      t.ok(1); Promise.reject(new Error('boom')); await new Promise((done) => setTimeout(done, 300)) })`,
    counts: counted(1, 1, 0),
  },
  'no test at all': { content: '', counts: counted(0, 1, 0), fault: /holds no test/ },
  'a whole file skipped': { content: `t.plan(0, 'no server')`, counts: counted(0, 0, 1) },
  'a status of failure': {
    content: `t.ok(1); process.exitCode = 3`,
    counts: counted(1, 1, 0),
    fault: /status 3/,
  },
}

test('files that are skipped, fail or hold nothing, in the process of others', async (t) => {
  const cases = Object.entries(KEEPS_PROCESS)
  const results = await run(t, [GOOD, ...cases.flatMap(([, { content }]) => [content, GOOD])])
  const good = results.filter((_, index) => index % 2 === 0)
  for (const one of good) t.match(one, { counts: counted(2, 0, 0), faults: [] }, one.output)
  t.equal(new Set(good.map(pidOf)).size, 1, 'the process is kept')
  for (const [index, [name, expected]] of cases.entries())
    t.test(name, async (t) => assertCounted(t, results[2 * index + 1], expected))
})

const ENDS_PROCESS = {
  'a plan that is not kept': {
    content: `test('a', async (t) => { t.plan(2); t.ok(1) })`,
    counts: counted(1, 1, 0),
  },
  'a crash': {
    content: `test('a', async (t) => { t.ok(1); process.kill(process.pid, 'SIGKILL'); await new Promise(() => {}) })`,
    counts: counted(1, 1, 0),
    fault: /SIGKILL/,
  },
  'an error after its tests have ended': {
    content: `t.ok(1); t.end(); setTimeout(() => { throw new Error('boom') }, 300)`,
    counts: counted(1, 1, 0),
    fault: /status/,
  },
  'a good exit in the middle': {
    content: `test('a', async (t) => { t.ok(1); process.exit(0) }); test('b', async (t) => { t.ok(1) })`,
    counts: counted(1, 1, 0),
  },
  'an exit with a failure after all has passed': {
    content: `t.ok(1); process.exit(3)`,
    counts: counted(1, 1, 0),
    fault: /status 3/,
  },
  'a file that cannot be loaded': {
    content: `import './missing.mjs'`,
    counts: counted(0, 1, 0),
    fault: /status 1/,
  },
  'a test that waits for nothing': {
    content: `test('a', async (t) => { t.ok(1); await new Promise(() => {}) })`,
    counts: counted(1, 1, 0),
  },
  'a module that waits for nothing': {
    content: `t.ok(1); await new Promise(() => {})`,
    counts: counted(1, 1, 0),
    fault: /status 13/,
  },
  'a test that hangs': {
    content: `test('a', async (t) => { t.ok(1); await new Promise(() => setInterval(() => {}, 1000)) })`,
    counts: counted(1, 1, 0),
    timeoutMs: 6_000,
    fault: /timed out after 6 s/,
  },
  'something left open': {
    content: `import { createServer } from 'node:net'
      test('a', async (t) => { t.ok(1); createServer().listen(0) })`,
    counts: counted(1, 1, 0),
    timeoutMs: 6_000,
    fault: /timed out after 6 s/,
  },
}

for (const [name, { content, ...expected }] of Object.entries(ENDS_PROCESS)) {
  test(`beside others: ${name}`, async (t) => {
    const { before, result, after } = await between(t, content, expected)
    t.not(pidOf(after), pidOf(before), 'the next one has a new process')
    t.ok(result.ms < 30_000)
  })
}

test('a file finds the process as if it were the first', async (t) => {
  const [first, second] = await run(t, [
    `process.env.LARKWAY_LEFT = '1'; delete process.env.PATH; process.chdir('/')
     t.teardown(() => { globalThis.ended = true }); t.setTimeout(1e6); t.beforeEach(() => {}); t.ok(1)`,
    `t.equal(globalThis.ended, true, 'the other has ended'); t.equal(process.env.LARKWAY_LEFT, undefined)
     t.ok(process.env.PATH); t.not(process.cwd(), '/'); t.match(process.argv, [String, /1\\.test\\.mjs$/])
     t.equal(process.argv.length, 2)`,
  ])
  t.match(first.counts, counted(1, 0, 0), first.output)
  t.match(second.counts, counted(6, 0, 0), second.output)
})
