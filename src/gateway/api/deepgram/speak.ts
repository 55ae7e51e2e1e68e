import { Type } from 'typebox'
import type { Principal } from '../../../contracts/catalog.ts'
import type { CallOf } from '../../call/facts/call.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { queryValues } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { DoorOptions } from '../door-options.ts'
import { doorSelectors, kept, OptionReader, optionsParameter, refused, warned } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { jsonRequest } from '../json-request.ts'
import { readSpeech, SpeechBody, streamSpeech } from '../native/speech.ts'
import { SPEECH_FACTS } from '../openapi/headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { DEEPGRAM, deepgramAnswer } from './door.ts'
import { OPT_OUT } from './options.ts'

const NO_CALLBACK = 'speech is answered at once'

/** Every option of `POST /v1/speak`, in the order of Deepgram's reference. */
export const SPEAK_OPTIONS: DoorOptions = {
  callback: refused(NO_CALLBACK),
  callback_method: refused(NO_CALLBACK),
  mip_opt_out: OPT_OUT.option,
  tag: warned('requests have no labels here'),
  bit_rate: warned('the entry decides'),
  container: kept('`wav` or `none` for `linear16`, `none` for `mulaw` and `alaw`, `ogg` for `opus`'),
  encoding: kept('`linear16`, `mp3`, `opus`, `flac`, `aac`, `mulaw`, `alaw`; default: `mp3`'),
  model: kept('a purpose of the workspace, or a voice as `voice` at `/v1/speech`'),
  sample_rate: kept(
    'of `linear16`; default: 24000, or what the WAV of the entry has; of others it must be left out, or be 8000',
  ),
  speed: kept('within what the entry takes'),
}

const SpeakBody = Type.Object({ text: SpeechBody.properties.input })

export const speakRequest = jsonRequest('speech', SpeakBody, ({ text }) => readSpeech({ input: text }))

/** Answers with the audio as the body, as it is made. */
export const speak = endpoint({
  ...DEEPGRAM,
  method: 'POST',
  path: '/deepgram/v1/speak',
  kind: 'call',
  id: 'deepgramSpeak',
  summary: 'Text to speech',
  body: { ...speakRequest, parameters: ['Purpose', optionsParameter(SPEAK_OPTIONS)] },
  answers: [
    deepgramAnswer(
      [{ type: 'audio/*', schema: { type: 'string', format: 'binary' } }],
      ['dg-model-name', 'dg-char-count', ...SPEECH_FACTS],
    ),
  ],
  errors: CALL_ERRORS,
  async handle(request) {
    const { exchange, context } = request
    const call = readSpeak(exchange, request.body.call, context.principal)
    const reply = await streamSpeech(call, request)
    const kept = 'common' in reply ? reply.common?.headers : undefined
    const { 'x-lk-model': model = '' } = kept ?? reply.headers ?? {}
    const counted = String([...call.payload.input].length)
    return { ...reply, headers: { ...reply.headers, 'dg-model-name': model, 'dg-char-count': counted } }
  },
})

/**
 * The call with the options of the query.
 *
 * @throws  GatewayError INVALID_REQUEST naming an option
 */
export function readSpeak(
  exchange: Exchange,
  body: CallOf<'speech'>,
  principal: Principal,
  { options, formatsIn }: SpeakTerms = IN_A_FILE,
): CallOf<'speech'> {
  const query = new OptionReader(queryValues(exchange.query), options)
  const model = query.text('model')
  const speed = query.number('speed')
  if (speed !== null && speed <= 0) throw invalidField('speed', MUST.beGreaterThan(0))
  const [response_format, ...format_aliases] = formatsIn(query)
  const unkept = OPT_OUT.in(query)
  const warnings = [...body.warnings, ...query.settleKindly()]
  const selectors = doorSelectors(body.selectors, principal, model, unkept)
  const isPurpose = selectors.purpose?.label === model && selectors.purpose.source === 'body'
  const voice = isPurpose ? null : model
  const payload = { ...body.payload, speed, voice, response_format, format_aliases }
  return { ...body, payload, selectors, warnings }
}

type FormatNames = readonly [string, ...string[]]

/** Differences between audio in a file and audio as it is made. */
export interface SpeakTerms {
  readonly options: DoorOptions
  /** @throws GatewayError INVALID_REQUEST naming an option */
  formatsIn(query: OptionReader): FormatNames
}

const IN_A_FILE: SpeakTerms = {
  options: SPEAK_OPTIONS,
  formatsIn: (query) =>
    formatsOf(query.text('encoding'), query.text('container'), query.number('sample_rate')),
}

/** Default sample rate of `linear16`. */
export const PCM_HERTZ = 24_000
const TELEPHONE_HERTZ = 8_000

/**
 * Names that providers give what an encoding, a container and a rate ask for, the usual one first.
 *
 * @throws GatewayError INVALID_REQUEST naming the option
 */
export function formatsOf(
  encoding: string | null,
  container: string | null,
  rate: number | null,
): FormatNames {
  const only = (containers: readonly string[], rates: readonly number[] = []) => {
    if (container !== null && !containers.includes(container))
      throw invalidField('container', containers.length === 0 ? LEFT_OUT : MUST.beOneOf(containers))
    if (rate !== null && rates.length > 0 && !rates.includes(rate))
      throw invalidField('sample_rate', MUST.beOneOf(rates))
    if (rate !== null && rates.length === 0) throw invalidField('sample_rate', LEFT_OUT)
  }
  switch (encoding) {
    case 'linear16': {
      if (container !== null) only(['wav', 'none'], [rate ?? PCM_HERTZ])
      const codec = container === 'none' ? 'pcm' : 'wav'
      const named = `${codec}_${rate ?? PCM_HERTZ}`
      return (rate ?? PCM_HERTZ) === PCM_HERTZ ? [codec, named] : [named]
    }
    case 'mulaw':
    case 'alaw':
      only(['none'], [TELEPHONE_HERTZ])
      // Deepgram's default is WAV, which no provider makes with this encoding.
      if (container === null) throw invalidField('encoding', 'must come with `container=none`')
      return [encoding === 'mulaw' ? 'ulaw_8000' : 'alaw_8000']
    case 'opus':
      only(['ogg'])
      return ['opus', 'opus_48000_96']
    case 'mp3':
    case 'flac':
    case 'aac':
      only([])
      return [encoding]
    case null:
      only([])
      return [DEFAULT_FORMAT]
    default:
      throw invalidField('encoding', MUST.beOneOf(ENCODINGS))
  }
}

/** https://developers.deepgram.com/docs/tts-media-output-settings */
const DEFAULT_FORMAT = 'mp3'
const ENCODINGS = ['linear16', 'mp3', 'opus', 'flac', 'aac', 'mulaw', 'alaw']
const LEFT_OUT = MUST.beLeftOut('the encoding decides it')
