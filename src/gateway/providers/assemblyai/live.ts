import type { LiveAudio, LiveCall, Redaction, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake } from '../../../contracts/live.ts'
import { bytesPerSecond } from '../../../contracts/live-audio.ts'
import type { Target, Unsupported } from '../../../contracts/provider.ts'
import type { Failure } from '../../../contracts/upstream.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { objectsIn } from '../json.ts'
import { languageCode, languageHint } from '../language.ts'
import { closeFailure, LiveLog, NO_FRAMES, silence, UNREADABLE } from '../live.ts'
import { fractionOf, secondsOf, spanOf } from '../numbers.ts'
import { wantsSpeakers } from '../transcript-needs.ts'
import { lackedFeatures } from '../unsupported.ts'
import { policiesOf, REDACTED_LANGUAGES } from './redaction.ts'

/** Least audio of a message; others are answered with 3007. */
const MESSAGE_MIN_SECONDS = 0.05
/** The keep-alive is repeated at this interval while nothing else is sent. */
const KEEP_ALIVE_MS = 10_000

/**
 * Streaming v3: `GET /v3/ws` as a WebSocket at a host of its own, options in the query, audio as binary frames.
 * assemblyai 4.41.5 src/services/streaming/service.ts, src/types/streaming/index.ts
 */
export const live = defineLive({
  unsupported: ({ options }) => unsupported(options),
  handshake,
  hint: hintOf,
  wire: (call) => new StreamingWire(call),
  keepAliveMs: KEEP_ALIVE_MS,
  tellsTurns: () => true,
  // Turns, silence about every second, and heartbeats, of which its pages do not say how often they come.
  answersWithinMs: 10_000,
})

/** The kinds whose policies are all among those that streaming has; of medical ones it lacks injuries. */
const REDACTED: readonly Redaction[] = ['pii', 'pci', 'numbers']

/** A language that is not known may be one in which nothing is redacted. */
function unsupported({
  redaction,
  language,
  detect_language: detect,
  multichannel,
}: LiveCall['options']): Unsupported | null {
  const lacked = redaction.filter((kind) => !REDACTED.includes(kind))
  const code = language === null || detect ? null : languageCode(language)
  const isForeign = redaction.length > 0 && (code === null || !REDACTED_LANGUAGES.has(code))
  return lackedFeatures([multichannel && 'multichannel', (lacked.length > 0 || isForeign) && 'redaction'], {
    redactions: lacked,
    ...(isForeign && code !== null ? { language: code } : {}),
  })
}

function liveAudioFor({ live: { audio } }: LiveCall): LiveAudio {
  const encoding = audio.encoding === 'mulaw' ? 'mulaw' : 'pcm_s16le'
  return { encoding, sampleRate: audio.sampleRate, channels: 1 }
}

function hintOf({ options }: LiveCall) {
  return languageHint(options, (code) => (code.length === 2 ? code : null))
}

function handshake(call: LiveCall, { baseUrl, credential, model }: Target): Omit<LiveHandshake, 'protocols'> {
  const { options, live: terms } = call
  const audio = liveAudioFor(call)
  const { language } = hintOf(call)
  const query = new URLSearchParams({
    speech_model: model,
    sample_rate: String(audio.sampleRate),
    encoding: audio.encoding === 'mulaw' ? 'pcm_mulaw' : 'pcm_s16le',
    // Without it the text has neither stops nor capitals.
    format_turns: 'true',
    // It says that it is there, and which silence it has heard.
    session_heartbeat: 'true',
    ...(SAYS_SILENCE.test(model) ? { acknowledge_silence: 'true' } : {}),
  })
  if (language === null) query.set('language_detection', 'true')
  else query.set('language_codes', JSON.stringify([language]))
  if (wantsSpeakers(options)) {
    query.set('speaker_labels', 'true')
    if (options.speaker_count_hint !== null) query.set('max_speakers', String(options.speaker_count_hint))
  }
  if (options.keyterms.length > 0) query.set('keyterms_prompt', JSON.stringify(options.keyterms))
  if (options.profanity_filter) query.set('filter_profanity', 'true')
  if (options.redaction.length > 0) {
    query.set('redact_pii', 'true')
    query.set('redact_pii_policies', JSON.stringify(policiesOf(options.redaction)))
    query.set('redact_pii_sub', 'entity_name')
  }
  // Turns that are not over are not redacted.
  if (options.redaction.length > 0 || !terms.interim) query.set('include_partial_turns', 'false')
  if (terms.endpointingMs !== null) query.set('max_turn_silence', String(terms.endpointingMs))
  return {
    url: `${streamingUrl(baseUrl)}/v3/ws?${query}`,
    headers: credential === null ? {} : { authorization: credential },
    audio,
  }
}

/** Messages of silence are for this family of models only. */
const SAYS_SILENCE = /^(?:u3-|universal-3)/

