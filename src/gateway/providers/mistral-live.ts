import type { LiveAudio, LiveCall } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import type { LiveEvent, LiveFrame } from '../../contracts/live.ts'
import { defineLive, type LiveWire } from './define-live.ts'
import { asObject } from './json.ts'
import { type LanguageHint, languageCode, languageHint, whisperLanguage } from './language.ts'
import {
  base64Of,
  type CommitPace,
  commitPace,
  failureInside,
  isCommitDue,
  LiveLog,
  NO_FRAMES,
  NOTHING,
  type Received,
  socketUrl,
  TEXT_MAX,
  textOnly,
  UNREADABLE,
} from './live.ts'
import { secondsOf } from './numbers.ts'
import { bearerHeaders } from './openai/wire.ts'

/** Rates that are taken, Hz; https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-in-realtime */
const RATES: readonly number[] = [8000, 16_000, 22_050, 44_100, 48_000]

function liveAudioFor({ live: { audio } }: LiveCall): LiveAudio {
  return RATES.includes(audio.sampleRate)
    ? { ...audio, channels: 1 }
    : { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 }
}

/**
 * `GET /audio/transcriptions/realtime` as a WebSocket, JSON frames with audio in base64. The text comes in pieces that
 * never change and belong to no utterance; the whole of it comes once, when the session is over.
 * @mistralai/mistralai 2.7.0 src/extra/realtime, models/components/realtimetranscription*.ts
 */
export const mistralLive = defineLive({
  unsupported: ({ options }, { model }) => textOnly(options, takesSettings(model)),
  handshake(call, target) {
    const { accept: _accept, ...headers } = bearerHeaders(target, () => ({}))
    const url = socketUrl(target, `/audio/transcriptions/realtime?model=${encodeURIComponent(target.model)}`)
    return { url, headers, audio: liveAudioFor(call) }
  },
  tellsTurns: takesSettings,
  hint: (call, { model }) => (takesSettings(model) ? hintOf(call) : null),
  wire: (call, { model }) => new MistralWire(call, takesSettings(model)),
})

/** The model before these knows none of the settings of Voxtral 3, which a session refuses then. */
function takesSettings(model: string): boolean {
  return !model.endsWith('-realtime-2602')
}

/** ISO 639-1. */
function hintOf({ options }: LiveCall): LanguageHint {
  return languageHint(options, whisperLanguage)
}

const ENCODINGS = { pcm_s16le: 'pcm_s16le', mulaw: 'pcm_mulaw', alaw: 'pcm_alaw' } as const
const FLUSH = '{"type":"input_audio.flush"}'
const END = [FLUSH, '{"type":"input_audio.end"}']
/** The text may be as far behind the audio: it is told with a delay of at most 2.4 s. */
const LAG_SECONDS = 2.5

/**
 * Settings beside the format, which are fixed from the first audio on; mistralai 3.7.0 (PyPI)
 * client/models/realtimetranscriptionsessionupdatepayload.py, turndetectionconfig.py.
 */
function sessionSettings(call: LiveCall): JsonObject {
  const { keyterms } = call.options
  const { language } = hintOf(call)
  const { commit, endpointingMs } = call.live
  return {
    ...(keyterms.length === 0 ? {} : { context_bias: keyterms }),
    ...(language === null ? {} : { language }),
    // Turns end where the caller says, if it does.
    ...(commit === 'manual'
      ? {}
      : { turn_detection: endpointingMs === null ? {} : { min_silence_ms: endpointingMs } }),
  }
}

class MistralWire implements LiveWire {
  readonly #settings: JsonObject
  readonly #audio: LiveAudio
  readonly #pace: CommitPace
  readonly log: LiveLog
  #isReady = false
  #isEnding = false
  #isOver = false
  /** Text that is not told as final, where it began, and how much was told before it. */
  #text = ''
  #from = 0
  #finalLength = 0
  /** Seconds that were sent when text came last, and when the last flush was asked for; null: it was answered. */
  #written = 0
  #flushed: number | null = null
  #committed = 0
  /** Calls of `finalize` without an answer. */
  #finalizing = 0
  #language: string | null = null

