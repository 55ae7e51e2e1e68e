import type { SpeechCall, SpeechResult } from '../schema/calls.ts'
import type { Operation, Step } from '../schema/provider.ts'
import type { UpstreamReply } from '../schema/upstream.ts'
import { classify, refused, unusable } from './failure.ts'
import { type ExtraHeaders, headersOf } from './openai-transcription.ts'

/** What a provider's `POST /audio/speech` takes. */
export interface SpeechShape {
  readonly defaultVoice: string
  /** Sent when the caller names none; null leaves the choice to the server. */
  readonly defaultFormat: string | null
  /** Formats that it makes; null: whatever the server accepts. */
  readonly formats: readonly string[] | null
}

/** Media type of each format; `pcm` is 24 kHz, 16 bit, little-endian, mono. */
const MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/ogg'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])

/** The formats of OpenAI's own speech models. */
export const SPEECH_FORMATS: readonly string[] = [...MEDIA_TYPES.keys()]

const SPEED = { min: 0.25, max: 4 }

/** `POST /audio/speech`, https://platform.openai.com/docs/api-reference/audio/createSpeech */
export function speechOperation(
  shape: SpeechShape,
  extra: ExtraHeaders,
): Operation<SpeechCall, SpeechResult> {
  return {
    start({ input, voice, response_format: asked, speed }, target): Step<SpeechResult> {
      const format = asked ?? shape.defaultFormat
      if (asked !== null && shape.formats !== null && !shape.formats.includes(asked)) {
        const reason = `response_format: the provider makes ${shape.formats.join(', ')}`
        return { kind: 'failed', failure: refused('caller', reason) }
      }
      if (speed !== null && !(speed >= SPEED.min && speed <= SPEED.max)) {
        const reason = `speed: the provider takes ${SPEED.min} to ${SPEED.max}`
        return { kind: 'failed', failure: refused('caller', reason) }
      }
      const body = JSON.stringify({
        model: target.model,
        input,
        voice: voice ?? shape.defaultVoice,
        ...(format === null ? {} : { response_format: format }),
        ...(speed === null ? {} : { speed }),
      })
      const headers = { ...headersOf(target, extra), 'content-type': 'application/json' }
      const url = `${target.baseUrl}/audio/speech`
      return {
        kind: 'send',
        request: { method: 'POST', url, headers, body: [Buffer.from(body)] },
        state: null,
      }
    },
    next(_state, reply, { response_format: asked }): Step<SpeechResult> {
      if (reply.status < 200 || reply.status > 299) return { kind: 'failed', failure: classify(reply) }
      const mediaType = mediaTypeOf(reply, asked ?? shape.defaultFormat)
      const empty = reply.body.every((chunk) => chunk.byteLength === 0)
      if (mediaType === null || empty) {
        return { kind: 'failed', failure: unusable(reply, 'the answer of the provider is no audio') }
      }
      return { kind: 'done', result: { audio: reply.body, mediaType } }
    },
  }
}

/**
 * By the format where one was asked for, else as the server says. Null when the answer is plainly no audio.
 */
function mediaTypeOf({ headers }: UpstreamReply, format: string | null): string | null {
  const said = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  if (said === 'application/json' || said.startsWith('text/')) return null
  const known = format === null ? undefined : MEDIA_TYPES.get(format)
  return known ?? (/^audio\/[a-z0-9.+-]+$/.test(said) ? said : null)
}
