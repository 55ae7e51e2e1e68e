import type { ConfiguredProvider } from '../schema/catalog.ts'
import type { ModelFacts, Provider } from '../schema/provider.ts'
import type { Faults, Path } from './faults.ts'
import type { ProviderFields } from './file.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

/** What the catalog asks of the world outside the file. */
export interface Surroundings extends SecretSources {
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

/** Makes a provider out of its fields; null when that cannot be. Every reason is added to `faults`. */
export function resolveProvider(
  name: string,
  fields: ProviderFields,
  workspaces: ReadonlySet<string>,
  surroundings: Surroundings,
  faults: Faults,
): ResolvedProvider | null {
  const path = ['providers', name]
  const { kind, access, workspace = null } = fields
  checkOwner(fields, workspaces, path, faults)

  const protocol = surroundings.kinds.get(kind)
  if (protocol === undefined) {
    const known = [...surroundings.kinds.keys()].sort().join(', ')
    faults.add([...path, 'kind'], `there is no kind "${kind}"; there are ${known}`)
  }
  const credential = credentialOf(name, fields, protocol, surroundings, path, faults)
  const baseUrl = baseUrlOf(fields, protocol, path, faults)
  if (protocol === undefined || credential === undefined || baseUrl === null) return null
  return { configured: { name, kind, baseUrl, credential, access, workspace }, protocol, fields }
}

function checkOwner(
  fields: ProviderFields,
  workspaces: ReadonlySet<string>,
  path: Path,
  faults: Faults,
): void {
  const { access, workspace } = fields
  const at = [...path, 'workspace']
  if (access === 'platform' && workspace !== undefined)
    faults.add(at, 'a platform provider belongs to no workspace')
  if (access === 'byok' && workspace === undefined)
    faults.add(at, 'is missing: a byok provider belongs to one')
  if (workspace !== undefined && !workspaces.has(workspace))
    faults.add(at, `there is no workspace "${workspace}"`)
}

/** The provider's key; null when it takes none; undefined when there is a fault. */
function credentialOf(
  name: string,
  { kind, api_key }: ProviderFields,
  protocol: Provider | undefined,
  sources: SecretSources,
  path: Path,
  faults: Faults,
): string | null | undefined {
  const at = [...path, 'api_key']
  if (api_key === undefined) {
    if (protocol?.needsCredential !== true) return null
    faults.add(at, `is missing: the kind "${kind}" needs one`)
    return undefined
  }
  const { value, fault } = resolveSecret(api_key, name, sources)
  if (fault !== undefined) faults.add(at, fault)
  return value
}

/** Without a trailing slash; null when there is a fault. */
function baseUrlOf(
  { kind, base_url }: ProviderFields,
  protocol: Provider | undefined,
  path: Path,
  faults: Faults,
): string | null {
  const at = [...path, 'base_url']
  const text = base_url ?? protocol?.baseUrl ?? null
  if (text === null) {
    if (protocol !== undefined) faults.add(at, `is missing: the kind "${kind}" has no address of its own`)
    return null
  }
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    faults.add(at, 'must be an http or https URL')
  else if (url.username !== '' || url.password !== '') faults.add(at, 'must hold no credentials; use api_key')
  else if (/[?#]/.test(text)) faults.add(at, 'must hold no query and no fragment')
  else return text.replace(/\/+$/, '')
  return null
}
