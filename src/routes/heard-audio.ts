import type { Services } from '../gateway/gateway.ts'
import { noAudio, type ReceivedAudio } from '../inbound/body.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { rejected } from '../outbound/fetch-failure.ts'
import { judgeUrl } from '../outbound/remote-url.ts'
import type { AudioRef } from '../schema/audio.ts'
import type { Principal } from '../schema/catalog.ts'
import type { Doors } from './endpoint.ts'

/** The audio of a call, at rest. */
export interface HeardAudio {
  readonly audio: AudioRef
  /** What two requests with the same audio have in common: its digest, or the URL that it is fetched from. */
  identity(): Promise<string>
  /** Gives back what it holds. Idempotent; see StoredBody. */
  release(): void
}

/**
 * The audio that came with a request, or from where the request says that it is.
 *
 * @throws GatewayError INVALID_REQUEST without any; as `RemoteAudio.fetch`; DEPENDENCY_UNAVAILABLE when the state does
 *         not tell where the workspace may fetch from
 */
export async function hearAudio(
  { fields, source, release }: ReceivedAudio,
  { signal }: Exchange,
  principal: Principal,
  { digester, remoteAudio, services }: Doors,
): Promise<HeardAudio> {
  if (source.kind === 'none') throw noAudio(fields)
  if (source.kind === 'audio') {
    const { audio } = source
    return { audio, identity: () => digester.digest(audio, signal), release }
  }
  const { url } = source
  const { id: workspace } = principal.workspace
  const fetched = await remoteAudio.fetch(url, {
    domains: await domainsOf(workspace, services),
    maxBytes: services.snapshot().limits.max_audio_url_bytes,
    workspace,
    signal,
  })
  return { audio: fetched.audio, identity: async () => identityOf(url), release: () => fetched.release() }
}

/**
 * Hosts that a workspace may have audio fetched from: the platform's and its own.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the state does not tell
 */
export async function domainsOf(
  workspace: string,
  { snapshot, state }: Pick<Services, 'snapshot' | 'state'>,
): Promise<readonly string[]> {
  const own = await state.settings.audioUrlDomains(workspace)
  return [...snapshot().audioUrlDomains, ...own]
}

/**
 * Judges a URL for a later fetch, as far as its text tells: nobody is asked where its host leads to.
 *
 * @throws GatewayError AUDIO_URL_REJECTED; as `domainsOf`
 */
export async function checkAudioUrl(
  url: string,
  workspace: string,
  services: Pick<Services, 'snapshot' | 'state'>,
): Promise<void> {
  const judged = judgeUrl(url, await domainsOf(workspace, services))
  if ('rejected' in judged) throw rejected(judged.rejected)
}

/** What is the same about requests with the same URL, in place of a digest. */
export function identityOf(url: string): string {
  return `url ${url}`
}
