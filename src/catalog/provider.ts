import type { ConfiguredProvider } from '../contracts/catalog.ts'
import type { ModelFacts, Provider } from '../contracts/provider.ts'
import type { ProviderFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

/** How long calls wait for a slot unless the file says. */
const QUEUE_MS = 1_000

/** Everything the catalog needs from outside the file. */
export interface ProviderContext extends SecretSources {
  /** The protocols, by kind. */
  readonly kinds: ReadonlyMap<string, Provider>
  /** The built-in table of models; undefined for a model that it lacks. */
  readonly factsOf: (kind: string, model: string) => ModelFacts | undefined
}

/** A provider with its protocol, and with what the file says of all its models. */
export interface ResolvedProvider {
  readonly configured: ConfiguredProvider
  readonly protocol: Provider
  readonly fields: ProviderFields
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

  const protocol = surroundings.kinds.get(kind)
  if (protocol === undefined) {
    const known = [...surroundings.kinds.keys()].sort().join(', ')
    issues.add([...path, 'kind'], `must be one of ${known}; there is no kind "${kind}"`)
  }
  if (concurrency === null && queueMs !== undefined)
    issues.add([...path, 'queue_ms'], 'has no effect without concurrency')
  const credential = credentialOf(name, fields, protocol, surroundings, path, issues)
  const baseUrl = baseUrlOf(fields, protocol, path, issues)
  if (protocol === undefined || credential === undefined || baseUrl === null) return null
  const slots = { concurrency, queueMs: queueMs ?? QUEUE_MS }
  return { configured: { name, kind, baseUrl, credential, access, workspace, ...slots }, protocol, fields }
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

/** Without a trailing slash; null when there is a issue. */
function baseUrlOf(
  { kind, base_url }: ProviderFields,
  protocol: Provider | undefined,
  path: Path,
  issues: Issues,
): string | null {
  const at = [...path, 'base_url']
  const text = base_url ?? protocol?.baseUrl ?? null
  if (text === null) {
    if (protocol !== undefined) issues.add(at, `is missing: the kind "${kind}" has no address of its own`)
    return null
  }
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    issues.add(at, 'must be an http or https URL')
  else if (url.username !== '' || url.password !== '') issues.add(at, 'must hold no credentials; use api_key')
  else if (/[?#]/.test(text)) issues.add(at, 'must hold no query and no fragment')
  else return text.replace(/\/+$/, '')
  return null
}
