import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { LiveAudio } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { Exchange } from '../../edge/exchange.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import { SEVERAL_LANGUAGES } from '../../providers/language.ts'
import { doorSelectors } from '../door-options.ts'
import { faultOf } from '../json-fault.ts'
import { optional, refusedField } from '../json-request.ts'
import { readLiveCall } from '../native/live-call.ts'
import { PROMPT_LENGTH_MAX } from '../native/transcription-request.ts'
import { MODEL_FIELD } from './door.ts'

const SILENCE_MS = 500

const Format = Type.Object({
  type: Type.Enum(['audio/pcm', 'audio/pcmu', 'audio/pcma']),
  rate: optional(Type.Literal(24_000), 'Hz, of `audio/pcm`; the others have 8000'),
})

const Transcription = Type.Object({
  model: MODEL_FIELD,
  language: optional(Type.String({ maxLength: 35 }), 'of the speech, a hint'),
  languages: optional(
    Type.Array(Type.String({ maxLength: 35 }), { maxItems: 32 }),
    'a hint; only a single one is passed on',
  ),
  keywords: optional(
    Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1_000 }),
    'words to listen for, none of them empty; required of the model',
  ),
  prompt: optional(Type.String({ maxLength: PROMPT_LENGTH_MAX }), 'text that came before; a hint'),
  delay: optional(Type.Unknown(), 'accepted, and not passed on'),
})

const TurnDetection = Type.Object({
  type: Type.Enum(['server_vad', 'semantic_vad'], {
    description: 'the entry ends utterances in its own way',
  }),
  silence_duration_ms: optional(
    Type.Integer({ minimum: 10, maximum: 5_000 }),
    `silence that ends an utterance; default: ${SILENCE_MS}`,
  ),
})

/** A session as clients write it; `transcription` may have fields of the gateway's own, too. */
export const RealtimeSession = Type.Object(
  {
    type: Type.Literal('transcription'),
    audio: optional(
      Type.Object({
        input: optional(
          Type.Object({
            format: optional(Format, 'default: audio/pcm'),
            noise_reduction: optional(Type.Unknown(), 'accepted, and not passed on'),
            transcription: optional(Transcription, 'what is to be transcribed, and how'),
            turn_detection: optional(TurnDetection, 'null: the client commits; default: server_vad'),
          }),
          'the audio that comes',
        ),
      }),
      'audio of the session',
    ),
    include: refusedField('probabilities of tokens are not told'),
  },
  { title: 'OpenAiRealtimeSession' },
)

type FormatName = Static<typeof Format>['type']

/** Settings of a session in force. Plain data, so that a client secret can hold it. */
export interface RealtimeConfig {
  readonly format: FormatName
  /** As sent, merged over all updates. */
  readonly transcription: Readonly<Record<string, unknown>>
  /** Null: the client commits. */
  readonly silenceMs: number | null
}

export const DEFAULT_CONFIG: RealtimeConfig = {
  format: 'audio/pcm',
  transcription: {},
  silenceMs: SILENCE_MS,
}

const AUDIO: Readonly<Record<FormatName, LiveAudio>> = {
  'audio/pcm': { encoding: 'pcm_s16le', sampleRate: 24_000, channels: 1 },
  'audio/pcmu': { encoding: 'mulaw', sampleRate: 8_000, channels: 1 },
  'audio/pcma': { encoding: 'alaw', sampleRate: 8_000, channels: 1 },
}

export function realtimeAudio({ format }: RealtimeConfig): LiveAudio {
  return AUDIO[format]
}

const Update = Type.Object({ session: RealtimeSession })

/**
 * The settings after an update. Omitted fields keep their value, null clears.
 *
 * @throws GatewayError INVALID_REQUEST naming the field
 */
export function configured(config: RealtimeConfig, session: unknown): RealtimeConfig {
  const update = { session }
  if (!Value.Check(Update, update)) throw faultOf(Update, update)
  const { format, transcription, turn_detection: turns } = update.session.audio?.input ?? {}
  return {
    format: format === undefined ? config.format : (format?.type ?? DEFAULT_CONFIG.format),
    transcription:
      transcription === undefined
        ? config.transcription
        : transcription === null
          ? {}
          : { ...config.transcription, ...transcription },
    silenceMs:
      turns === undefined
        ? config.silenceMs
        : turns === null
          ? null
          : (turns.silence_duration_ms ?? SILENCE_MS),
  }
}

/** The session with the settings in force, as clients are told it. */
export function effectiveSession(id: string, config: RealtimeConfig): object {
  const { format, transcription, silenceMs } = config
  const { model = null, language = null, prompt = null } = transcription
  return {
    type: 'transcription',
    object: 'realtime.transcription_session',
    id,
    audio: {
      input: {
        format: format === 'audio/pcm' ? { type: format, rate: 24_000 } : { type: format },
        noise_reduction: null,
        transcription: { ...transcription, model, language, prompt },
        turn_detection: silenceMs === null ? null : { type: 'server_vad', silence_duration_ms: silenceMs },
      },
    },
    include: null,
  }
}

const OWN_NAMES: Readonly<Record<string, string>> = { keyterms: 'keywords' }
const FIELDS = 'session.audio.input.transcription'

/**
 * The call that a session with these settings is. `model` is taken away before route-control fields are looked for: it
 * may name a purpose.
 *
 * @throws GatewayError as `readLiveCall`, naming the field where clients have it
 */
export function liveCallOf(
  exchange: Exchange,
  principal: Principal,
  config: RealtimeConfig,
): LiveRequest['call'] {
  const { encoding, sampleRate, channels } = realtimeAudio(config)
  const {
    model,
    keywords,
    languages,
    delay: _,
    ...own
  } = config.transcription as Static<typeof Transcription>
  const several = (languages ?? []).length > 1
  const value = {
    ...own,
    language: own.language ?? (several ? SEVERAL_LANGUAGES : languages?.[0]),
    ...(keywords === undefined || keywords === null ? {} : { keyterms: keywords }),
    ...{ encoding, sample_rate: sampleRate, channels },
    commit: config.silenceMs === null ? 'manual' : 'auto',
    endpointing_ms: config.silenceMs,
  }
  const call = inClientsWords(() => readLiveCall(exchange, { kind: 'json', value }))
  return {
    ...call,
    selectors: doorSelectors(call.selectors, principal, model ?? null),
    warnings: [
      ...call.warnings,
      ...(several ? ['languages: more than one cannot be passed on'] : []),
      ...((config.transcription.delay ?? null) === null ? [] : ['delay: not passed on']),
    ],
  }
}

function inClientsWords<Value>(read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof GatewayError) || error.extra.param === undefined) throw error
    const { param } = error.extra
    const name = `${FIELDS}.${OWN_NAMES[param] ?? param}`
    throw new GatewayError(error.code, error.message.replace(`\`${param}\``, `\`${name}\``), {
      ...error.extra,
      param: name,
    })
  }
}
