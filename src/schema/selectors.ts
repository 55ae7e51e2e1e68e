import type { Profile } from './catalog.ts'

/** How a call chooses among the entries of its route. Plain data, so a job record can hold it. */
export interface Selectors {
  /** Label in the body or the header; null when none was sent. */
  readonly purpose: { readonly label: string; readonly source: 'body' | 'header' } | null
  readonly responseProfile: Profile | null
}
