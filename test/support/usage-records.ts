import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { readSegment, recordAt, type Segment } from '../../src/usage/segment-rows.ts'
import { recordsOf } from './usage-lake.ts'

/** Reads a segment from a file, whole. @throws Error when the file cannot be read */
export async function readSegmentFile(path: string): Promise<Segment> {
  return readSegment(await readFile(path))
}

/** All records, in the order in which they were first written. */
export function segmentRecords(segment: Segment): UsageRecord[] {
  return segment.rows.map((_, place) => recordAt(segment, place))
}

/**
 * The records of all segments below a folder, whoever they belong to, and of those that were rolled into the data
 * folder around it. Files that go away meanwhile are passed over.
 */
export async function usageRecords(folder: string): Promise<UsageRecord[]> {
  // Segments first: one that is rolled meanwhile is in a file that is listed later.
  const segments = await namesIn(folder, '.usage')
  const files = await namesIn(join(dirname(folder), 'usage'), '.parquet')
  const [waiting, rolled] = await Promise.all([
    Promise.allSettled(segments.map((path) => readSegmentFile(path).then(segmentRecords))),
    Promise.allSettled(files.map((path) => readFile(path))),
  ])
  const there = <Value>(all: readonly PromiseSettledResult<Value>[]) =>
    all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  return [...there(waiting).flat(), ...(await recordsOf(...there(rolled)))]
}

async function namesIn(folder: string, end: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  const wanted = names.filter((name) => name.endsWith(end)).sort()
  return wanted.map((name) => join(folder, name))
}

/** What they cost together, micro-USD. */
export function costOf(records: readonly UsageRecord[]): number {
  return records.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0)
}
