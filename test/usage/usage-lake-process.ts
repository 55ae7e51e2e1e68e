import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createLogger } from '../../src/contracts/log.ts'
import type { PermitLease } from '../../src/contracts/permits.ts'
import { lockRemovable } from '../../src/gateway/storage/folder-lock.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { CompactionRounds } from '../../src/usage/compactor.ts'
import { SEGMENT_SUFFIX } from '../../src/usage/open-segment.ts'
import { openUsageStore } from '../../src/usage/store.ts'
import { WriteAhead } from '../../src/usage/write-ahead.ts'
import { Dice } from '../support/dice.ts'
import { engine, files, lakeOf, randomRecord } from '../support/usage-lake.ts'
import { readSegmentFile, segmentRecords } from '../support/usage-records.ts'
import { clockAhead } from '../support/virtual-clock.ts'

/** What a process of the test is told. */
export interface LakeProcessTask {
  readonly s3: {
    endpoint: string
    region: string
    bucket: string
    accessKeyId: string
    secretAccessKey: string
  }
  readonly folder: string
  readonly node: number
  /** Records that this node writes in all; how many were written before it was started. */
  readonly count: number
  readonly written: number
  /** Once so many are written it waits to be killed; null: it is not to be. */
  readonly holdAt: number | null
  readonly fromMs: number
  readonly toMs: number
  /** Records between two acknowledgements. */
  readonly batch: number
  readonly segmentMs: number
  /** Whether it merges too. */
  readonly compacts: boolean
}

/** Segments that a node has left. */
export async function segmentsIn(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true })
  return names.filter((name) => name.endsWith(SEGMENT_SUFFIX)).map((name) => join(folder, name))
}

/** The record with that number of a node: the same in each process. */
export function numberedRecord({ node, fromMs, toMs }: LakeProcessTask, number: number) {
  const record = randomRecord(new Dice(node * 100_000_000 + number), '', { fromMs, toMs })
  return { ...record, request_id: `req_${node}_${number}` }
}

/** Writes the rest of its records, tells after each batch how many are in the kernel, and ends when all were rolled. */
async function main(task: LakeProcessTask): Promise<void> {
  const log = createLogger('silent')
  const objects = createS3Objects(task.s3)
  // What the process before it wrote and could not tell of any more.
  let written = task.written
  for (const path of await segmentsIn(task.folder))
    for (const { request_id } of segmentRecords(await readSegmentFile(path)))
      written = Math.max(written, Number(request_id.split('_')[2]) + 1)
  const noLease: PermitLease = { release() {} }
  const options = {
    permits: { take: async () => ({ lease: noLease }) },
    healthy: async () => true,
    retention: () => ({ days: 100_000, byWorkspace: new Map<string, number>() }),
    log,
  }
  const lake = lakeOf(objects)
  const store = openUsageStore({ lake, files, ...options })
  const rows = await WriteAhead.open({
    root: join(task.folder, 'segments'),
    lock: lockRemovable,
    roll: store.roll,
    backlogBytes: 256 * 1024 * 1024,
    log,
    timing: { segmentMs: task.segmentMs, retryMs: [100, 500], graceMs: 60_000 },
  })
  // Time goes faster here, so that what was rolled is of a past hour.
  const clock = clockAhead(3_600_000)
  const rounds = new CompactionRounds({ ...options, lake, files, clock, graceMs: 200 })
  let compacting: Promise<void> | null = null
  process.stdout.write(`${written}\n`)
  while (written < task.count) {
    const end = Math.min(task.count, written + task.batch)
    for (; written < end; written += 1) rows.add(numberedRecord(task, written))
    rows.flush()
    if (rows.figures().lost > 0) throw new Error('records were lost')
    process.stdout.write(`${written}\n`)
    // Its segments are rolled meanwhile.
    while (task.holdAt !== null && written >= task.holdAt)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    if (task.compacts) compacting ??= rounds.run().finally(() => (compacting = null))
    // The backlog is bounded by waiting: a store that is away must not fill the disk.
    while (rows.figures().backlogBytes > 64 * 1024 * 1024)
      await new Promise((resolve) => setTimeout(resolve, 50))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await compacting
  await rows.close()
  await store.close()
  await engine.close()
  await objects.close()
  process.stdout.write('closed\n')
}

if (process.argv[1] === import.meta.filename) await main(JSON.parse(process.argv[2] ?? '') as LakeProcessTask)
