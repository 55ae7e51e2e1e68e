import { fingerprintOf } from '../gateway/fingerprint.ts'
import { newId } from '../ids.ts'
import { noAudio } from '../inbound/body.ts'
import { JsonAudioScanner } from '../inbound/json-audio.ts'
import type { ScannedAudio, ScannedBody } from '../inbound/scanner.ts'
import type { StoredBody } from '../schema/audio.ts'
import { checkDuration } from './audio-duration.ts'
import { foreseeHearing } from './foresee-hearing.ts'
import { checkAudioUrl, identityOf } from './heard-audio.ts'
import type { Asker, QueuedCall } from './queue-call.ts'
import {
  type HearingTask,
  readTranscriptionRequest,
  type TranscriptionRequest,
} from './transcription-request.ts'

/** A job is neither streamed nor another job. */
const OFFERS = { stream: false, jobs: false }

/**
 * The fields and the audio in a payload of an audio endpoint.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, AUDIO_TOO_LARGE
 */
export function scanAudio(payload: Buffer, { doors }: Asker): ScannedBody {
  const scanner = new JsonAudioScanner(doors.services.snapshot().limits)
  scanner.scan(payload)
  return scanner.finish()
}

/**
 * The transcription or translation that a payload stands for. Audio that came with it is looked at; audio by URL is
 * left to the worker but for its URL.
 *
 * @throws GatewayError as the endpoint of the task before it calls a provider; as `foresee`
 */
export async function readHearing(
  task: HearingTask,
  payload: Buffer,
  { fields, source }: ScannedBody,
  asker: Asker,
): Promise<QueuedCall> {
  const request = readTranscriptionRequest(asker.exchange, fields, task, OFFERS)
  if (source.kind === 'none') throw noAudio(fields)
  if (source.kind === 'url') return readRemote(task, request, source.url, asker)
  const { offset, length } = source.audio
  return readInline(task, request, payload.subarray(offset, offset + length), source.audio, asker)
}

async function readRemote(
  task: HearingTask,
  request: TranscriptionRequest,
  url: string,
  { principal, trail, doors: { services } }: Asker,
): Promise<QueuedCall> {
  const { options, selectors, warnings } = request
  await checkAudioUrl(url, principal.workspace.id, services)
  foreseeHearing(services, task, request, null, trail)
  return {
    selectors,
    warnings,
    fingerprint: async () => fingerprintOf(task, options, selectors, identityOf(url)),
    keep: async () => ({ operation: task, options, audio: { url } }),
    release() {},
  }
}

/** @param text the audio as it stands in the payload */
async function readInline(
  task: HearingTask,
  request: TranscriptionRequest,
  text: Buffer,
  scanned: ScannedAudio,
  asker: Asker,
): Promise<QueuedCall> {
  const { options, selectors, warnings } = request
  const { exchange, trail, doors } = asker
  const { signal } = exchange
  const body = await spooled(text, asker)
  try {
    const audio = await doors.probe.probe({ ...scanned, source: body.source, offset: 0 }, signal)
    checkDuration(audio, doors.services.snapshot().limits)
    foreseeHearing(doors.services, task, request, audio, trail)
    return {
      selectors,
      warnings,
      fingerprint: async () =>
        fingerprintOf(task, options, selectors, await doors.digester.digest(audio, signal)),
      async keep(job) {
        return { operation: task, options, audio: await doors.jobs.objects.keepAudio(audio, job, signal) }
      },
      release: () => body.release(),
    }
  } catch (error) {
    body.release()
    throw error
  }
}

/** Brings the audio to where readers of audio find it. */
async function spooled(text: Buffer, { principal, doors }: Asker): Promise<StoredBody> {
  const { workspace } = principal
  const id = newId('req')
  const writer = doors.spool.open({ workspace: workspace.id, id, contentLength: text.length })
  try {
    await writer.start()
    writer.write(text)
    return await writer.finish()
  } catch (error) {
    // An upload that even abort cannot end is swept later.
    writer.abort().catch(() => {})
    throw error
  }
}
