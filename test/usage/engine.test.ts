import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Cancellation } from '../../src/contracts/cancellation.ts'
import { createUsageEngine, type EngineOptions, type UsageEngine } from '../../src/usage/engine.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** A statement that takes years. */
const ENDLESS = {
  sql: 'SELECT count(*) FROM range(100000000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3',
}

async function open(t: Test, options: Partial<EngineOptions> = {}) {
  const root = t.testdir({ files: {} })
  const engine = createUsageEngine({
    places: [join(root, 'own')],
    folders: [join(root, 'files')],
    ...options,
  })
  t.teardown(() => engine.close())
  return { root, engine, files: join(root, 'files') }
}

/** The only value that a statement finds. */
async function one(engine: UsageEngine, sql: string, ...values: (string | number)[]): Promise<unknown> {
  const [rows] = await engine.run([{ sql, values }])
  return rows?.columns[0]?.[0]
}

t.test('values are bound, and never read as SQL', async (t) => {
  const { engine } = await open(t)
  const hostile = "x'; DROP TABLE a; --"
  const [rows, sum] = await engine.run([
    { sql: 'SELECT $1 AS text, $2 AS list, $3 AS number', values: [hostile, ['a', null], 2 ** 40] },
    { sql: 'SELECT sum(range)::DOUBLE AS sum FROM range(100000)' },
  ])
  t.same(rows, {
    names: ['text', 'list', 'number'],
    columns: [[hostile], [['a', null]], [2n ** 40n]],
    rows: 1,
  })
  t.same(sum?.columns, [[4_999_950_000]])
})

t.test('hands over results of many pieces whole and in order', async (t) => {
  const { engine } = await open(t)
  const [rows] = await engine.run([{ sql: 'SELECT range::DOUBLE AS n FROM range(100000) ORDER BY n' }])
  t.equal(rows?.rows, 100_000)
  t.ok(rows?.columns[0]?.every((value, at) => value === at))
})

t.test('a temporary table is there for the next statement, and gone after the last', async (t) => {
  const { engine } = await open(t)
  const [, rows] = await engine.run([
    { sql: 'CREATE TEMP TABLE own AS SELECT 7 AS seven' },
    { sql: 'SELECT seven FROM own' },
  ])
  t.same(rows?.columns, [[7]])
  await t.rejects(engine.run([{ sql: 'SELECT seven FROM own' }]), { name: 'EngineError', message: /own/ })
})

t.test('reads and writes in its folders alone, and nothing brings more in', async (t) => {
  const { root, engine, files } = await open(t)
  const secret = join(root, 'secret.csv')
  await writeFile(secret, 'a\n1\n')
  await engine.run([{ sql: `COPY (SELECT 1 AS a) TO '${join(files, 'a.parquet')}' (FORMAT parquet)` }])
  t.equal(await one(engine, 'SELECT a FROM read_parquet($1)', join(files, 'a.parquet')), 1)
  for (const path of [secret, join(files, '..', 'secret.csv'), '/etc/passwd', 'http://127.0.0.1:1/a.csv'])
    await t.rejects(engine.run([{ sql: 'SELECT * FROM read_csv($1)', values: [path] }]), {
      name: 'EngineError',
      message: /Permission|disabled/,
    })
  for (const sql of ['SET enable_external_access = true', 'INSTALL httpfs', 'LOAD httpfs'])
    await t.rejects(engine.run([{ sql }]), { name: 'EngineError' }, sql)
})

t.test('statements end with their caller, with their time, and others go on', async (t) => {
  const { engine } = await open(t)
  const leaving = new Cancellation()
  const left = engine.run([ENDLESS], { signal: leaving })
  const other = one(engine, 'SELECT 1')
  setImmediate(() => leaving.abort(new Error('the caller left')))
  await t.rejects(left, { message: 'the caller left' })
  t.equal(await other, 1, 'who waited has its turn')
  await t.rejects(engine.run([ENDLESS], { limitMs: 1 }), { code: 'OVERLOADED' })
  await t.rejects(engine.run([{ sql: 'SELECT $1::INTEGER', values: ['x'] }]), { name: 'EngineError' })
  t.equal(await one(engine, 'SELECT 2'), 2)
})

