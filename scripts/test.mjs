// `npm test`: types, lint, and the tests of the first tier. `npm run test:faults` and `npm run test:long`: those of the
// second and the third, see `tierOf`. The last line printed is the count. With arguments, files or rooms:
//
//   npm test -- test/tidy.test.ts     this file, of whichever tier
//   npm test -- test/usage            files of the tier in that folder
//   npm test -- usage                 files of the tier that test src/usage, or import from it
//   npm test -- state                 the same of a room of the gateway, src/gateway/state
//
// LARKWAY_TEST_LONG=1          tests that repeat or load something do so for longer
// LARKWAY_TEST_SKIP_SERVERS=1  skips the tests that need a real Redis or S3 server; they are counted as skipped
// LARKWAY_TEST_JOBS=n          test files at a time; default: two for each core, at most 6, and more while they leave
//                              CPU unused: up to 24, in the third tier up to two more
// LARKWAY_TEST_APART=1         runs each file in a process of its own, as it is when it is named

import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, constants, tmpdir } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { compiled } from './compile.mjs'
import { CACHE, capture, main, ROOT, say } from './install.mjs'
import { prepare } from './runtime.mjs'
import { provideRedis, provideS3 } from './servers.mjs'
import { TapProcesses } from './tap-batch.mjs'
import { add, failures, killAll, NONE, runDespiteNode, runTapFile } from './tap-file.mjs'
import { longestFirst, runTogether } from './test-queue.mjs'
import { TYPE_CACHE_ENVIRONMENT } from './type-cache.mjs'

const SHARED_S3 = join(ROOT, 'test', 'support', 'shared-s3.ts')
const TYPE_CACHE = join(ROOT, 'scripts', 'type-cache.mjs')

/** How long each file took when it last ran with all of its tier, seconds by its path. */
const DURATIONS = join(CACHE, 'test-seconds.json')
/** The same of the longest, for a clone that has not run them: one of them that starts last is waited for alone. */
const LONGEST = join(ROOT, 'scripts', 'longest-tests.json')

/** A file system in memory, and the least room in it that tests are given. */
const MEMORY = '/dev/shm'
const MEMORY_BYTES_MIN = 4 * 1024 ** 3

const FILE_TIMEOUT_MS = 300_000
const LONG_FILE_TIMEOUT_MS = Number(process.env.LARKWAY_TEST_FILE_MS ?? 1_800_000)

const isTest = (file) => /\.test\.m?[jt]s$/.test(file)

/**
 * The tier of a file. The second kills, cuts, floods, starves or fuzzes the product, waits for its time limits or
 * drives a browser: the files of `test/faults`, and `*.faults.test.ts` and `*.browser.test.ts` beside the others of
 * their subject. The third has the larger matrices of the same: `*.long.test.ts`. A sample of `test/faults` is in the
 * first: `*.sample.test.ts`.
 */
function tierOf(file) {
  if (/\.long\.test\.m?[jt]s$/.test(file)) return 'long'
  if (/\.(faults|browser)\.test\.m?[jt]s$/.test(file)) return 'faults'
  const isInFaults = file.startsWith(join(ROOT, 'test', 'faults'))
  return isInFaults && !/\.sample\.test\.ts$/.test(file) ? 'faults' : 'first'
}

/** Tells whether a file measures speed or fills the machine: it runs while no other does, or either would be wrong. */
const isAlone = (file) => /\.alone\.(long\.)?test\.m?[jt]s$/.test(file)

/** Functions that measure the process of a file, which then has to be new. */
const MEASURES = /\b(memoryUsage|cpuUsage|eventLoopUtilization|monitorEventLoopDelay)\b/

/** Tells whether a file has a process to itself; others share one, see `TapProcesses`, but for the third tier's. */
const isApart = (file) => process.env.LARKWAY_TEST_APART === '1' || MEASURES.test(readFileSync(file, 'utf8'))

/** The files that are named; of rooms that are named, those of the tier; without either, all of the tier. */
function chooseFiles(given, tier) {
  const tests = readdirSync(join(ROOT, 'test'), { recursive: true })
    .map((file) => join(ROOT, 'test', String(file)))
    .filter((file) => isTest(file) && tierOf(file) === tier)
    .sort()
  if (given.length === 0) return tests
  const chosen = given.flatMap((name) => {
    const folder = resolve(name) + sep
    const inFolder = tests.filter((file) => file.startsWith(folder))
    if (inFolder.length > 0) return inFolder
    if (isTest(name) && existsSync(name)) return resolve(name)
    const room = [name, `gateway/${name}`, `gateway/observe/${name}`].find((one) =>
      existsSync(join(ROOT, 'src', one)),
    )
    const ofRoom = room === undefined ? [] : tests.filter((file) => isOfRoom(file, room))
    if (ofRoom.length === 0) throw new Error(`no tests of that name: ${name}`)
    return ofRoom
  })
  return [...new Set(chosen)]
}

