import type { AudioRef } from '../../../contracts/audio.ts'
import { type SealContext, seal, unseal } from '../../../contracts/sealing.ts'
import { UPLOAD_SECONDS, UPLOAD_URL_PREFIX, uploadIdIn } from '../../../contracts/uploads.ts'
import { invalidField } from '../../edge/refusals.ts'

/** Tells whether a URL is meant to be that of an upload that came by this door. */
export function isUploadUrl(url: string): boolean {
  return url.startsWith(UPLOAD_URL_PREFIX) && uploadIdIn(url) === null
}

/**
 * The URL of audio in the store, which only keys of its workspace can use, for a day: its place, sealed. Clients take
 * any text that is not a URL for the path of a file, so it looks like a URL.
 */
export function uploadUrl(
  audio: AudioRef,
  workspace: string,
  keys: readonly Buffer[],
  nowMs: number,
): string {
  if (audio.source.kind !== 'object') throw new Error('an upload is in the store')
  const { key, written } = audio.source
  const place = [key, audio.length, nowMs + UPLOAD_SECONDS * 1000, written?.crc32]
  return UPLOAD_URL_PREFIX + seal(keys, JSON.stringify(place), sealContext(workspace))
}

/** The audio of an upload's URL, which may be over a day old; null: it is none. */
export function uploadIn(url: string, workspace: string, keys: readonly Buffer[]): AudioRef | null {
  return isUploadUrl(url) ? (placeIn(url, workspace, keys)?.audio ?? null) : null
}

/** @throws GatewayError INVALID_REQUEST for one that is forged, over a day old, or another workspace's */
export function openUpload(url: string, workspace: string, keys: readonly Buffer[], nowMs: number): AudioRef {
  const place = placeIn(url, workspace, keys)
  if (place === null || place.endsAtMs <= nowMs)
    throw invalidField('audio_url', 'must be of an upload of this workspace in the last 24 hours')
  return place.audio
}

function placeIn(url: string, workspace: string, keys: readonly Buffer[]) {
  const place = unseal(keys, url.slice(UPLOAD_URL_PREFIX.length), sealContext(workspace))
  if (place === null) return null
  const [key, length, endsAtMs, crc32] = JSON.parse(place) as [string, number, number, (number | null)?]
  // It has none where the last version made it.
  const written = typeof crc32 === 'number' ? { written: { bytes: length, crc32 } } : {}
  const audio: AudioRef = {
    source: { kind: 'object', key, ...written },
    ...{ offset: 0, length, encoding: 'identity', decodedBytes: length, canonical: true },
    ...{ mediaType: null, filename: null },
  }
  return { audio, endsAtMs }
}

function sealContext(workspace: string): SealContext {
  return { purpose: 'upload', workspace }
}
