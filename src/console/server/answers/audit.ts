import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

/** GET /audit?workspace=…&actor=…&target=…&from=…&to=…&below=<number> */
export interface AuditListAnswer {
  /** Newest first. */
  readonly lines: readonly AuditAnswer[]
  /** The next page begins below it; null: there is none. */
  readonly next: number | null
}

export type AuditAnswer = Static<typeof shapes.AuditLine>
