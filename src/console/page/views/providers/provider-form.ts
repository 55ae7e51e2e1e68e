import type { KindAnswer, ProviderAnswer } from '../../../server/answers/providers.ts'
import { nameIssue } from '../../names.ts'
import type { DeclaredFacts } from './facts.ts'

/** Most servers of a provider. */
const REPLICAS_MAX = 64

/** A provider while it is edited. */
export interface ProviderForm {
  /** As typed, without the workspace before it. */
  readonly name: string
  readonly kind: string
  /** Empty: the stored one stays. It is never shown again once saved. */
  readonly credential: string
  /** Empty: the kind's own. Several, one in each line: servers that answer alike. */
  readonly baseUrl: string
  /** Path of the probes of several servers. Empty: the list of models. */
  readonly healthPath: string
  /** How else they are probed; not edited here. */
  readonly health: NonNullable<ProviderAnswer['health']>
  readonly facts: DeclaredFacts
}

export function providerForm(provider: ProviderAnswer | null, kinds: readonly KindAnswer[]): ProviderForm {
  const { path = '', ...health } = provider?.health ?? {}
  return {
    name: provider?.name ?? '',
    kind: provider?.kind ?? kinds[0]?.kind ?? '',
    credential: '',
    baseUrl: provider?.base_urls?.join('\n') ?? provider?.base_url ?? '',
    healthPath: path,
    health,
    facts: provider?.facts ?? {},
  }
}

/** The body of a save, in wire names. What is left out stays as it is. */
export function bodyOf(
  form: ProviderForm,
  { setsAddress }: { readonly setsAddress: boolean },
): Readonly<Record<string, unknown>> {
  const { kind, credential, facts } = form
  return {
    kind,
    ...(credential === '' ? {} : { credential }),
    ...(setsAddress ? addressFields(form) : {}),
    ...facts,
  }
}

function addressFields({ baseUrl, healthPath, health }: ProviderForm): Readonly<Record<string, unknown>> {
  const addresses = addressesIn(baseUrl)
  if (addresses.length < 2) return { base_url: addresses[0] ?? null }
  const path = healthPath.trim()
  const probe = { ...health, ...(path === '' ? {} : { path }) }
  return { base_urls: addresses, ...(Object.keys(probe).length === 0 ? {} : { health: probe }) }
}

/** The addresses of a text, one in each line. */
export function addressesIn(text: string): string[] {
  return text.split(/\s+/).filter((address) => address !== '')
}

export type ProviderIssues = Partial<
  Readonly<Record<'name' | 'credential' | 'baseUrl' | 'healthPath', string>>
>

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
  const addresses = addressesIn(form.baseUrl)
  const address = setsAddress ? addressesIssue(addresses, kind) : null
  if (address !== null) issues.baseUrl = address
  // It is asked for with several addresses alone.
  if (setsAddress && addresses.length > 1 && !/^(\/(?![/\\])[^\s\\#]*)?$/.test(form.healthPath.trim()))
    issues.healthPath = 'Enter a path such as /health.'
  return issues
}

function addressesIssue(addresses: readonly string[], kind: KindAnswer | undefined): string | null {
  if (addresses.length === 0) return kind?.base_url === null ? `Required for ${kind.kind}.` : null
  if (addresses.length > 1 && kind?.base_url !== null) return 'Enter one address for this provider type.'
  if (addresses.length > REPLICAS_MAX) return `Enter at most ${REPLICAS_MAX} addresses.`
  if (new Set(addresses).size < addresses.length) return 'Enter each address once.'
  return addresses.map(addressIssue).find((issue) => issue !== null) ?? null
}

function addressIssue(address: string): string | null {
  const url = URL.parse(address)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'Enter an http or https URL.'
  if (url.username !== '' || url.password !== '')
    return 'Remove the credentials: enter them in the field above.'
  return /[?#]/.test(address) ? 'Remove the query and the fragment.' : null
}
