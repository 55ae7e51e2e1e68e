import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { readSegmentFile } from '../../src/usage/segment.ts'

/** The records of all segments below a folder, whoever they belong to. Files that go away meanwhile are passed over. */
export async function usageRecords(folder: string): Promise<UsageRecord[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  const read = names
    .filter((name) => name.endsWith('.usage'))
    .sort()
    .map((name) => readSegmentFile(join(folder, name)).then((segment) => [...segment.records()]))
  return (await Promise.allSettled(read)).flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
}

/** What they cost together, micro-USD. */
export function costOf(records: readonly UsageRecord[]): number {
  return records.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0)
}