  constructor(call: LiveCall, hasSettings: boolean) {
    this.#settings = hasSettings ? sessionSettings(call) : {}
    this.#audio = liveAudioFor(call)
    this.#pace = commitPace(call.live)
    this.log = new LiveLog(this.#audio)
  }

  get waiting(): number {
    return this.#finalizing
  }

  get isWhole(): boolean {
    return this.#isOver
  }

  send(bytes: Uint8Array): readonly LiveFrame[] {
    const append = `{"type":"input_audio.append","audio":"${base64Of(bytes)}"}`
    const at = { sent: this.log.sent, committed: this.#committed, written: this.#written }
    if (!isCommitDue(this.#pace, at)) return [append]
    // The last words are kept back by the model until it is told to let them go.
    this.#flushed = this.log.sent
    this.#committed = this.log.sent
    return [append, FLUSH]
  }

  /** Answered by the words that a flush lets go. Behind a silence there are none, and all was told. */
  finalize(): readonly LiveFrame[] {
    const { sent } = this.log
    const isSilent = this.#text.trim() === '' && sent - this.#written > LAG_SECONDS
    if (isSilent) return NO_FRAMES
    this.#finalizing += 1
    this.#flushed = sent
    this.#committed = sent
    return [FLUSH]
  }

  end(): readonly LiveFrame[] {
    this.#isEnding = true
    return END
  }

  read(message: JsonObject): Received {
    switch (message.type) {
      case 'session.created':
        return this.#isReady ? NOTHING : { events: [], reply: [this.#update()] }
      case 'session.updated':
        return this.#updated()
      case 'transcription.text.delta':
        return this.#delta(message)
      case 'transcription.language':
        return this.#heard(message)
      case 'turn.start':
        return this.#turnStarted(message)
      case 'turn.end':
        return this.#turnEnded(message)
      case 'transcription.done':
        return this.#done(message)
      case 'error':
        return this.#failed(message)
      default:
        return NOTHING
    }
  }

  #update(): string {
    const { encoding, sampleRate } = this.#audio
    const audio_format = { encoding: ENCODINGS[encoding], sample_rate: sampleRate }
    return JSON.stringify({ type: 'session.update', session: { audio_format, ...this.#settings } })
  }

  #updated(): Received {
    if (this.#isReady) return NOTHING
    this.#isReady = true
    return { events: [{ kind: 'ready' }] }
  }

  #delta({ text }: JsonObject): Received {
    if (typeof text !== 'string') return UNREADABLE
    if (text === '') return NOTHING
    const { sent } = this.log
    // The words that come soon after a flush are those that were kept back.
    const isLate = this.#flushed !== null && sent - this.#flushed > LAG_SECONDS
    const before = isLate ? this.#finalEvents(this.#flushed ?? sent) : []
    this.#text = (this.#text + text).slice(0, TEXT_MAX)
    this.#written = sent
    const after = this.#flushed === null ? [] : [...this.#finalEvents(this.#flushed), ...this.#answers()]
    const rest = this.log.partial(this.#from, this.#text.trim())
    return { events: [...before, ...after, ...(this.#text.trim() === '' ? [] : [rest])] }
  }

  #answers(): readonly LiveEvent[] {
    const answers = Array.from({ length: this.#finalizing }, (): LiveEvent => ({ kind: 'finalized' }))
    this.#finalizing = 0
    return answers
  }

  /** Tells the text so far as final, but for a word that may go on; what was said longer ago than that is settled. */
  #finalEvents(end: number): readonly LiveEvent[] {
    this.#flushed = null
    const cut = /\s\S*$/.exec(this.#text)?.index ?? -1
    const isWhole = /[.!?…。！？]\s*$/.test(this.#text)
    return this.#tell(isWhole ? this.#text.length : cut, end)
  }

  /** Tells so many characters of the text as final. */
  #tell(length: number, end: number): readonly LiveEvent[] {
    const text = length <= 0 ? '' : this.#text.slice(0, length).trim()
    if (text === '') return []
    this.#text = this.#text.slice(length)
    this.#finalLength += length
    const final = this.log.final({ start: this.#from, end, text, language: this.#language })
    this.#from = Math.min(this.log.sent, end)
    return [...final, ...this.log.settle(end - LAG_SECONDS)]
  }

  #heard({ audio_language: language }: JsonObject): Received {
    if (typeof language === 'string') this.#language = languageCode(language)
    return NOTHING
  }

  #turnStarted({ time_s: time }: JsonObject): Received {
    const seconds = secondsOf(time)
    return seconds === null ? UNREADABLE : { events: [this.log.speechStarted(seconds)] }
  }

  /** The text so far is that of the turn, and none of it continues. */
  #turnEnded({ time_s: time }: JsonObject): Received {
    const seconds = secondsOf(time)
    if (seconds === null) return UNREADABLE
    return { events: [...this.#tell(this.#text.length, seconds), this.log.utteranceEnd(seconds)] }
  }

  /** The whole transcript: what of it was not told yet is its end. */
  #done({ text }: JsonObject): Received {
    const rest = (typeof text === 'string' ? text.slice(this.#finalLength) : this.#text).trim()
    const { sent } = this.log
    const language = this.#language
    const finals = rest === '' ? [] : this.log.final({ start: this.#from, end: sent, text: rest, language })
    this.#text = ''
    this.#from = sent
    if (!this.#isEnding) return { events: finals }
    this.#isOver = true
    return { events: [...finals, ...this.log.settle(sent), ...this.#answers(), { kind: 'ended' }] }
  }

  /** The code is a number of its own, and not a status. */
  #failed({ error }: JsonObject): Received {
    const { message } = asObject(error) ?? {}
    const said = typeof message === 'string' ? message : ''
    return { events: [{ kind: 'failed', failure: failureInside({ error: { message: said } }) }] }
  }
}
