import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import { audioReader, readAudio } from '../audio-answer.ts'
import { classify } from '../failure.ts'
import { unsent, unsupportedField } from '../unsupported.ts'
import { deepgramHeaders, optOut } from './wire.ts'

interface Format {
  /** Query parameters; what an encoding does not take beside them is refused there. */
  readonly query: Readonly<Record<string, string>>
  readonly mediaType: string
}

const MP3: Format = { query: { encoding: 'mp3' }, mediaType: 'audio/mpeg' }

/** https://developers.deepgram.com/docs/tts-media-output-settings */
const FORMATS: ReadonlyMap<string, Format> = new Map([
  ['mp3', MP3],
  [
    'wav',
    { query: { encoding: 'linear16', container: 'wav', sample_rate: '24000' }, mediaType: 'audio/wav' },
  ],
  ['opus', { query: { encoding: 'opus', container: 'ogg' }, mediaType: 'audio/ogg' }],
  ['flac', { query: { encoding: 'flac' }, mediaType: 'audio/flac' }],
  ['aac', { query: { encoding: 'aac' }, mediaType: 'audio/aac' }],
  [
    'pcm',
    {
      query: { encoding: 'linear16', container: 'none', sample_rate: '24000' },
      mediaType: 'audio/pcm;rate=24000',
    },
  ],
])

const SPEED = { min: 0.7, max: 1.5 }
const DEFAULT_VOICE = 'thalia-en'

/** A name and a language; the provider's own name of a voice begins with the model. */
const VOICE = /^[a-z]{1,32}-[a-z]{2}$/

/**
 * `POST /v1/speak`. There the voice is part of the model's name, `aura-2-thalia-en`. The entry names the family
 * (`aura-2`), the call the voice, short (`thalia-en`) or whole; an entry that names a whole model has one voice.
 */
export const speech: Operation<SpeechCall, SpeechResult, Deltas['speech']> = {
  unsupported,
  start: order,
  next: (_state, reply, call) => readAudio(reply, (speechFormat(call) ?? MP3).mediaType),
  streamed: {
    start: order,
    refused: classify,
    read: (head, call) => audioReader(head, (speechFormat(call) ?? MP3).mediaType),
  },
}

/** The answer comes as it is made in any case, so that streaming is another way to read it only. */
function order(call: SpeechCall, target: Target): Step<SpeechResult> & { readonly kind: 'send' | 'failed' } {
  const issue = unsupported(call, target)
  const format = speechFormat(call)
  const model = modelOf(target.model, call.voice)
  if (issue !== null || format === null || model === null) return unsent(issue ?? unsupportedFormat())
  const { speed } = call
  const asked = speed === null ? {} : { speed: String(speed) }
  const query = new URLSearchParams({ model, ...format.query, ...asked, ...optOut(target) })
  const request = {
    method: 'POST' as const,
    url: `${target.baseUrl}/v1/speak?${query}`,
    headers: { accept: '*/*', ...deepgramHeaders(target), 'content-type': 'application/json' },
    body: [Buffer.from(JSON.stringify({ text: call.input }))],
  }
  return { kind: 'send', request, state: null }
}

function unsupported(call: SpeechCall, target: Target): Unsupported | null {
  const { speed, voice } = call
  if (speechFormat(call) === null) return unsupportedFormat()
  if (modelOf(target.model, voice) === null) {
    return unsupportedField('voice', 'the provider takes names such as thalia-en')
  }
  if (speed === null || (speed >= SPEED.min && speed <= SPEED.max)) return null
  return unsupportedField('speed', `the provider takes ${SPEED.min} to ${SPEED.max}`)
}

function unsupportedFormat(): Unsupported {
  return unsupportedField('response_format', `the provider makes ${[...FORMATS.keys()].join(', ')}`)
}

function speechFormat({ response_format: asked }: SpeechCall): Format | null {
  return asked === null ? MP3 : (FORMATS.get(asked) ?? null)
}

/** The provider's name of model and voice together; null when it cannot have such a voice. */
function modelOf(model: string, voice: string | null): string | null {
  const [, family, own] = /^(aura(?:-2)?)(?:-([a-z]+-[a-z]{2}))?$/.exec(model) ?? []
  // A model of another make: it is asked for by its own name.
  if (family === undefined) return voice === null || voice === model ? model : null
  const given = voice?.startsWith(`${family}-`) ? voice.slice(family.length + 1) : voice
  const chosen = given ?? own ?? DEFAULT_VOICE
  if (!VOICE.test(chosen) || (own !== undefined && chosen !== own)) return null
  return `${family}-${chosen}`
}
