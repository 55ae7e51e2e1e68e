import type { KindAnswer, ProviderAnswer } from '../../../server/api/answers.ts'
import { nameIssue } from '../../names.ts'
import type { DeclaredFacts } from './facts.ts'

/** A provider while it is edited. */
export interface ProviderForm {
  /** As typed, without the workspace before it. */
  readonly name: string
  readonly kind: string
  /** Empty: the stored one stays. It is never shown again once saved. */
  readonly credential: string
  /** Empty: the kind's own. */
  readonly baseUrl: string
  readonly facts: DeclaredFacts
}

export function providerForm(provider: ProviderAnswer | null, kinds: readonly KindAnswer[]): ProviderForm {
  return {
    name: provider?.name ?? '',
    kind: provider?.kind ?? kinds[0]?.kind ?? '',
    credential: '',
    baseUrl: provider?.base_url ?? '',
    facts: provider?.facts ?? {},
  }
}

/** The body of a save, in wire names. What is left out stays as it is. */
export function bodyOf(
  form: ProviderForm,
  { setsAddress }: { readonly setsAddress: boolean },
): Readonly<Record<string, unknown>> {
  const { kind, credential, baseUrl, facts } = form
  return {
    kind,
    ...(credential === '' ? {} : { credential }),
    ...(setsAddress && baseUrl.trim() !== '' ? { base_url: baseUrl.trim() } : {}),
    ...facts,
  }
}

export type ProviderIssues = Partial<Readonly<Record<'name' | 'credential' | 'baseUrl', string>>>

/**
 * Checks the form, and says by field why it cannot be saved.
 *
 * @param before null: it is a new one
 * @param taken whole names of all providers that are seen from here
 */
export function providerIssues(
  form: ProviderForm,
  known: {
    readonly before: ProviderAnswer | null
    readonly kinds: readonly KindAnswer[]
    readonly workspace: string | null
    readonly taken: readonly string[]
    readonly setsAddress: boolean
  },
): ProviderIssues {
  const { before, kinds, workspace, taken, setsAddress } = known
  const kind = kinds.find((one) => one.kind === form.kind)
  const issues: Record<string, string> = {}
  const name = before === null ? nameIssue(form.name, { workspace, taken }) : null
  if (name !== null) issues.name = name
  const keeps = before !== null && before.credential !== 'none' && before.kind === form.kind
  if (kind?.needs_credential === true && form.credential === '' && !keeps)
    issues.credential = `Required for ${form.kind}.`
  else if (/^\s|\s$/.test(form.credential)) issues.credential = 'Remove the spaces around it.'
  const address = setsAddress ? addressIssue(form.baseUrl.trim(), kind) : null
  if (address !== null) issues.baseUrl = address
  return issues
}

function addressIssue(address: string, kind: KindAnswer | undefined): string | null {
  if (address === '') return kind?.base_url === null ? `Required for ${kind.kind}.` : null
  const url = URL.parse(address)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'Enter an http or https URL.'
  if (url.username !== '' || url.password !== '')
    return 'Remove the credentials: enter them in the field above.'
  return /[?#]/.test(address) ? 'Remove the query and the fragment.' : null
}
