import { type RequireFields, type Requirements, requirementsOf } from '../../contracts/requirements.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import { queryValues } from '../../inbound/form.ts'
import { type DoorOption, OptionReader, renamed } from '../door-options.ts'
import type { Door } from '../endpoint.ts'
import { ElevenLabsFault } from '../openapi/elevenlabs-answers.ts'
import type { Answer, Content } from '../openapi/operation.ts'

/** Conventions of ElevenLabs' client libraries, which are given `/elevenlabs` as their base URL. */
const DOOR: Door = {
  name: 'elevenlabs',
  tag: 'ElevenLabs',
  requestIdHeader: 'request-id',
  authorization: ({ authorization, 'xi-api-key': key }) =>
    key === undefined ? authorization : `Bearer ${key}`,
  translateError: (error) => renamed(error, NAMES),
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

/** Row of `enable_logging`, at every path of this door. */
export const LOGGING: DoorOption = {
  fate: 'kept',
  note: '`false`: as `retention=zero` in `X-LK-Require`; required of every entry',
}

/**
 * What it stands for at the vendor: zero retention mode.
 * https://elevenlabs.io/docs/api-reference/text-to-speech/convert
 */
const UNKEPT: RequireFields = { retention: 'zero' }

/** What options demand of providers by `enable_logging=false`; null: nothing. @throws GatewayError INVALID_REQUEST */
export function unloggedIn(options: OptionReader): RequireFields | null {
  return options.flags('enable_logging').includes(false) ? UNKEPT : null
}

/** The same of a query that nobody has read yet. */
export function demandedBy({ query }: Exchange): Requirements | null {
  const fields = unloggedIn(new OptionReader(queryValues(query), {}))
  return fields === null ? null : requirementsOf(fields)
}

/** Names of ours, and what these clients call the same. */
const NAMES: Readonly<Record<string, string>> = {
  input: 'text',
  voice: 'voice_id',
  response_format: 'output_format',
  speed: 'voice_settings.speed',
  audio: 'file',
  language: 'language_code',
  speaker_count_hint: 'num_speakers',
  redaction: 'entity_redaction',
}
