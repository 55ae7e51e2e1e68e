import { createHash } from 'node:crypto'
import type { ObjectInfo } from '../contracts/objects.ts'

/**
 * Names of the files of usage: `usage/date=2026-11-22/<name>.parquet`, as Hive partitions. The name of a file that was
 * rolled is that of its segment, so that rolling one again replaces it; the name of a merged one follows from its
 * inputs.
 */
const FILE = /^usage\/date=(\d{4}-\d{2}-\d{2})\/([A-Za-z0-9_-][A-Za-z0-9_.-]*)\.parquet$/
const MERGED = 'merged-'
export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

export interface UsageObject {
  readonly key: string
  /** Day of `ended_at` of all its records, in UTC. */
  readonly date: string
  readonly name: string
  readonly bytes: number
  readonly modifiedAt: Date
}

/** Null: no file of usage. */
export function usageObject({ key, bytes, modifiedAt }: ObjectInfo): UsageObject | null {
  const [, date, name] = FILE.exec(key) ?? []
  return date === undefined || name === undefined ? null : { key, date, name, bytes, modifiedAt }
}

export function usageKey(date: string, name: string): string {
  return `${usagePrefix(date)}${name}.parquet`
}

export function usagePrefix(date: string): string {
  return `usage/date=${date}/`
}

/** Dates of a month from which on it is listed as a whole: each listing is a request to the store. */
const MONTH_WORTH = 4

/**
 * Beginnings of the keys of all that is of some dates, maybe with others of the same months.
 *
 * @param prefixOf of a date
 */
export function prefixesOf(dates: readonly string[], prefixOf: (date: string) => string): string[] {
  const months = Map.groupBy(dates, (date) => date.slice(0, 'yyyy-mm-'.length))
  return [...months].flatMap(([month, own]) =>
    own.length < MONTH_WORTH ? own.map(prefixOf) : [prefixOf(month).slice(0, -1)],
  )
}

export function isMerged(name: string): boolean {
  return name.startsWith(MERGED)
}

/** @param expired workspaces whose records were left out */
export function mergedName(inputs: readonly string[], expired: readonly string[]): string {
  const text = JSON.stringify([[...inputs].sort(), [...expired].sort()])
  return `${MERGED}${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
}

/** The day of a moment, in UTC. */
export function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** When a day begins. */
export function dateMs(date: string): number {
  return Date.parse(`${date}T00:00:00Z`)
}

/** Every day that has a moment from `fromMs` to `toMs`, exclusive. */
export function datesBetween(fromMs: number, toMs: number): string[] {
  const dates: string[] = []
  for (let ms = dateMs(dateOf(fromMs)); ms < toMs; ms += DAY_MS) dates.push(dateOf(ms))
  return dates
}
