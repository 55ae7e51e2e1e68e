import type { Static } from 'typebox'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { DomainsBody, MAX_DOMAINS, putDomains } from '../../workspace-domains.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { DomainsAnswer } from './answers.ts'

const PATH = '/workspaces/:workspace/audio-url-domains'

/** The hosts that a workspace may fetch audio from, as the workspace API has them. */
export function domainEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', PATH, {}, showDomains),
    consoleEndpoint(desk, 'PUT', PATH, { body: DomainsBody }, replaceDomains),
  ]
}

async function showDomains({ desk, params }: ConsoleCall<typeof PATH, unknown, unknown>) {
  return answer(desk, await desk.doors.services.state.settings.audioUrlDomains(params.workspace))
}

async function replaceDomains(call: ConsoleCall<typeof PATH, Static<typeof DomainsBody>, unknown>) {
  const { desk, viewer, params, body } = call
  const { state } = desk.doors.services
  return answer(desk, await putDomains(state, params.workspace, body.domains, viewer.actor))
}

function answer({ doors }: ConsoleDesk, domains: readonly string[]): DomainsAnswer {
  const { audioUrlDomains } = doors.services.snapshot()
  return { domains, max_domains: MAX_DOMAINS, platform_domains: audioUrlDomains }
}