/** `api.eu.assemblyai.com` → `streaming.eu.assemblyai.com`; any other address is taken as it is. */
function streamingUrl(baseUrl: string): string {
  return baseUrl
    .replace(/^http/, 'ws')
    .replace(/^(wss?:\/\/)api\.((?:eu\.)?assemblyai\.com)$/, '$1streaming.$2')
}

/**
 * A turn that ended so long before `ForceEndpoint` was over by itself: the provider waits no longer for the end of one.
 */
const FORCED_SECONDS = 1.5
/**
 * Silence that was heard behind a turn that ended by itself: `min_turn_silence`, which is left as it is, or less where
 * the caller says so. https://assemblyai.com/docs/voice-agents/livekit-u3-rt-pro. Times of words are not as exact as
 * audio can be cut: another provider that began right at the end of the last word would hear a rest of it as one more.
 */
const TURN_SILENCE_SECONDS = 0.1

const TERMINATE = '{"type":"Terminate"}'
const FORCE_ENDPOINT = ['{"type":"ForceEndpoint"}']
const KEEP_ALIVE = ['{"type":"KeepAlive"}']

class StreamingWire implements LiveWire {
  readonly #options: LiveCall['options']
  readonly #audio: LiveAudio
  readonly log: LiveLog
  readonly #least: number
  /** Seconds that are silent behind a turn that ended by itself. */
  readonly #turnSilence: number
  /** Audio that is too short to be a message of its own. */
  #rest: Uint8Array | null = null
  /** Seconds that were sent before each `ForceEndpoint` that has had no answer. */
  readonly #finalizing: number[] = []
  /** The end of a turn that is still to come in its final form, and its number. */
  #unformatted: { readonly turn: JsonObject; readonly order: unknown } | null = null
  /** A turn has begun that is not over. */
  #isOpen = false
  #hasRevised = false
  #ending = false
  #ended = false

