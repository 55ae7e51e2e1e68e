import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../errors.ts'
import type { Services } from '../../gateway/gateway.ts'
import type { Audio } from '../../schema/audio.ts'
import type { MediaProbe } from '../../schema/media.ts'
import type { FetchedAudio, RemoteAudio } from '../../schema/remote-audio.ts'
import { checkDuration } from '../audio-duration.ts'
import { domainsOf } from '../heard-audio.ts'
import type { Claim } from './claim.ts'
import { type JobTiming, spread } from './timing.ts'

export interface JobAudioParts {
  readonly services: Services
  readonly probe: MediaProbe
  readonly remoteAudio: RemoteAudio
  readonly timing: JobTiming
}

/**
 * The audio of a job, where workers find it: as it was given, as an earlier claim has fetched it, or fetched now.
 *
 * @throws GatewayError as `RemoteAudio.fetch`, `MediaProbe.probe` and `checkDuration`; what the claim ends with
 */
export async function audioOf(
  given: Audio | { readonly url: string },
  claim: Claim,
  parts: JobAudioParts,
): Promise<Audio> {
  if (!('url' in given)) return given
  const { audio: earlier } = claim.progress
  if (earlier !== null) return earlier
  const { services, probe } = parts
  const { audio: fetched, release } = await fetchAudio(given.url, claim, parts)
  try {
    await claim.checkpoint()
    const audio = await probe.probe(fetched, claim.signal)
    checkDuration(audio, services.snapshot().limits)
    claim.noteAudio(audio)
    await claim.checkpoint()
    return audio
  } catch (error) {
    if (claim.progress.audio === null) release()
    throw error
  }
}

/** Only what may be the host's bad moment is tried again. */
async function fetchAudio(
  url: string,
  { job, signal }: Claim,
  { services, remoteAudio, timing }: JobAudioParts,
): Promise<FetchedAudio> {
  const options = {
    // Allowed when the job was accepted, and maybe no more.
    domains: await domainsOf(job.workspace, services),
    maxBytes: services.snapshot().limits.max_audio_url_bytes,
    workspace: job.workspace,
    job: job.id,
    signal,
  }
  for (const pauseMs of timing.fetchAgainMs) {
    try {
      return await remoteAudio.fetch(url, options)
    } catch (error) {
      if (!(error instanceof GatewayError && isPassing(error))) throw error
    }
    await sleep(spread(pauseMs), undefined, { signal }).catch(() => signal.throwIfAborted())
  }
  return await remoteAudio.fetch(url, options)
}

/** The host failed, or no name server told where it is: neither has to last. */
function isPassing({ code, extra }: GatewayError): boolean {
  return code === 'AUDIO_URL_FETCH_FAILED' || extra.details?.reason === 'unresolvable'
}
