import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import { speechForm, speechMediaType } from '../../media/speech-form.ts'
import { audioReader, readAudio } from '../audio-answer.ts'
import { classify } from '../failure.ts'
import { unsent, unsupportedField } from '../unsupported.ts'
import { requestHeaders } from './transcription.ts'

const DEFAULT_FORMAT = 'mp3'

/** Hz, and bits a second of mp3, of which 8 kHz have at most 64,000. */
const RATES: readonly number[] = [8000, 16_000, 22_050, 24_000, 44_100, 48_000]
const BIT_RATES: readonly number[] = [32_000, 48_000, 64_000, 96_000, 128_000]
const BIT_RATE_MAX_AT_8_KHZ = 64_000

/** A slug such as `aai-jane`, of the library or of the account's own voices, or a UUID. */
const VOICE = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/**
 * `POST /v1/speech`, at a host of its own. The audio comes as it is made; with `stream: false` it comes whole, and then
 * is never cut. https://www.assemblyai.com/docs/tts/api-reference/http-api/create-speech of 2026-11-25;
 * assemblyai 1.8.2 (PyPI) assemblyai/tts/v1/models.py and api.py
 */
export const speech: Operation<SpeechCall, SpeechResult, Deltas['speech']> = {
  unsupported,
  start: (call, target) => order(call, target, { stream: false }),
  next: (_state, reply, call) => readAudio(reply, askedMediaType(call)),
  streamed: {
    start: (call, target) => order(call, target, {}),
    refused: classify,
    read: (head, call) => audioReader(head, askedMediaType(call)),
  },
}

function order(
  call: SpeechCall,
  target: Target,
  mode: JsonObject,
): Step<SpeechResult> & { readonly kind: 'send' | 'failed' } {
  const issue = unsupported(call)
  if (issue !== null) return unsent(issue)
  const body = {
    model_id: target.model,
    text: call.input,
    ...(call.voice === null ? {} : { voice_id: call.voice }),
    ...speechFormat(call),
    ...mode,
  }
  const request = {
    method: 'POST' as const,
    url: `${speechUrl(target)}/v1/speech`,
    headers: { ...requestHeaders(target), 'content-type': 'application/json' },
    body: [Buffer.from(JSON.stringify(body))],
  }
  return { kind: 'send', request, state: null }
}

/** `api.assemblyai.com` → `tts.us.assemblyai.com`, `api.eu.…` → `tts.eu.…`; any other address is taken as it is. */
function speechUrl({ baseUrl }: Target): string {
  return baseUrl.replace(
    /^(https:\/\/)api\.(eu\.)?(assemblyai\.com)$/,
    (_all, scheme: string, eu = 'us.', host: string) => `${scheme}tts.${eu}${host}`,
  )
}

function unsupported(call: SpeechCall): Unsupported | null {
  if (speechFormat(call) === null)
    return unsupportedField('response_format', 'the provider makes mp3, wav, pcm, ulaw_8000 and alaw_8000')
  if (call.voice !== null && !VOICE.test(call.voice))
    return unsupportedField('voice', 'the provider takes names such as aai-jane')
  return call.speed === null || call.speed === 1
    ? null
    : unsupportedField('speed', 'the provider takes only 1')
}

function askedMediaType({ response_format: asked }: SpeechCall): string {
  return speechMediaType(asked ?? DEFAULT_FORMAT)
}

/** The fields of a format; null: the provider does not make it. */
function speechFormat({ response_format: asked }: SpeechCall): JsonObject | null {
  const form = speechForm(asked ?? DEFAULT_FORMAT)
  if (form === null || (form.sampleRate !== null && !RATES.includes(form.sampleRate))) return null
  const { codec, sampleRate, bitrate } = form
  const rate = { sample_rate: sampleRate ?? 24_000 }
  switch (codec) {
    case 'mp3':
      if (sampleRate === null || bitrate === null) return { encoding: 'mp3' }
      if (!BIT_RATES.includes(bitrate)) return null
      if (sampleRate === 8000 && bitrate > BIT_RATE_MAX_AT_8_KHZ) return null
      return { encoding: 'mp3', ...rate, bit_rate: bitrate }
    case 'pcm':
      return { encoding: 'pcm_s16le', ...rate }
    case 'wav':
      return { encoding: 'pcm_s16le', container: 'wav', ...rate }
    case 'ulaw':
      return { encoding: 'pcm_mulaw', ...rate }
    case 'alaw':
      return { encoding: 'pcm_alaw', ...rate }
    default:
      return null
  }
}
