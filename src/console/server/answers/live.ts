import type { SessionKind } from '../../../contracts/live.ts'

// Answers about live sessions, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /live?workspace=…: live sessions that are open, newest first, of one workspace or (operators) of all */
export interface LiveSessionsAnswer {
  readonly sessions: readonly LiveSessionAnswer[]
  /** More are open than are listed. */
  readonly is_cut: boolean
}

export interface LiveSessionAnswer {
  readonly id: string
  readonly workspace: string
  readonly app: string
  readonly key_id: string
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly route: string | null
  /** Null: it is being connected. */
  readonly entry: { readonly provider: string; readonly model: string } | null
  readonly started_at: string
  readonly kind: SessionKind
  /** Null: it speaks. */
  readonly audio_seconds: number | null
  /** Sent to be spoken; null: it transcribes. */
  readonly characters: number | null
  readonly switches: number
  /** So far; null: a price is not known. */
  readonly cost_usd: number | null
  /** Null: for operators only. */
  readonly node: string | null
}
