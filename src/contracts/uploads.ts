import type { AudioRef } from './audio.ts'

/** How long an upload can be added to and used, in seconds from its creation. */
export const UPLOAD_SECONDS = 24 * 3600

/**
 * Prefix of what stands for an upload where the URL of audio is asked for. Its host cannot exist (RFC 2606), so that
 * following it tells no one what it holds.
 */
export const UPLOAD_URL_PREFIX = 'https://larkway.invalid/upload/'

const ID = /^upl_[0-7][0-9a-hjkmnp-tv-z]{25}$/

export function isUploadId(id: string): boolean {
  return ID.test(id)
}

/** The id of the resumable upload that a URL of audio stands for; null: it is any other URL. */
export function uploadIdIn(url: string): string | null {
  const id = url.startsWith(UPLOAD_URL_PREFIX) ? url.slice(UPLOAD_URL_PREFIX.length) : ''
  return isUploadId(id) ? id : null
}

/** The maker of an upload: no other app may see or use it. */
export interface UploadOwner {
  readonly workspace: string
  readonly app: string
}

/** A caller who wants the audio of an upload. */
export interface UploadUser extends UploadOwner {
  /** `max_audio_bytes` */
  readonly maxBytes: number
}

/** Audio that was uploaded ahead of the calls that it is for. */
export interface UploadedAudio {
  /**
   * The audio of a finished upload, where readers of audio find it, for as long as the upload lasts. Null: the URL
   * stands for no upload.
   *
   * @throws GatewayError INVALID_REQUEST for one that is not there, or not finished; AUDIO_TOO_LARGE;
   *         DEPENDENCY_UNAVAILABLE
   */
  at(url: string, user: UploadUser, signal: AbortSignal): Promise<AudioRef | null>
}