  constructor(call: LiveCall) {
    this.#options = call.options
    this.#audio = liveAudioFor(call)
    this.log = new LiveLog(this.#audio)
    this.#turnSilence = Math.min(TURN_SILENCE_SECONDS, (call.live.endpointingMs ?? 1000) / 1000)
    this.#least = Math.ceil(MESSAGE_MIN_SECONDS * bytesPerSecond(this.#audio))
  }

  get waiting(): number {
    return this.#finalizing.length
  }

  get isWhole(): boolean {
    return this.#ended
  }

  send(bytes: Uint8Array): readonly LiveFrame[] {
    const whole = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    this.#rest = whole.byteLength < this.#least ? whole.slice() : null
    return this.#rest === null ? [whole] : NO_FRAMES
  }

  finalize(): readonly LiveFrame[] {
    this.#finalizing.push(this.log.sent)
    return [...this.#flushRest(), ...FORCE_ENDPOINT]
  }

  keepAlive(): readonly LiveFrame[] {
    return KEEP_ALIVE
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    return [...this.#flushRest(), TERMINATE]
  }

  failureOf(code: number, reason: string): Failure {
    return endFailure(code, reason)
  }

  /** Fills up what is too short with silence: the provider would end the session for it. */
  #flushRest(): readonly LiveFrame[] {
    if (this.#rest === null) return NO_FRAMES
    const filled = silence(this.#audio, MESSAGE_MIN_SECONDS)
    filled.set(this.#rest)
    this.#rest = null
    return [filled]
  }

  read(message: JsonObject): readonly LiveEvent[] {
    switch (message.type) {
      case 'Begin':
        return [{ kind: 'ready' }]
      case 'Turn':
        return this.#turn(message)
      case 'SpeechStarted':
        return this.#speechStarted(message)
      case 'Silence':
        return this.#silence(message)
      case 'SpeakerRevision':
        return this.#revision()
      case 'Termination':
        return this.#termination()
      case 'Error':
        return [{ kind: 'failed', failure: errorFailure(message) }]
      default:
        return []
    }
  }

  #turn(turn: JsonObject): readonly LiveEvent[] {
    const { turn_order: order, end_of_turn: isOver, turn_is_formatted: isFormatted } = turn
    if (typeof turn.transcript !== 'string') return UNREADABLE.events
    const events: LiveEvent[] = []
    const before = this.#unformatted
    // Its final form did not come.
    if (before !== null && before.order !== order) events.push(...this.#final(before.turn))
    this.#unformatted = null
    if (isOver !== true) {
      this.#isOpen = true
      return [...events, this.#partial(turn)]
    }
    if (isFormatted === true) return [...events, ...this.#final(turn)]
    this.#unformatted = { turn, order }
    return [...events, this.#partial(turn)]
  }

  /** The transcript of a turn that is not over holds the words that are final; the list has the others as well. */
  #partial(turn: JsonObject): LiveEvent {
    const words = this.#words(turn)
    const text = words.length === 0 ? String(turn.transcript) : words.map(({ word }) => word).join(' ')
    return this.log.partial(words[0]?.start ?? this.log.settled, text.trim(), 0, words.at(-1)?.end)
  }

  #final(turn: JsonObject): readonly LiveEvent[] {
    this.#isOpen = false
    const text = String(turn.transcript).trim()
    const words = this.#words(turn)
    const last = words.at(-1)?.end ?? this.log.settled
    const end = this.log.isBeyond(last) ? this.log.settled : last
    const language = typeof turn.language_code === 'string' ? languageCode(turn.language_code) : null
    const turnFields = { language, languageConfidence: fractionOf(turn.language_confidence) }
    const finals =
      text === ''
        ? [this.log.partial(end, '')]
        : this.log.finals({ start: this.log.settled, end: this.log.sent, text, words, ...turnFields })
    // A turn whose end was forced may go on at once.
    const silence = this.#finalizing.length > 0 ? 0 : this.#turnSilence
    return [
      ...finals,
      ...this.log.settle(end + silence),
      this.log.utteranceEnd(end),
      ...this.#answer(end + FORCED_SECONDS),
    ]
  }

  #words(turn: JsonObject): Word[] {
    return objectsIn(turn.words).flatMap((item): Word[] => {
      const span = spanOf(fromMilliseconds(item.start), fromMilliseconds(item.end))
      const { text, confidence } = item
      if (span === null || typeof text !== 'string' || text.trim() === '') return []
      const sure = fractionOf(confidence)
      const name = item.speaker ?? turn.speaker_label
      const speaker = wantsSpeakers(this.#options) ? this.log.speaker(name) : undefined
      return [
        {
          word: text.trim(),
          ...span,
          ...(speaker === undefined ? {} : { speaker }),
          ...(sure === null ? {} : { confidence: sure }),
        },
      ]
    })
  }

  #speechStarted({ timestamp }: JsonObject): readonly LiveEvent[] {
    const at = secondsOf(fromMilliseconds(timestamp))
    return at === null ? [] : [this.log.speechStarted(at)]
  }

  /** Nothing was said up to its end, unless a turn is not over. */
  #silence({ end_ms: end }: JsonObject): readonly LiveEvent[] {
    const at = secondsOf(fromMilliseconds(end))
    if (at === null || this.#isOpen || this.#unformatted !== null) return []
    const settled = this.log.settle(at)
    return [...settled, ...this.#answer(at + MESSAGE_MIN_SECONDS)]
  }

  /** Final words never change, so speakers of earlier turns stay as they were told. */
  #revision(): readonly LiveEvent[] {
    if (this.#hasRevised) return []
    this.#hasRevised = true
    const text = 'diarization: the provider has taken some speakers for others since; what was told stays'
    return [{ kind: 'warning', text }]
  }

  #termination(): readonly LiveEvent[] {
    const rest = this.#unformatted === null ? [] : this.#final(this.#unformatted.turn)
    this.#unformatted = null
    if (!this.#ending) return rest
    this.#ended = true
    const settled = this.log.settle(this.log.sent)
    return [...rest, ...settled, ...this.#answer(Number.POSITIVE_INFINITY), { kind: 'ended' }]
  }

  /** Answers each `finalize` before a place of the audio. */
  #answer(until: number): readonly LiveEvent[] {
    const events: LiveEvent[] = []
    for (let [asked] = this.#finalizing; asked !== undefined && asked <= until; [asked] = this.#finalizing) {
      this.#finalizing.shift()
      events.push(...this.log.settle(asked), { kind: 'finalized' })
    }
    return events
  }
}

function fromMilliseconds(value: unknown): number | null {
  return typeof value === 'number' ? value / 1000 : null
}

/** Its errors have the codes with which it closes. */
function errorFailure({ error_code: code, error }: JsonObject): Failure {
  return endFailure(
    typeof code === 'number' && Number.isInteger(code) ? code : 3005,
    typeof error === 'string' ? error : '',
  )
}

/** A code of every WebSocket's, and words that say which account it is about. */
const POLICY_VIOLATION = 1008
const UNAUTHORIZED = /^Unauthorized connection\b/i
const TOO_MANY = /^Unauthorized connection: Too many concurrent sessions/i

/**
 * Keys and accounts that it does not serve are told behind the handshake, by their words alone; too many sessions are,
 * too, or by a code of their own. https://www.assemblyai.com/docs/streaming/common-session-errors-and-closures,
 * AssemblyAI/assemblyai-node-sdk#97
 */
function endFailure(code: number, reason: string): Failure {
  const failure = closeFailure(code, reason)
  if (code !== POLICY_VIOLATION || !UNAUTHORIZED.test(reason)) return failure
  if (TOO_MANY.test(reason)) return { ...failure, kind: 'rate' }
  // Its reason may repeat the key.
  return { ...failure, kind: 'credential', providerMessage: null }
}
