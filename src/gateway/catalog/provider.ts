import type { ConfiguredProvider, ProbeSettings } from '../../contracts/catalog.ts'
import type { ModelTable } from '../../contracts/models.ts'
import type { Provider } from '../../contracts/provider.ts'
import { trimEndWhere } from '../../contracts/trim.ts'
import type { ProviderFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import { checkPrices } from './prices.ts'
import { unitRatesOf } from './rate-limit.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

/** How long calls wait for a permit unless the file says. */
const QUEUE_MS = 1_000

/** Everything the catalog needs from outside the file. */
export interface ProviderContext extends SecretSources {
  /** The protocols, by kind. */
  readonly kinds: ReadonlyMap<string, Provider>
  /** Facts of models. */
  readonly models: ModelTable
}

/** A provider with its protocol, and with what the file says of all its models. */
export interface ResolvedProvider {
  readonly configured: ConfiguredProvider
  readonly protocol: Provider
  readonly fields: ProviderFields
}

/** A provider as the basis of something that is remembered; one that is not there differs from one that is invalid. */
export function providerBasis(provider: ResolvedProvider | null | undefined): readonly unknown[] {
  return provider ? [provider.configured, provider.protocol, provider.fields] : [provider]
}

/** Builds a provider from its fields. Null when they are invalid; every reason is added to `issues`. */
export function resolveProvider(
  name: string,
  fields: ProviderFields,
  workspaces: ReadonlySet<string>,
  surroundings: ProviderContext,
  issues: Issues,
): ResolvedProvider | null {
  const path = ['providers', name]
  const { kind, access, workspace = null, concurrency = null, queue_ms: queueMs } = fields
  checkOwner(fields, workspaces, path, issues)
  checkPrices(fields.prices, [...path, 'prices'], issues)

  const protocol = surroundings.kinds.get(kind)
  if (protocol === undefined) {
    const known = [...surroundings.kinds.keys()].sort().join(', ')
    issues.add([...path, 'kind'], `must be one of ${known}; there is no kind "${kind}"`)
  }
  if (concurrency === null && queueMs !== undefined)
    issues.add([...path, 'queue_ms'], 'has no effect without concurrency')
  const credential = credentialOf(name, fields, protocol, surroundings, path, issues)
  const address = providerAddress(fields, protocol, path, issues)
  if (protocol === undefined || credential === undefined || address === null) return null
  const rates = fields.rate_limit === undefined ? {} : { unitRates: unitRatesOf(fields.rate_limit) }
  const terms = { concurrency, queueMs: queueMs ?? QUEUE_MS, ...rates }
  return { configured: { name, kind, ...address, credential, access, workspace, ...terms }, protocol, fields }
}

function checkOwner(
  fields: ProviderFields,
  workspaces: ReadonlySet<string>,
  path: Path,
  issues: Issues,
): void {
  const { access, workspace } = fields
  const at = [...path, 'workspace']
  if (access === 'platform' && workspace !== undefined)
    issues.add(at, 'must be left out: a platform provider belongs to no workspace')
  if (access === 'byok' && workspace === undefined)
    issues.add(at, 'is missing: a byok provider belongs to one')
  if (workspace !== undefined && !workspaces.has(workspace))
    issues.add(at, `there is no workspace "${workspace}"`)
}

/** The provider's key; null when it takes none; undefined when there is a issue. */
function credentialOf(
  name: string,
  { kind, api_key }: ProviderFields,
  protocol: Provider | undefined,
  sources: SecretSources,
  path: Path,
  issues: Issues,
): string | null | undefined {
  const at = [...path, 'api_key']
  if (api_key === undefined) {
    if (protocol?.needsCredential !== true) return null
    issues.add(at, `is missing: the kind "${kind}" needs one`)
    return undefined
  }
  const { value, issue } = resolveSecret(api_key, name, sources)
  if (issue !== undefined) issues.add(at, issue)
  return value
}

type Address = Pick<ConfiguredProvider, 'baseUrl' | 'pool'>

/** Where its calls go; null when there is an issue. */
function providerAddress(
  fields: ProviderFields,
  protocol: Provider | undefined,
  path: Path,
  issues: Issues,
): Address | null {
  const { kind, base_url, base_urls, health } = fields
  if (base_urls !== undefined) return poolOf(fields, base_urls, protocol, path, issues)
  if (health !== undefined) issues.add([...path, 'health'], 'has no effect without base_urls')
  const text = base_url ?? protocol?.baseUrl ?? null
  const at = [...path, 'base_url']
  if (text === null) {
    if (protocol !== undefined) issues.add(at, `is missing: the kind "${kind}" has no address of its own`)
    return null
  }
  const baseUrl = baseUrlOf(text, at, issues)
  return baseUrl === null ? null : { baseUrl, pool: null }
}

function poolOf(
  { kind, base_url, health = {} }: ProviderFields,
  texts: readonly string[],
  protocol: Provider | undefined,
  path: Path,
  issues: Issues,
): Address | null {
  const at = [...path, 'base_urls']
  if (base_url !== undefined) issues.add(at, 'must be left out beside base_url')
  // An order placed at a vendor's own address is known at all of its servers.
  if (typeof protocol?.baseUrl === 'string')
    issues.add(at, `must be left out: the kind "${kind}" has an address of its own`)
  const read = texts.map((text, index) => baseUrlOf(text, [...at, index], issues))
  const baseUrls = read.filter((url) => url !== null)
  if (new Set(baseUrls).size < baseUrls.length) issues.add(at, 'must not name a server twice')
  const isWhole = base_url === undefined && baseUrls.length === texts.length
  return isWhole ? { baseUrl: baseUrls[0]!, pool: { baseUrls, probe: probeOf(health) } } : null
}

function probeOf(health: NonNullable<ProviderFields['health']>): ProbeSettings {
  const {
    path = null,
    interval_ms = 5_000,
    timeout_ms = 2_000,
    unhealthy_after = 3,
    healthy_after = 1,
  } = health
  return {
    path,
    intervalMs: interval_ms,
    timeoutMs: timeout_ms,
    unhealthyAfter: unhealthy_after,
    healthyAfter: healthy_after,
  }
}

const isSlash = (point: number): boolean => point === 0x2f

/** Without a trailing slash; null when there is an issue. */
function baseUrlOf(text: string, at: Path, issues: Issues): string | null {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    issues.add(at, 'must be an http or https URL')
  else if (url.username !== '' || url.password !== '') issues.add(at, 'must hold no credentials; use api_key')
  else if (/[?#]/.test(text)) issues.add(at, 'must hold no query and no fragment')
  else return trimEndWhere(text, isSlash)
  return null
}
