import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { CACHE, ROOT } from '../../scripts/install.mjs'
import { failures, runDespiteNode, runTapFile } from '../../scripts/tap-file.mjs'

// What `npm test` counts decides what lands, so the counting is shown files of every kind, good and broken.

/** Makes a test file of that content; it lies inside the repository, where it finds tap. */
async function makeFile(t, content) {
  await mkdir(CACHE, { recursive: true })
  const folder = await mkdtemp(join(CACHE, 'tap-file-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'sample.test.mjs')
  await writeFile(file, `import t, { test } from 'tap'\n${content}`)
  return file
}

async function run(t, content, timeoutMs = 60_000) {
  const file = await makeFile(t, content)
  return runTapFile(process.execPath, file, { cwd: ROOT, env: process.env, timeoutMs })
}

const FILES = [
  {
    name: 'assertions are counted, subtests are not',
    content: `t.ok(1); test('a', async (t) => { t.ok(1); t.test('b', async (t) => { t.ok(1); t.ok(1) }) })`,
    counts: { passed: 4, failed: 0, skipped: 0 },
  },
  {
    name: 'a failed assertion',
    content: `test('a', async (t) => { t.equal(1, 2); t.ok(1) })`,
    counts: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    name: 'an error thrown',
    content: `test('a', async (t) => { t.ok(1); throw new Error('boom') })`,
    counts: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    name: 'skipped and to be done',
    content: `test('a', { skip: 'why' }, async (t) => { t.ok(1) }); test('b', { todo: true }, async () => {}); t.ok(1)`,
    counts: { passed: 1, failed: 0, skipped: 2 },
  },
  {
    name: 'a whole file skipped',
    content: `t.plan(0, 'no server')`,
    counts: { passed: 0, failed: 0, skipped: 1 },
  },
  {
    name: 'lines that look like results are none',
    content: `console.log('ok 9 - x'); console.log('not ok 8 - y'); t.ok(1)`,
    counts: { passed: 1, failed: 0, skipped: 0 },
  },
  {
    name: 'a plan that is not kept',
    content: `test('a', async (t) => { t.plan(2); t.ok(1) })`,
    counts: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    name: 'no test at all',
    content: '',
    counts: { passed: 0, failed: 1, skipped: 0 },
    fault: /holds no test/,
  },
  {
    name: 'a file that cannot be loaded',
    content: `import './missing.mjs'`,
    counts: { passed: 0, failed: 1, skipped: 0 },
    fault: /before its tests did/,
  },
  {
    name: 'an exit with a failure after all has passed',
    content: `t.ok(1); process.exit(3)`,
    counts: { passed: 1, failed: 1, skipped: 0 },
    fault: /status 3/,
  },
  {
    name: 'a crash in the middle',
    content: `test('a', async (t) => { t.ok(1); t.ok(1); process.kill(process.pid, 'SIGKILL'); await t.wait })`,
    counts: { passed: 2, failed: 1, skipped: 0 },
    fault: /SIGKILL/,
  },
  {
    name: 'a good exit in the middle',
    content: `test('a', async (t) => { t.ok(1); process.exit(0) }); test('b', async (t) => { t.ok(1) })`,
    counts: { passed: 1, failed: 1, skipped: 0 },
  },
]

for (const { name, content, counts, fault } of FILES) {
  test(name, async (t) => {
    const result = await run(t, content)
    t.match(result.counts, { ...counts, failed: Number }, result.output)
    t.equal(result.counts.failed > 0, counts.failed > 0, result.output)
    if (fault) t.match(result.faults.join('\n'), fault)
  })
}

test('a file that hangs is ended, and what it has started with it', async (t) => {
  const content = `
    import { spawn } from 'node:child_process'
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    console.log('child ' + child.pid)
    test('a', async (t) => { t.ok(1); await new Promise((resolve) => setTimeout(resolve, 60_000)) })`
  const result = await run(t, content, 4_000)
  t.match(result.faults, [/timed out after 4 s/])
  t.ok(result.counts.failed > 0)
  const pid = Number(/child (\d+)/.exec(result.output)[1])
  for (let tries = 0; tries < 100 && isAlive(pid); tries++) await new Promise((done) => setTimeout(done, 50))
  t.notOk(isAlive(pid), 'its child is gone')
})

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('failures are told with their place and their diagnosis', async (t) => {
  const { output } = await run(
    t,
    `test('outer', async (t) => t.test('inner', async (t) => t.equal(1, 2, 'one is two')))`,
  )
  const [failure, ...others] = failures(output)
  t.match(failure, /^outer > inner > one is two\n/)
  t.match(failure, /\+1/)
  t.same(others, [])
})

test('a run adds up all files, says so in its last line, and fails when one does', async (t) => {
  const slow = await makeFile(
    t,
    `test('a', async (t) => { await new Promise((r) => setTimeout(r, 500)); t.ok(1) })`,
  )
  const good = await makeFile(t, `t.ok(1); t.ok(1); test('s', { skip: 'why' }, () => {})`)
  const bad = await makeFile(t, `t.ok(1); t.ok(0)`)
  const empty = await makeFile(t, `t.plan(0, 'nothing here')`)
  const runAll = (...files) => {
    const env = { ...process.env, LARKWAY_TEST_SKIP_SERVERS: '1', LARKWAY_TEST_JOBS: '2' }
    const ended = spawnSync(process.execPath, [join(ROOT, 'scripts', 'test.mjs'), ...files], { env })
    return [ended.stdout.toString().trimEnd().split('\n').pop(), ended.status]
  }
  t.same(runAll(slow, good), ['3 passed, 0 failed, 1 skipped', 0])
  t.same(runAll(slow, good, bad), ['4 passed, 1 failed, 1 skipped', 1])
  t.same(runAll(bad), ['1 passed, 1 failed', 1])
  t.same(runAll(empty), ['0 passed, 0 failed, 1 skipped', 1], 'nothing executed is no success')
})

test('a file that Node ended by a check of its own runs once more, and no other does', async (t) => {
  const ended = { output: 'FATAL ERROR: v8::Module::IsGraphAsync must be used on an instantiated module' }
  for (const [outputs, expected, runs] of [
    [[ended, { output: 'ok' }], { output: 'ok' }, 2],
    [[ended, ended], ended, 2],
    [[{ output: 'not ok 1' }], { output: 'not ok 1' }, 1],
  ]) {
    let asked = 0
    t.same(await runDespiteNode('a.test.ts', async () => outputs[asked++]), expected)
    t.equal(asked, runs)
  }
})
