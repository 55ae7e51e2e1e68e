import type { Exchange } from '../../edge/exchange.ts'
import { renamed } from '../door-options.ts'
import type { Door } from '../endpoint.ts'
import { AssemblyAiFault } from '../openapi/assemblyai-answers.ts'

/** Names that these clients have for ours. */
const NAMES: Readonly<Record<string, string>> = {
  ...{ 'audio.url': 'audio_url', 'audio.upload_id': 'audio_url', language: 'language_code' },
  ...{ detect_language: 'language_detection', diarization: 'speaker_labels', keyterms: 'keyterms_prompt' },
  ...{ profanity_filter: 'filter_profanity', redaction: 'redact_pii', smart_formatting: 'format_text' },
  speaker_count_hint: 'speakers_expected',
}

const LIVE = "streaming in AssemblyAI's format is not served here; see GET /v1/transcription/stream"

/** Conventions of AssemblyAI's client libraries, which are given `/assemblyai` as their base URL. */
const DOOR: Door = {
  name: 'assemblyai',
  tag: 'AssemblyAI',
  requestIdHeader: 'x-request-id',
  authorization: bearerOf,
  translateError: (error) => renamed(error, NAMES),
  names: NAMES,
  errorShape: {
    schema: AssemblyAiFault,
    isFlat: true,
    // Their libraries throw the text, so that it says all.
    members: ({ code, message, extra: { param = null, details = {} } }, requestId) => ({
      error: `${code}: ${message}`,
      ...{ code, param, request_id: requestId, details },
    }),
  },
  unserved: {
    'lemur/': 'LeMUR is not served here; send the text of the transcript to POST /v1/chat',
    'v2/realtime/': LIVE,
    'v3/': LIVE,
  },
}

/** Part of every endpoint of this door. */
export const ASSEMBLYAI = { tag: 'AssemblyAI', scope: 'jobs', door: DOOR } as const

/** Its clients send the key alone. */
export function bearerOf({ authorization }: Exchange['headers']): string | undefined {
  if (authorization === undefined || /\s/.test(authorization.trim())) return authorization
  return `Bearer ${authorization.trim()}`
}
