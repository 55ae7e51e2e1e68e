import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import { speechMediaType } from '../../media/speech-form.ts'
import { audioReader, readAudio } from '../audio-answer.ts'
import { classify } from '../failure.ts'
import { unsent, unsupportedField } from '../unsupported.ts'
import { readTimed, TimedReader } from './timed-speech.ts'
import { elevenlabsHeaders, unlogged } from './wire.ts'

/** George, the voice of the provider's own samples: the voice is part of the path, so there must be one. */
export const DEFAULT_VOICE = 'JBFqnCBsd6RMkjVDRZzb'
export const DEFAULT_FORMAT = 'mp3_44100_128'

/** Names without a rate. 44.1 kHz PCM would need a larger plan. */
const SHORT_FORMATS: ReadonlyMap<string, string> = new Map([
  ['mp3', DEFAULT_FORMAT],
  ['pcm', 'pcm_24000'],
])

/** The provider's own names of formats, `codec_rate[_bitrate]`, and the media type of each codec. */
const FORMATS: ReadonlySet<string> = new Set([
  ...['22050_32', '24000_48', '44100_32', '44100_64', '44100_96', '44100_128', '44100_192'].map(
    (rates) => `mp3_${rates}`,
  ),
  ...[32, 64, 96, 128, 192].map((kilobits) => `opus_48000_${kilobits}`),
  ...[8000, 16000, 22050, 24000, 32000, 44100, 48000].flatMap((rate) => [`pcm_${rate}`, `wav_${rate}`]),
  'ulaw_8000',
  'alaw_8000',
])

const SPEED = { min: 0.7, max: 1.2 }
const SEED_MAX = 4_294_967_295

/**
 * `POST /v1/text-to-speech/{voice_id}`, and its `/stream` with the audio as it is made; both end in `/with-timestamps`
 * for a call that requires times.
 */
export const speech: Operation<SpeechCall, SpeechResult, Deltas['speech']> = {
  takesSeed: true,
  tellsTimes: true,
  unsupported,
  start: (call, target) => order(call, target, ''),
  next(_state, reply, call) {
    const mediaType = speechMediaType(nativeFormat(call) ?? DEFAULT_FORMAT)
    return call.times === true ? readTimed(reply, mediaType) : readAudio(reply, mediaType)
  },
  streamed: {
    start: (call, target) => order(call, target, '/stream'),
    refused: classify,
    read(head, call) {
      const mediaType = speechMediaType(nativeFormat(call) ?? DEFAULT_FORMAT)
      return call.times === true ? new TimedReader(head, mediaType) : audioReader(head, mediaType)
    },
  },
}

function order(
  call: SpeechCall,
  target: Target,
  suffix: '' | '/stream',
): Step<SpeechResult> & { readonly kind: 'send' | 'failed' } {
  const { input, speed, seed, voice } = call
  const format = nativeFormat(call)
  const issue = unsupported(call)
  if (issue !== null || format === null) return unsent(issue ?? badFormat())
  const timed = call.times === true ? '/with-timestamps' : ''
  const path = `/v1/text-to-speech/${encodeURIComponent(voice ?? DEFAULT_VOICE)}${suffix}${timed}`
  const body = {
    text: input,
    model_id: target.model,
    ...(speed === null ? {} : { voice_settings: { speed } }),
    ...(seed === null ? {} : { seed }),
  }
  const request = {
    method: 'POST' as const,
    url: `${target.baseUrl}${path}?${new URLSearchParams({ output_format: format, ...unlogged(target) })}`,
    headers: { accept: '*/*', ...elevenlabsHeaders(target), 'content-type': 'application/json' },
    body: [Buffer.from(JSON.stringify(body))],
  }
  return { kind: 'send', request, state: null }
}

/** The provider's own name of the format that a call asks for; null when it has none. */
export function nativeFormat({ response_format: asked }: SpeechCall): string | null {
  const format = asked === null ? DEFAULT_FORMAT : (SHORT_FORMATS.get(asked) ?? asked)
  return FORMATS.has(format) ? format : null
}

/** Finds unsupported options. They are never clamped or replaced: the caller would not notice. */
export function unsupported(call: SpeechCall): Unsupported | null {
  const { voice, speed, seed } = call
  if (nativeFormat(call) === null) return badFormat()
  // Text that is not an identifier must not change the path.
  if (voice !== null && !/^[A-Za-z0-9_-]{1,64}$/.test(voice)) {
    return unsupportedField('voice', 'the provider takes the identifier of a voice')
  }
  if (speed !== null && !(speed >= SPEED.min && speed <= SPEED.max)) {
    return unsupportedField('speed', `the provider takes ${SPEED.min} to ${SPEED.max}`)
  }
  if (seed !== null && (seed < 0 || seed > SEED_MAX)) {
    return unsupportedField('seed', `the provider takes 0 to ${SEED_MAX}`)
  }
  return null
}

function badFormat(): Unsupported {
  return unsupportedField('response_format', 'the provider makes mp3, pcm, or codec_rate[_bitrate]')
}
