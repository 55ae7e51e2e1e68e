// Answers about usage, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /usage?workspace=…&by=…: as `GET /v1/usage` answers, of one workspace or (operators) of all */
export interface UsageAnswer {
  /** RFC 3339: when the first step begins, and the last one ends. */
  readonly from: string
  readonly to: string
  readonly step: 'none' | 'hour' | 'day'
  /** Records that ended later may be missing. */
  readonly complete_until: string
  /** Groups that there are, told or not. */
  readonly groups: number
  readonly truncated: boolean
  /** The node that answers keeps records; false: there may be some of others, or of earlier. */
  readonly is_recorded: boolean
  readonly names: UsageNames
  /** One for each group and step of which there are records, the most first. */
  readonly data: readonly UsageRow[]
  readonly total: UsageSums
}

/** Names of keys by their ids. */
export type UsageNames = Readonly<Record<string, string>>

export interface UsageSums
  extends Readonly<
    Record<
      | 'calls'
      | 'errors'
      | 'cost_usd'
      | 'audio_seconds'
      | 'input_tokens'
      | 'output_tokens'
      | 'characters'
      | 'images',
      number
    >
  > {
  /** From the request to the end of its answer. Null: there is none. */
  readonly total_ms: UsagePercentiles | null
  /** To the first byte of the answer. */
  readonly first_ms: UsagePercentiles | null
}

export type UsagePercentiles = Readonly<Record<'p50' | 'p95' | 'p99', number>>

/** Values of the requested dimensions by their names; null: the records have none. */
export interface UsageRow extends UsageSums {
  /** When its hour or day begins. */
  readonly time?: string
  readonly [dimension: string]: string | number | null | undefined | UsagePercentiles
}
