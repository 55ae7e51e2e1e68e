import type { UsageColumn, UsageColumnName, UsageRecord } from '../contracts/usage-record.ts'
import { USAGE_COLUMNS, USAGE_SCALES } from '../contracts/usage-record.ts'
import { type CsvCell, csvLine } from './csv.ts'

type TimeColumn = Extract<(typeof USAGE_COLUMNS)[number], { readonly kind: 'time' }>['name']

/** A record as it is told, by the names of its columns: times in RFC 3339, money in USD, seconds with decimals. */
export type WrittenRecord = Omit<UsageRecord, TimeColumn> & { readonly [Name in TimeColumn]: string }

export const LOG_FORMATS = ['csv', 'json'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** @param record one, or some columns of it */
export function recordJson<Name extends UsageColumnName>(
  record: Pick<UsageRecord, Name>,
): Pick<WrittenRecord, Name> {
  const has: Partial<UsageRecord> = record
  const fields = USAGE_COLUMNS.flatMap(({ name, kind }) => {
    const value = has[name]
    return value === undefined ? [] : [[name, toldValue(kind, value)] as const]
  })
  return Object.fromEntries(fields) as Pick<WrittenRecord, Name>
}

/** Records as a part of a file: lines of CSV, or items of a JSON array with a comma between two. */
export function recordsText(records: readonly UsageRecord[], format: LogFormat): string {
  if (format === 'json') return records.map((record) => JSON.stringify(recordJson(record))).join(',\n')
  const line = (record: UsageRecord) =>
    csvLine(USAGE_COLUMNS.map(({ name, kind }) => cellOf(toldValue(kind, record[name]))))
  return records.map(line).join('')
}

/** The first line of a CSV of records. */
export function recordsHead(): string {
  return csvLine(USAGE_COLUMNS.map(({ name }) => name))
}

function toldValue(kind: UsageColumn['kind'], value: string | number | boolean | null) {
  if (typeof value !== 'number') return value
  if (kind === 'time') return new Date(value).toISOString()
  return kind === 'money' || kind === 'seconds' ? value / 10 ** USAGE_SCALES[kind] : value
}

function cellOf(value: string | number | boolean | null): CsvCell {
  return typeof value === 'boolean' ? String(value) : value
}
