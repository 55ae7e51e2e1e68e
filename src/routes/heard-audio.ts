import { noAudio, type ReceivedAudio } from '../inbound/body.ts'
import type { Exchange } from '../inbound/exchange.ts'
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
  const { audioUrlDomains, limits } = services.snapshot()
  const own = await services.state.settings.audioUrlDomains(workspace)
  const fetched = await remoteAudio.fetch(url, {
    domains: [...audioUrlDomains, ...own],
    maxBytes: limits.max_audio_url_bytes,
    workspace,
    app: principal.app.id,
    signal,
  })
  return { audio: fetched.audio, identity: async () => identityOf(url), release: () => fetched.release() }
}

/** The same for audio that is not fetched, because the answer is there already. */
export function identityOf(url: string): string {
  return `url ${url}`
}
