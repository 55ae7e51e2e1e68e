import { DAY_MS, HOUR_MS } from './names.ts'

/** Dimensions of calls, by the names of the columns of records. */
export const CALL_DIMENSIONS = [
  'workspace',
  'app',
  'key_id',
  'purpose',
  'kind',
  'operation',
  'endpoint',
  'route',
  'provider',
  'model',
  'region',
  'outcome',
  'status',
  'error_code',
] as const
export const END_USER_DIMENSIONS = ['workspace', 'end_user'] as const
export type UsageDimension = (typeof CALL_DIMENSIONS)[number] | (typeof END_USER_DIMENSIONS)[number]

/** Columns of records that are added up as they are: money in micro-USD, seconds in milliseconds. */
export const SUMMED_COLUMNS = [
  'cost_usd',
  'audio_seconds',
  'billable_audio_seconds',
  'video_seconds',
  'input_tokens',
  'output_tokens',
  'characters',
  'images',
  'credits',
] as const

/**
 * The sums of a question. `errors`: records whose outcome is an error. `unpriced`: those that succeeded, and have no
 * cost because the price or the quantity is not known. `estimated` and `replayed`: those with that flag.
 */
export const USAGE_MEASURES = [
  ...(['calls', 'errors', 'unpriced', 'estimated', 'replayed'] as const),
  ...SUMMED_COLUMNS,
] as const
export type UsageMeasure = (typeof USAGE_MEASURES)[number]

/** Columns of records of which percentiles can be told. */
export const USAGE_LATENCIES = ['total_ms', 'first_ms'] as const
export type UsageLatency = (typeof USAGE_LATENCIES)[number]

/** A question about sums of records. */
export interface UsageQuestion {
  /** Epoch milliseconds at which an hour begins; a day, where it is about end users. */
  readonly fromMs: number
  /** The same, exclusive. */
  readonly toMs: number
  readonly step: UsageStep
  readonly by: readonly UsageDimension[]
  /** Values of which each dimension has one; null: it has none. */
  readonly where: { readonly [Name in UsageDimension]?: readonly (string | null)[] }
  /** The most first. */
  readonly sort: UsageMeasure
  /** Groups to leave out at the beginning, and the most to tell of. */
  readonly offset: number
  readonly limit: number
  /** Only these are told of, each by its values in the order of `by`; absent: as `offset` and `limit` say. */
  readonly groups?: readonly (readonly (string | null)[])[]
  /** Only groups whose first value begins so are told of; the total has all. */
  readonly beginning?: string
  /** True: latencies are not asked for, which saves most of the work. */
  readonly sumsOnly?: true
}

export const USAGE_STEPS = ['none', 'hour', 'day'] as const
export type UsageStep = (typeof USAGE_STEPS)[number]

export interface UsageAnswer {
  /** How many groups there are, told or not. */
  readonly groups: number
  /** Groups in the order asked for, each in the order of time; those of no record are left out. */
  readonly rows: readonly UsageAnswerRow[]
  /** The sums of all groups, also of those beyond the limit. */
  readonly total: UsageSums
}

export interface UsageAnswerRow extends UsageSums {
  /** When its hour or day begins; null: the whole time. */
  readonly timeMs: number | null
  /** In the order of `by`. */
  readonly values: readonly (string | null)[]
}

export interface UsageSums {
  /** Whole numbers: money in micro-USD, seconds in milliseconds. */
  readonly sums: Readonly<Record<UsageMeasure, number>>
  /** Null: no record has that latency. Absent: not known of end users. */
  readonly latencies: { readonly [Name in UsageLatency]?: Percentiles | null }
}

/** Milliseconds, to 3.2 %. */
export interface Percentiles {
  readonly p50: number
  readonly p95: number
  readonly p99: number
}

/** The most that there may be of combinations of values; a question of more has to be narrowed. */
export const GROUPS_MAX = 500_000
/** The most rows of an answer: some 2 KB of memory for each. */
export const ANSWER_ROWS_MAX = 10_000

/** A question that has too many groups. */
export class TooManyGroups extends Error {}

/** Whether a question is about end users, by whom latencies are not told and the day is the shortest step. */
export function isAboutEndUsers({ by, where }: Pick<UsageQuestion, 'by' | 'where'>): boolean {
  return by.includes('end_user') || where.end_user !== undefined
}

/** Dimensions that a question of end users can name. */
export function isOfEndUsers(dimension: UsageDimension): boolean {
  return END_USER_DIMENSIONS.some((name) => name === dimension)
}

export function stepMs(step: Exclude<UsageStep, 'none'>): number {
  return step === 'hour' ? HOUR_MS : DAY_MS
}

/** How many steps the time of a question has. */
export function timeSteps({ fromMs, toMs, step }: Pick<UsageQuestion, 'fromMs' | 'toMs' | 'step'>): number {
  if (step === 'none') return 1
  const length = stepMs(step)
  return Math.max(0, Math.ceil(toMs / length) - Math.floor(fromMs / length))
}

/** The most groups that an answer tells of. */
export function groupsMax(question: Pick<UsageQuestion, 'fromMs' | 'toMs' | 'step'>): number {
  return Math.floor(ANSWER_ROWS_MAX / Math.max(1, timeSteps(question)))
}
