import { GatewayError } from '../errors.ts'
import { foresee } from '../gateway/foresee.ts'
import type { Call, Services, Trail } from '../gateway/gateway.ts'
import { invalid, invalidField } from '../inbound/refusals.ts'
import type { AcceptedAudio } from './accept.ts'

/** The names that providers give the formats of a media type, the usual one first. */
const FORMATS: ReadonlyMap<string, readonly string[]> = new Map([
  ['audio/mpeg', ['mp3']],
  ['audio/mp3', ['mp3']],
  ['audio/wav', ['wav', 'wav_24000']],
  ['audio/x-wav', ['wav', 'wav_24000']],
  ['audio/wave', ['wav', 'wav_24000']],
  ['audio/vnd.wave', ['wav', 'wav_24000']],
  ['audio/ogg', ['opus', 'opus_48000_96']],
  ['audio/opus', ['opus', 'opus_48000_96']],
  ['audio/flac', ['flac']],
  ['audio/x-flac', ['flac']],
  ['audio/aac', ['aac']],
  ['audio/pcm', ['pcm']],
  ['audio/basic', ['ulaw_8000']],
])

/** What is asked of the gateway beside the call. */
interface Asked {
  readonly trail: Trail
  readonly services: Services
}

/**
 * The call in a format of the media types that its caller accepts. Where no entry makes one of them, any other format
 * does if the header has a range for it, with a warning.
 *
 * @throws GatewayError INVALID_REQUEST that names what can be made
 */
export function inAcceptedFormat(
  call: Call<'speech'>,
  { types, others }: AcceptedAudio,
  asked: Asked,
): Call<'speech'> {
  if (types.length === 0) return call
  const { response_format: given } = call.payload
  if (given !== null) {
    if (others || types.some((type) => isFormatOf(given, type))) return call
    const rule = `must be a format of ${types.join(' or ')}, which the header Accept asks for`
    throw invalidField('response_format', rule)
  }
  let refusal: GatewayError | null = null
  for (const type of types) {
    for (const format of FORMATS.get(type) ?? []) {
      const candidate = withFormat(call, format)
      const refused = refusalOf(candidate, asked)
      if (refused === null) return candidate
      refusal ??= refused
    }
  }
  const named = types.join(' or ')
  if (others) {
    const line = `accept: no entry makes ${named}; this is another format`
    return { ...call, warnings: [...call.warnings, line] }
  }
  refusal ??= refusalOf(withFormat(call, types[0]!), asked)
  const makes = refusal?.message ?? `speech is made as ${[...new Set(FORMATS.keys())].join(', ')}`
  throw invalid(`Accept: ${named} cannot be made here: ${makes}`, 'Accept')
}

/** `wav_24000` is a format of `audio/wav`. */
function isFormatOf(format: string, type: string): boolean {
  const codec = (name: string) => name.split('_')[0]
  return (FORMATS.get(type) ?? []).some((name) => codec(name) === codec(format))
}

function withFormat(call: Call<'speech'>, format: string): Call<'speech'> {
  return { ...call, payload: { ...call.payload, response_format: format } }
}

/** Why no entry makes the format; null when one does, or when it is something else that the call will tell. */
function refusalOf(call: Call<'speech'>, { trail, services }: Asked): GatewayError | null {
  try {
    foresee(services, { operation: 'speech', trail, call })
    return null
  } catch (thrown) {
    const isFormat = thrown instanceof GatewayError && thrown.extra.param === 'response_format'
    return isFormat ? thrown : null
  }
}
