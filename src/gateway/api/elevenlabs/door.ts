import { DemandingFlag, renamed } from '../door-options.ts'
import type { Door } from '../endpoint.ts'
import { ElevenLabsFault } from '../openapi/elevenlabs-answers.ts'
import type { Answer, Content } from '../openapi/operation.ts'

/** Names that these clients have for ours. */
const NAMES: Readonly<Record<string, string>> = {
  input: 'text',
  voice: 'voice_id',
  response_format: 'output_format',
  speed: 'voice_settings.speed',
  audio: 'file',
  language: 'language_code',
  speaker_count_hint: 'num_speakers',
  redaction: 'entity_redaction',
  audio_events: 'tag_audio_events',
  'audio.url': 'source_url',
  'audio.upload_id': 'source_url',
}

/** Conventions of ElevenLabs' client libraries, which are given `/elevenlabs` as their base URL. */
const DOOR: Door = {
  name: 'elevenlabs',
  tag: 'ElevenLabs',
  requestIdHeader: 'request-id',
  authorization: ({ authorization, 'xi-api-key': key }) =>
    key === undefined ? authorization : `Bearer ${key}`,
  translateError: (error) => renamed(error, NAMES),
  names: NAMES,
  errorShape: {
    schema: ElevenLabsFault,
    members: ({ code, message, extra: { param = null } }, requestId) => ({
      detail: { code, status: code, message, param, request_id: requestId },
    }),
  },
}

/** Part of every endpoint of this door. */
export const ELEVENLABS = { tag: 'ElevenLabs', scope: 'inference', door: DOOR } as const

/** Documents an answer in ElevenLabs' shape. */
export function elevenlabsAnswer(contents: readonly Content[], headers: Answer['headers'] = []): Answer {
  return { status: 200, description: "ElevenLabs' answer", contents, headers }
}

/** Zero retention mode. https://elevenlabs.io/docs/api-reference/text-to-speech/convert */
export const LOGGING = new DemandingFlag('enable_logging', false, { retention: 'zero' })