/** Tells whether a file tests a room of src: it is in the room's folder, or it or its support imports from the room. */
function isOfRoom(file, room) {
  return file.startsWith(join(ROOT, 'test', room) + sep) || testsImport(file, join(ROOT, 'src', room) + sep)
}

function testsImport(file, folder, seen = new Set()) {
  if (seen.has(file)) return false
  seen.add(file)
  const targets = [...readFileSync(file, 'utf8').matchAll(/\bfrom '(\.[^']+)'/g)].map(([, target]) =>
    resolve(dirname(file), target),
  )
  const isSupport = (target) => target.startsWith(join(ROOT, 'test') + sep) && existsSync(target)
  return targets.some(
    (target) => target.startsWith(folder) || (isSupport(target) && testsImport(target, folder, seen)),
  )
}

/** @returns {Promise<number>} how many of the checks failed; they are no assertions, so a good one is not counted */
async function check(node) {
  const bin = (path) => join(ROOT, 'node_modules', path)
  // Several checkers, the default, each work out what they share: two and a half times the CPU.
  const types = (name) => [
    ...[bin('typescript/bin/tsc'), '--noEmit', '--checkers', '1'],
    ...['--incremental', '--tsBuildInfoFile', join(CACHE, `${name}.tsbuildinfo`)],
  ]
  const checks = [
    ['types', types('program')],
    ['types of the browser app', [...types('page'), '-p', 'src/console/page']],
    ['lint and format', [bin('@biomejs/biome/bin/biome'), 'check']],
  ]
  const results = await Promise.all(
    checks.map(async ([name, args]) => {
      try {
        await capture(node, args, { cwd: ROOT, lines: Infinity })
        console.log(`ok    ${name}`)
        return 0
      } catch (error) {
        console.log(`FAIL  ${name}\n${error.message}\n`)
        return 1
      }
    }),
  )
  return results.reduce((sum, one) => sum + one, 0)
}

/**
 * Before the files, so that no file waits for what is fetched once.
 *
 * @returns {Promise<Record<string, string>>} the environment that tells the files where the servers are, which each
 *          would otherwise find out with a process of its own
 */
async function provideServers() {
  if (process.env.LARKWAY_TEST_SKIP_SERVERS === '1') {
    say('LARKWAY_TEST_SKIP_SERVERS is set: tests that need a Redis or S3 server are skipped')
    return {}
  }
  const [redis, s3] = await Promise.all([provideRedis(), provideS3()])
  return { LARKWAY_TEST_SERVERS: JSON.stringify({ redis, s3 }) }
}

/**
 * Starts the S3 server that files of a tier have together; it starts while the first of them run.
 *
 * @returns {{ env: Record<string, string>, end: () => Promise<void> }} how the files find it, and what ends it
 */
