import type { AudioRef } from './audio.ts'

/** Why audio is not fetched from a URL, as `details.reason` says it. */
export type UrlRejection =
  | 'scheme'
  | 'host_not_allowed'
  | 'address_not_public'
  | 'unresolvable'
  | 'too_many_redirects'
  | 'redirect_rejected'
  | 'no_content_length'
  | 'unsupported_content_type'
  | 'credentials_in_url'
  | 'port_not_allowed'
  /** The host answered 4xx. */
  | 'status'

/** Audio that a host has begun to send. */
export interface RemoteBody {
  /** As declared; what `chunks` add up to. */
  readonly length: number
  /** Lower case, without parameters. */
  readonly mediaType: string
  /**
   * To be iterated to its end, or left, which ends the connection. A chunk is the reader's to keep. Throws GatewayError
   * AUDIO_URL_FETCH_FAILED when the host breaks off, sends more than it declared or is too slow, and the signal's
   * reason when aborted.
   */
  readonly chunks: AsyncIterable<Uint8Array>
}

export interface FetchOptions {
  /** Hosts that may be fetched from: names, and `*.` and a name for its subdomains; lower case, IDNA-encoded. */
  readonly domains: readonly string[]
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/**
 * Asks a host for audio, resolves when the head of its answer is here and is as it has to be.
 *
 * @throws GatewayError AUDIO_URL_REJECTED with `details.reason`; AUDIO_TOO_LARGE with the limit max_audio_url_bytes;
 *         AUDIO_URL_FETCH_FAILED; the signal's reason when aborted
 */
export type FetchAudio = (url: string, options: FetchOptions) => Promise<RemoteBody>

/** Audio by URL, brought to where bodies are. */
export interface RemoteAudio {
  /**
   * Streams the audio into the object store, with nothing of it held in memory but what is on its way.
   *
   * @throws GatewayError as `FetchAudio`; OVERLOADED and DEPENDENCY_UNAVAILABLE from the spool
   */
  fetch(url: string, options: RemoteAudioOptions): Promise<FetchedAudio>
}

export interface RemoteAudioOptions extends FetchOptions {
  /** Workspace that an object is filed under, and whose share of the upload permits it counts against. */
  readonly workspace: string
  /** An object that it goes into is sealed, see `SpoolOptions`. */
  readonly sealed?: boolean
  /** The job that it is for: then it goes into an object of that job's. */
  readonly job?: string
}

export interface FetchedAudio {
  readonly audio: AudioRef
  /** Deletes the object. Idempotent; see StoredBody. */
  release(): void
}
