import { audioDomain } from '../catalog/snapshot.ts'
import { invalid, invalidField, MUST } from '../edge/refusals.ts'
import { type AdminActor, type AdminContext, requireOperator, requireOwner } from './actor.ts'
import { audit, workspaceChange } from './audit.ts'

/** Hosts that a workspace may fetch audio from, besides those of the configuration. */
export const AUDIO_URL_DOMAINS_MAX = 20
/** So that a refusal is not longer than what it refuses. */
const NAMED_MAX = 20

type SettingsContext = Pick<AdminContext, 'state'>

/**
 * Replaces the list of hosts that a workspace may fetch audio from.
 *
 * @param input domains as they were sent
 * @returns the domains as they are kept
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, DEPENDENCY_UNAVAILABLE
 */
export async function replaceAudioUrlDomains(
  actor: AdminActor,
  input: { readonly workspace: string; readonly domains: readonly string[] },
  { state: { settings, catalog } }: SettingsContext,
): Promise<readonly string[]> {
  const { workspace } = input
  requireOwner(actor, workspace)
  const after = readDomains(input.domains)
  const before = await settings.audioUrlDomains(workspace)
  const detail = after.length === 0 ? 'none' : after.join(', ')
  const change = workspaceChange('audio-url-domains.replace', workspace)
  await audit(catalog, actor, { ...change, before, after, detail })
  await settings.putAudioUrlDomains(workspace, after)
  return after
}

/**
 * The domains as they are kept, each once, in the order given.
 *
 * @throws GatewayError INVALID_REQUEST naming invalid ones by their index, or `domains` when there are too many
 */
function readDomains(texts: readonly string[]): readonly string[] {
  const domains = texts.map(audioDomain)
  const invalidOnes = domains.flatMap((domain, index) => (domain === null ? [`domains[${index}]`] : []))
  if (invalidOnes.length > 0) {
    const named = invalidOnes.slice(0, NAMED_MAX)
    const more = invalidOnes.length > named.length ? ` and ${invalidOnes.length - named.length} more` : ''
    const rule = 'must be a host name, or *. and a host name, without scheme, port or path'
    throw invalid(`${named.map((name) => `\`${name}\``).join(', ')}${more} ${rule}`, named[0])
  }
  const distinct = [...new Set(domains.filter((domain) => domain !== null))]
  if (distinct.length > AUDIO_URL_DOMAINS_MAX)
    throw invalidField('domains', MUST.haveItems(AUDIO_URL_DOMAINS_MAX))
  return distinct
}

/**
 * Switches whether the console may show audio and transcripts of a workspace.
 *
 * @throws GatewayError NOT_FOUND, PERMISSION_DENIED where only operators may, DEPENDENCY_UNAVAILABLE
 */
export async function switchContent(
  actor: AdminActor,
  { workspace, shown }: { readonly workspace: string; readonly shown: boolean },
  { state: { settings, catalog }, catalog: served }: SettingsContext & Pick<AdminContext, 'catalog'>,
): Promise<void> {
  requireOwner(actor, workspace)
  // To hide it again is open to both.
  if (shown && (await served()).good().signIn.contentSwitch === 'operator') requireOperator(actor)
  const before = { shown: await settings.contentShown(workspace) }
  if (before.shown === shown) return
  const change = workspaceChange(shown ? 'content.show' : 'content.hide', workspace)
  await audit(catalog, actor, { ...change, before, after: { shown } })
  await settings.putContentShown(workspace, shown)
}
