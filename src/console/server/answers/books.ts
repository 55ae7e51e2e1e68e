/** An amount beside another, USD. */
interface BookAnswer {
  /** RFC 3339: from when both are counted; null: nothing was charged yet. */
  readonly since: string | null
  readonly booked_usd: number
  readonly recorded_usd: number
  readonly difference_usd: number
  readonly reserved_usd: number
}

/** GET /books?workspace=…: what accounts were charged, and what the records of usage cost */
export interface BooksAnswer {
  /** RFC 3339: records of calls that ended later may be missing. */
  readonly complete_until: string
  readonly data: readonly (BookAnswer & { readonly workspace: string })[]
  readonly total: BookAnswer
}
