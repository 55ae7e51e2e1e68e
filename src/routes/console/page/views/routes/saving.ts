import type { RouteFields } from '../../../../../catalog/file.ts'
import type { RouteAnswer } from '../../../api/answers.ts'
import type { ApiError } from '../../api-error.ts'
import { saysTheSame } from './editing.ts'

/** How the server's draft stands to what is on the screen. */
export interface Saving {
  /** What the server said last. */
  readonly known: RouteAnswer
  /** What is on its way there. */
  readonly sending: RouteFields | null
  /** Why the last save failed; null: it did not. */
  readonly failed: ApiError | null
  /** What somebody else made of the draft meanwhile; it has to be decided whose goes on. */
  readonly conflict: RouteAnswer | null
}

export type SavingEvent =
  | { readonly is: 'known'; readonly answer: RouteAnswer }
  | { readonly is: 'sent'; readonly fields: RouteFields }
  | { readonly is: 'failed'; readonly error: ApiError }
  | { readonly is: 'conflict'; readonly theirs: RouteAnswer }
  /** The draft on the screen goes on, over the other's. */
  | { readonly is: 'mine' }
  | { readonly is: 'again' }

export type SavePhase = 'same' | 'unsaved' | 'saving' | 'failed' | 'conflict'

export function savingOf(known: RouteAnswer): Saving {
  return { known, sending: null, failed: null, conflict: null }
}

export function savingAfter(saving: Saving, event: SavingEvent): Saving {
  switch (event.is) {
    case 'known':
      return savingOf(event.answer)
    case 'sent':
      return { ...saving, sending: event.fields, failed: null }
    case 'failed':
      return { ...saving, sending: null, failed: event.error }
    case 'conflict':
      return { ...saving, sending: null, failed: null, conflict: event.theirs }
    case 'mine':
      return saving.conflict === null ? saving : savingOf(saving.conflict)
    case 'again':
      return { ...saving, failed: null }
  }
}

/** The route as the server keeps it for whoever edits it: the draft, else what is published. */
export function keptFields({ draft, published, workspace }: RouteAnswer): RouteFields {
  return draft?.fields ?? published?.fields ?? { workspace, entries: [] }
}

/** @param fields on the screen */
export function phaseOf({ known, sending, failed, conflict }: Saving, fields: RouteFields): SavePhase {
  if (conflict !== null) return 'conflict'
  if (sending !== null) return 'saving'
  if (saysTheSame(keptFields(known), fields)) return 'same'
  return failed === null ? 'unsaved' : 'failed'
}

/** The revision that the next save replaces; null: there is no draft. */
export function revisionOf({ known }: Saving): number | null {
  return known.draft?.revision ?? null
}

/** Who changed the route, and what they did with it, for those who have to decide. */
export function changedBy({ draft, published }: RouteAnswer): {
  readonly name: string | null
  readonly at: string | null
  readonly did: 'saved' | 'published' | 'removed'
} {
  if (draft) return { name: draft.saved_by, at: draft.saved_at, did: 'saved' }
  if (published) return { name: published.published_by, at: published.published_at, did: 'published' }
  return { name: null, at: null, did: 'removed' }
}
