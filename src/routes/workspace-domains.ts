import { Type } from 'typebox'
import { audioDomain } from '../catalog/domain.ts'
import { invalid, invalidField, MUST } from '../inbound/refusals.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { Actor } from '../schema/catalog-store.ts'
import type { State } from '../schema/state.ts'
import { actorOf, noteChange } from './audit-note.ts'
import type { Doors } from './endpoint.ts'
import { jsonReply } from './json-reply.ts'
import { readSettings, workspaceEndpoint } from './workspace.ts'

const PATH = '/audio-url-domains'
export const MAX_DOMAINS = 20
/** So that a refusal is not longer than what it refuses. */
const MAX_NAMED_FAULTS = 20

export const DomainsBody = Type.Object({
  domains: Type.Array(Type.String(), {
    description:
      'hosts that audio may be fetched from: host names, or `*.` and a host name for its subdomains',
  }),
})

/** GET and PUT of the hosts that a workspace may fetch audio from. A PUT replaces the list as a whole. */
export function audioUrlDomains(doors: Doors): EdgeRoute[] {
  return [
    workspaceEndpoint(doors, 'GET', PATH, async ({ services, workspace }) => {
      return reply(await services.state.settings.audioUrlDomains(workspace))
    }),
    workspaceEndpoint(doors, 'PUT', PATH, async (call) => {
      const { domains } = await readSettings(DomainsBody, call)
      const { services, workspace, principal } = call
      return reply(await putDomains(services.state, workspace, domains, actorOf(principal, 'api')))
    }),
  ]
}

/**
 * Replaces the list of a workspace.
 *
 * @param texts as they were sent
 * @returns     the domains as they are kept
 * @throws      GatewayError INVALID_REQUEST, DEPENDENCY_UNAVAILABLE
 */
export async function putDomains(
  { settings, catalog }: Pick<State, 'settings' | 'catalog'>,
  workspace: string,
  texts: readonly string[],
  by: Actor,
): Promise<readonly string[]> {
  const domains = readDomains(texts)
  const before = await settings.audioUrlDomains(workspace)
  const note = { action: 'audio-url-domains.replace', workspace, target: `workspace/${workspace}` }
  const detail = domains.length === 0 ? 'none' : domains.join(', ')
  await noteChange(catalog, { ...note, by, before, after: domains, detail })
  await settings.putAudioUrlDomains(workspace, domains)
  return domains
}

function reply(domains: readonly string[]) {
  return jsonReply({ domains, max_domains: MAX_DOMAINS })
}

/**
 * The domains as they are kept, each once, in the order given.
 *
 * @throws GatewayError INVALID_REQUEST naming those that are none by their index, or `domains` when they are too many
 */
function readDomains(texts: readonly string[]): readonly string[] {
  const domains = texts.map(audioDomain)
  const faults = domains.flatMap((domain, index) => (domain === null ? [`domains[${index}]`] : []))
  if (faults.length > 0) {
    const named = faults.slice(0, MAX_NAMED_FAULTS)
    const more = faults.length > named.length ? ` and ${faults.length - named.length} more` : ''
    const rule = 'must be a host name, or *. and a host name, without scheme, port or path'
    throw invalid(`${named.join(', ')}${more}: ${rule}`, named[0])
  }
  const distinct = [...new Set(domains.filter((domain) => domain !== null))]
  if (distinct.length > MAX_DOMAINS) throw invalidField('domains', MUST.haveItems(MAX_DOMAINS))
  return distinct
}
