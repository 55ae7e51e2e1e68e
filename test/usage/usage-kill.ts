import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { DuckDBInstance } from '@duckdb/node-api'
import type { Test } from 'tap'
import { createLogger } from '../../src/contracts/log.ts'
import { systemClock } from '../../src/contracts/time.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { CompactionRounds } from '../../src/usage/compactor.ts'
import { Dice } from '../support/dice.ts'
import { startS3 } from '../support/s3-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { files, lakeOf, totalsOf } from '../support/usage-lake.ts'
import { type LakeProcessTask, numberedRecord, segmentsIn } from './usage-lake-process.ts'

const PROGRAM = new URL('./usage-lake-process.ts', import.meta.url).pathname
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NODES = 3
/** Kills of each node, and outages of the store. */
const KILLS = 3
const OUTAGES = 2

/** Runs a node until it has written and rolled all of its records, and kills it on the way there. */
async function runNode(task: LakeProcessTask, dice: Dice): Promise<number> {
  const killAt = Array.from({ length: KILLS }, (_, at) => ((at + dice.roll()) * task.count) / KILLS)
  let written = 0
  let kills = 0
  for (;;) {
    const aim = killAt[kills]
    const holdAt = aim ?? null
    const child: ChildProcess = spawn(
      process.execPath,
      ['--no-warnings', PROGRAM, JSON.stringify({ ...task, written, holdAt })],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const ended = once(child, 'exit')
    let isClosed = false
    for await (const line of createInterface({ input: child.stdout! })) {
      if (line === 'closed') isClosed = true
      else written = Number(line)
      if (aim === undefined || written < aim || child.killed) continue
      child.kill('SIGKILL')
      kills += 1
    }
    await ended
    if (isClosed && (await segmentsIn(task.folder)).length === 0) return kills
  }
}

/**
 * Has three nodes write so many records while they are killed and the store goes away, and holds the sums of what is in
 * the store, before it is compacted and after, against those of what was written.
 */
export async function killWhileWriting(t: Test, records: number): Promise<void> {
  const each = Math.ceil(records / NODES)
  const server = await startS3(t)
  const { endpoint, region, accessKeyId, secretAccessKey, bucket } = server
  const s3 = { endpoint, region, accessKeyId, secretAccessKey, bucket }
  const folder = await tempFolder(t)
  const yesterday = Date.now() - (Date.now() % DAY_MS) - DAY_MS
  const tasks = Array.from({ length: NODES }, (_, node): LakeProcessTask => {
    const own = join(folder, `node-${node}`)
    // Over midnight: each segment becomes two files.
    const [fromMs, toMs] = [yesterday - 6 * HOUR_MS, yesterday + 6 * HOUR_MS]
    const pace = { batch: Math.max(50, Math.ceil(each / 200)), segmentMs: 500, compacts: node === 0 }
    return { s3, folder: own, node, count: each, written: 0, holdAt: null, fromMs, toMs, ...pace }
  })
  for (const { folder: own } of tasks) await mkdir(own)

  let isOver = false
  const outages = (async () => {
    let count = 0
    while (!isOver && count < OUTAGES) {
      await sleep(1_500)
      await server.kill()
      await sleep(2_000)
      await server.restart()
      count += 1
    }
    return count
  })()
  const kills = await Promise.all(tasks.map((task) => runNode(task, new Dice(task.node + 1))))
  isOver = true
  t.ok((await outages) > 0, 'the store was away')
  t.same(kills, [KILLS, KILLS, KILLS], 'killed as often as was meant')

  const objects = createS3Objects(s3)
  t.teardown(() => objects.close())
  const lake = lakeOf(objects)
  const read = async () => {
    const found = await lake.files(yesterday - DAY_MS, yesterday + DAY_MS)
    const { paths, release } = await lake.hold(found)
    const bytes = found.reduce((sum, file) => sum + file.bytes, 0)
    const totals = await sumsByDuck(paths)
    release()
    return { files: found.length, bytes, totals }
  }
  const expected = { count: 0, cost: 0, seconds: 0 }
  for (const task of tasks)
    for (let number = 0; number < task.count; number += 1) {
      const { count, cost, seconds } = totalsOf([numberedRecord(task, number)])
      expected.count += count
      expected.cost += cost
      expected.seconds += seconds
    }
  const isEqual = ({ totals }: Awaited<ReturnType<typeof read>>, when: string) =>
    t.same(totals, { ...expected, ids: expected.count, requests: expected.count }, when)
  const before = await read()
  isEqual(before, 'as they were left')
  const rounds = new CompactionRounds({
    lake,
    files,
    permits: { take: async () => ({ lease: { release() {} } }) },
    healthy: async () => true,
    retention: () => ({ days: 100_000, byWorkspace: new Map() }),
    log: createLogger('silent'),
    clock: { ...systemClock, wallNow: () => Date.now() + HOUR_MS },
    graceMs: 0,
  })
  await rounds.run()
  const after = await read()
  isEqual(after, 'compacted')
  const bytes = (after.bytes / expected.count).toFixed(1)
  t.comment(`${expected.count} records, ${before.files} files, then ${after.files}; ${bytes} bytes a record`)
  t.ok(after.files <= before.files)
}

/** Exact sums, in micro-USD and milliseconds, in 512 MB. */
async function sumsByDuck(paths: readonly string[]) {
  const instance = await DuckDBInstance.create(':memory:', { memory_limit: '512MB', threads: '1' })
  const duck = await instance.connect()
  try {
    const rows = await duck.runAndReadAll(`SELECT count(*)::DOUBLE AS count,
      count(DISTINCT record_id)::DOUBLE AS ids, count(DISTINCT request_id)::DOUBLE AS requests,
      (sum(cost_usd) * 1000000)::DOUBLE AS cost, (sum(audio_seconds) * 1000)::DOUBLE AS seconds
      FROM read_parquet([${paths.map((path) => `'${path}'`).join(', ')}])`)
    const [sums] = rows.getRowObjectsJson()
    return sums
  } finally {
    duck.closeSync()
    instance.closeSync()
  }
}