function startSharedS3(node, env) {
  const folder = mkdtempSync(join(env.TMPDIR, 'larkway-s3-'))
  const file = join(folder, 'access.json')
  const stdio = ['pipe', 'ignore', 'inherit'] // it ends with its input: also when this process is killed
  const child = spawn(node, [SHARED_S3, file], { cwd: ROOT, env, stdio })
  const ended = new Promise((done) => child.on('exit', done).on('error', done))
  const end = async () => {
    child.stdin.end()
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  return { env: { LARKWAY_TEST_S3: file }, end }
}

/**
 * Makes the folder for what files write. They make hundreds of small databases, which cost a tenth of the CPU less in
 * memory; none of them judges a disk.
 */
function makeScratch() {
  const folder = mkdtempSync(join(hasRoom(MEMORY) ? MEMORY : tmpdir(), 'larkway-tests-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function hasRoom(folder) {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize >= MEMORY_BYTES_MIN
  } catch {
    return false
  }
}

function report(file, { counts, faults, output, cpuSeconds }, seconds) {
  const skipped = counts.skipped ? `, ${counts.skipped} skipped` : ''
  const name = relative(ROOT, file)
  const took = `${seconds.toFixed(1)} s`
  const cost = cpuSeconds === undefined ? took : `${took}  CPU ${cpuSeconds.toFixed(1)} s`
  if (counts.failed === 0) {
    console.log(`ok    ${name}  ${counts.passed} passed${skipped}  ${cost}`)
    return
  }
  console.log(`FAIL  ${name}  ${counts.passed} passed, ${counts.failed} failed${skipped}  ${cost}`)
  for (const failure of failures(output)) console.log(indent(failure))
  for (const fault of faults) console.log(indent(`${fault}; the end of its output:\n${tail(output)}`))
}

const indent = (text) => `\n${text}\n`.replace(/^(?=.)/gm, '      ')
const tail = (text) => text.trimEnd().split('\n').slice(-30).join('\n')

function readDurations() {
  const longest = JSON.parse(readFileSync(LONGEST, 'utf8'))
  try {
    return { ...longest, ...JSON.parse(readFileSync(DURATIONS, 'utf8')) }
  } catch {
    return longest
  }
}

/** How many files run at a time. The third tier, which loads the machine, takes fewer. */
function jobsOf(tier) {
  const given = Number(process.env.LARKWAY_TEST_JOBS)
  if (given > 0) return { least: given, most: given }
  const least = Math.min(availableParallelism() * 2, 6)
  return { least, most: tier === 'long' ? least + 2 : 24 }
}

/**
 * @param isTier whether these are all files of a tier or of rooms, not files that were named
 * @param first  what is done beside the first files: neither it nor they keep every core busy by themselves
 */
async function runFiles(node, files, { isTier, tier, servers, first }) {
  // Once, before any file: tests start the compiled program as `npm start` does.
  const [{ file }] = await Promise.all([compiled('main.ts', node), capture(node, [TYPE_CACHE])])
  const program = file.endsWith('.js') ? { LARKWAY_TEST_PROGRAM: dirname(file) } : {}
  const TMPDIR = makeScratch()
  const own = { ...process.env, TMPDIR, ...TYPE_CACHE_ENVIRONMENT, ...program, ...servers }
  const sharedS3 = isTier && servers.LARKWAY_TEST_SERVERS ? startSharedS3(node, own) : undefined
  const env = { ...own, ...sharedS3?.env }
  const durations = readDurations()
  const secondsOf = (file) => durations[relative(ROOT, file)]
  let sum = NONE
  const processes = new TapProcesses(node, { cwd: ROOT, env, timeoutMs: FILE_TIMEOUT_MS })
  const shares = (file) => isTier && tier !== 'long' && !isApart(file)
  const run = async (file) => {
    if (typeof file === 'function') return file()
    const startedAt = performance.now()
    const timeoutMs = tierOf(file) === 'long' ? LONG_FILE_TIMEOUT_MS : FILE_TIMEOUT_MS
    const result = await (shares(file)
      ? processes.run(file)
      : runDespiteNode(relative(ROOT, file), () => runTapFile(node, file, { cwd: ROOT, env, timeoutMs })))
    const seconds = (performance.now() - startedAt) / 1000
    report(file, result, seconds)
    sum = add(sum, result.counts)
    durations[relative(ROOT, file)] = Number(seconds.toFixed(1))
  }
  const beside = files.filter((file) => !isAlone(file))
  await runTogether([...first, ...(isTier ? longestFirst(beside, secondsOf) : beside)], run, jobsOf(tier))
  await runTogether(files.filter(isAlone), run, { least: 1, most: 1 })
  processes.end()
  await sharedS3?.end()
  if (isTier) writeFileSync(DURATIONS, JSON.stringify(durations))
  return sum
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    killAll()
    process.exit(128 + constants.signals[signal])
  })
}

async function runAll() {
  const tier = /^--(faults|long)$/.exec(process.argv[2] ?? '')?.[1] ?? 'first'
  const given = process.argv.slice(tier === 'first' ? 2 : 3)
  const files = chooseFiles(given, tier)
  const [node, servers] = await Promise.all([prepare(), provideServers()])
  const isTier = !given.some(isTest)
  let broken = 0
  const checks = async () => {
    broken = await check(node)
  }
  const first = given.length === 0 && tier === 'first' ? [checks] : []
  const counts = await runFiles(node, files, { isTier, tier, servers, first })
  const executed = counts.passed + counts.failed
  const failed = counts.failed + broken
  if (executed === 0) say('no test was executed')
  if (failed > 0 || executed === 0) process.exitCode = 1
  const skipped = counts.skipped ? `, ${counts.skipped} skipped` : ''
  console.log(`${counts.passed} passed, ${failed} failed${skipped}`)
}

await main(async () => {
  try {
    await runAll()
  } catch (error) {
    console.log('FAIL  the tests could not be run')
    process.on('exit', () => console.log('0 passed, 1 failed'))
    throw error
  }
})