t.test('who writes does not hold up who asks', async (t) => {
  const { engine } = await open(t)
  const leaving = new Cancellation()
  const writing = engine.run([ENDLESS], { lane: 'writing', signal: leaving })
  t.equal(await one(engine, 'SELECT 1'), 1)
  leaving.abort(new Error('enough'))
  await t.rejects(writing, { message: 'enough' })
})

t.test('no more than some may wait', async (t) => {
  const { engine } = await open(t)
  const leaving = new Cancellation()
  const first = engine.run([ENDLESS], { signal: leaving })
  const waiting = Array.from({ length: 31 }, () => engine.run([{ sql: 'SELECT 1' }]))
  await t.rejects(engine.run([{ sql: 'SELECT 1' }]), { code: 'OVERLOADED' })
  leaving.abort(new Error('enough'))
  await t.rejects(first, { message: 'enough' })
  t.equal((await Promise.all(waiting)).length, 31)
})

t.test('ends when it is idle, comes back with a question, and leaves nothing', async (t) => {
  const clock = new VirtualClock()
  const { root, engine } = await open(t, { clock, idleMs: { asking: 1_000, writing: 500 } })
  await engine.run([{ sql: 'CREATE TABLE kept AS SELECT 1' }])
  t.equal(await one(engine, 'SELECT count(*)::INTEGER FROM kept'), 1, 'it is the same process')
  await clock.advance(1_000)
  await t.rejects(engine.run([{ sql: 'SELECT * FROM kept' }]), { message: /kept/ }, 'it is another one')
  t.equal((await readdir(join(root, 'own'))).length, 1)
  await engine.close()
  t.same(await readdir(join(root, 'own')), [])
  await t.rejects(engine.run([{ sql: 'SELECT 1' }]), { message: /closed/ })
})

t.test('its death fails what is under way, and the next question starts another', async (t) => {
  const { engine } = await open(t)
  t.equal(engine.pid, null, 'none was started yet')
  await one(engine, 'SELECT 1')
  const failing = engine.run([ENDLESS])
  process.kill(engine.pid!, 'SIGKILL')
  await t.rejects(failing, { name: 'EngineError', message: /has ended/ })
  t.equal(await one(engine, 'SELECT 1'), 1)
})

t.test('where its process cannot be made it says so, and makes it once it can', async (t) => {
  const { engine } = await open(t)
  const { execPath } = process
  t.teardown(() => {
    process.execPath = execPath
  })
  process.execPath = join(t.testdirName, 'nothing')
  for (const lane of ['asking', 'writing'] as const)
    await t.rejects(engine.run([{ sql: 'SELECT 1' }], { lane }), {
      code: 'OVERLOADED',
      cause: { code: 'ENOENT' },
    })
  process.execPath = execPath
  t.equal(await one(engine, 'SELECT 1'), 1)
})

const OOM_SCORE = '/proc/self/oom_score_adj'

t.test('where memory is short the kernel ends it first', { skip: !existsSync(OOM_SCORE) }, async (t) => {
  const { engine } = await open(t)
  await one(engine, 'SELECT 1')
  t.equal(readFileSync(OOM_SCORE.replace('self', String(engine.pid)), 'utf8').trim(), '1000')
})

t.test('folders of processes that are gone are removed', async (t) => {
  const { root, engine } = await open(t)
  const gone = join(root, 'own', 'larkway-engine-999999999-abc')
  await mkdir(gone, { recursive: true })
  await writeFile(join(gone, 'aside'), 'x')
  const own = await engine.folder()
  t.same(
    (await readdir(join(root, 'own'))).map((name) => join(root, 'own', name)),
    [own],
  )
})

t.test('where its folder cannot be made it takes the next place', async (t) => {
  const root = t.testdir({ taken: 'a file' })
  const engine = createUsageEngine({ places: [join(root, 'taken', 'own'), join(root, 'other')], folders: [] })
  t.match(await engine.folder(), /other/)
  await engine.close()
})
