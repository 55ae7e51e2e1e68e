import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import type { ExtraOption } from '../../../contracts/extras.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { Operation, Target, Unsupported } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { audioReader, readAudio } from '../audio-answer.ts'
import { classify } from '../failure.ts'
import { unsent, unsupportedField } from '../unsupported.ts'
import { AUDIO_MEDIA_TYPES, type ExtraHeaders, jsonRequest } from './wire.ts'

/** Options that a provider's `POST /audio/speech` supports. */
export interface SpeechShape {
  readonly defaultVoice: string
  /** Sent when the caller names none; null leaves the choice to the server. */
  readonly defaultFormat: string | null
  /** Formats that it makes; null: whatever the server accepts. */
  readonly formats: readonly string[] | null
  /** Which further options of the format a model takes; absent: none. */
  readonly takesExtra?: (extra: ExtraOption, target: Target) => boolean
}

/** The formats of OpenAI's own speech models. */
export const SPEECH_FORMATS: readonly string[] = [...AUDIO_MEDIA_TYPES.keys()]

const SPEED = { min: 0.25, max: 4 }

/** `POST /audio/speech`, https://platform.openai.com/docs/api-reference/audio/createSpeech */
export function speechOperation(
  shape: SpeechShape,
  extra: ExtraHeaders,
): Operation<SpeechCall, SpeechResult, Deltas['speech']> {
  const start = (call: SpeechCall, target: Target) => {
    const issue = unsupported(call, shape)
    if (issue !== null) return unsent(issue)
    const format = call.response_format ?? shape.defaultFormat
    const body = {
      model: target.model,
      input: call.input,
      voice: call.voice ?? shape.defaultVoice,
      ...(format === null ? {} : { response_format: format }),
      ...(call.speed === null ? {} : { speed: call.speed }),
      ...Object.fromEntries((call.extras ?? []).map(({ name, value }) => [name, value])),
    }
    return { kind: 'send', request: jsonRequest(target, '/audio/speech', body, extra), state: null } as const
  }
  return {
    unsupported: (call) => unsupported(call, shape),
    ...(shape.takesExtra === undefined ? {} : { takesExtra: shape.takesExtra }),
    start,
    next: (_state, reply, { response_format: asked }) =>
      readAudio(reply, replyMediaType(reply, asked ?? shape.defaultFormat)),
    // The answer of every model comes in chunks as it is made, without being asked for.
    streamed: {
      start,
      refused: classify,
      read: (head, { response_format: asked }) =>
        audioReader(head, replyMediaType(head, asked ?? shape.defaultFormat)),
    },
  }
}

function unsupported(
  { response_format: asked, speed }: SpeechCall,
  { formats }: SpeechShape,
): Unsupported | null {
  if (asked !== null && formats !== null && !formats.includes(asked)) {
    return unsupportedField('response_format', `the provider makes ${formats.join(', ')}`)
  }
  if (speed !== null && !(speed >= SPEED.min && speed <= SPEED.max)) {
    return unsupportedField('speed', `the provider takes ${SPEED.min} to ${SPEED.max}`)
  }
  return null
}

/** By the format where one was asked for, else as the server says; null when it says nothing of audio. */
function replyMediaType({ headers }: Pick<UpstreamReply, 'headers'>, format: string | null): string | null {
  const said = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  const known = format === null ? undefined : AUDIO_MEDIA_TYPES.get(format)
  return known ?? (/^audio\/[a-z0-9.+-]+$/.test(said) ? said : null)
}
