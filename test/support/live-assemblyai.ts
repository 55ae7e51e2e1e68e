import { randomUUID } from 'node:crypto'
import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import { type AudioFormat, bytesPerSecond } from '../../src/sandbox/live/samples.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import type { LiveVendor, VendorSession } from './live-vendor.ts'
import { Ear, milliseconds, readMessage, VendorRefusal } from './live-vendor.ts'

/**
 * AssemblyAI's streaming API, version 3. What it refuses, and with which codes and words:
 * https://www.assemblyai.com/docs/streaming/common-session-errors-and-closures (its error codes of 4000 and more are
 * those of the version before; assemblyai 4.41.5 knows both). Messages and options: assemblyai 4.41.5
 * src/types/streaming/index.ts and src/services/streaming/service.ts.
 */
export function assemblyai(key: string, aheadSeconds = AHEAD_SECONDS): LiveVendor {
  return {
    messageMaxBytes: 1024 * 1024,
    accept({ path, query, headers }) {
      if (path !== '/v3/ws') throw new VendorRefusal(404, { error: 'Not Found' })
      const isKnown = headers.authorization === key || query.get('token') === key
      return (session) => new AssemblyAi(session, query, { isKnown, aheadSeconds })
    },
  }
}

/** How far audio may be ahead of the clock: 314.9 s were refused after 1.3 s, pigeonai-org/ViDove#3. */
const AHEAD_SECONDS = 300
const CHUNK_MS = [50, 1000] as const

const MODELS: readonly string[] = [
  ...['universal-streaming-english', 'universal-streaming-multilingual', 'u3-rt-pro', 'u3-rt-pro-beta-1'],
  ...['whisper-rt', 'universal-3-5-pro', 'universal-3-6', 'universal-3-6-pro', 'u3-pro'],
]
/** Those that say `SpeechStarted` and `Silence`, and whose turns are formatted as they come. */
const PRO = /^(?:u3-|universal-3)/

const isFlag = (text: string) => text === 'true' || text === 'false'
const isWhole = (text: string) => /^\d{1,8}$/.test(text)
const isFraction = (text: string) => Number(text) >= 0 && Number(text) <= 1
const isTexts = (most: number, length: number) => (text: string) => {
  const list = listIn(text)
  return list.length > 0 && list.length <= most && list.every((one) => one.length <= length)
}

function listIn(text: string): string[] {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) && list.every((one) => typeof one === 'string') ? list : []
  } catch {
    return []
  }
}

/** Every option of a session that the gateway or the client's defaults may send, and what it takes. */
const OPTIONS: Readonly<Record<string, (text: string) => boolean>> = {
  token: () => true,
  sample_rate: (text) => isWhole(text) && Number(text) > 0,
  encoding: (text) => ['pcm_s16le', 'pcm_mulaw'].includes(text),
  speech_model: (text) => MODELS.includes(text),
  format_turns: isFlag,
  session_heartbeat: isFlag,
  acknowledge_silence: isFlag,
  include_partial_turns: isFlag,
  language_detection: isFlag,
  language_codes: isTexts(20, 10),
  speaker_labels: isFlag,
  max_speakers: (text) => isWhole(text) && Number(text) >= 1 && Number(text) <= 10,
  // https://www.assemblyai.com/docs/streaming/keyterms-prompting
  keyterms_prompt: isTexts(100, 50),
  filter_profanity: isFlag,
  redact_pii: isFlag,
  redact_pii_policies: isTexts(60, 40),
  redact_pii_sub: (text) => ['hash', 'entity_name'].includes(text),
  min_turn_silence: isWhole,
  max_turn_silence: isWhole,
  end_of_turn_confidence_threshold: isFraction,
  inactivity_timeout: (text) => isWhole(text) && Number(text) >= 5 && Number(text) <= 3600,
}

/** What is wrong with the options; null: nothing. */
function complaint(query: URLSearchParams): string | null {
  for (const [name, value] of query) {
    const takes = OPTIONS[name]
    if (takes === undefined) return `Unknown parameter: ${name}`
    if (!takes(value)) return `Invalid parameter: ${name}=${value}`
  }
  if (!query.has('sample_rate')) return 'Missing parameter: sample_rate'
  if (query.get('acknowledge_silence') === 'true' && !PRO.test(query.get('speech_model') ?? ''))
    return 'acknowledge_silence requires a U3Pro model'
  if (query.has('redact_pii_policies') && query.get('redact_pii') !== 'true')
    return 'redact_pii_policies requires redact_pii'
  return null
}

interface Terms {
  readonly isKnown: boolean
  readonly aheadSeconds: number
}

class AssemblyAi implements LiveProtocol {
  readonly #session: VendorSession
  readonly #query: URLSearchParams
  readonly #terms: Terms
  readonly #format: AudioFormat
  readonly #ear: Ear
  readonly #isPro: boolean
  readonly #turnSilence: number
  #startedMs = 0
  #seconds = 0
  #order = 0
  #words: HeardWord[] = []
  #partial: { readonly text: string; readonly start: number } | null = null
  #isSpeaking = false
  #quietFrom = 0
  #beatMs = 0
  #isOver = false

  constructor(session: VendorSession, query: URLSearchParams, terms: Terms) {
    this.#session = session
    this.#query = query
    this.#terms = terms
    this.#isPro = PRO.test(query.get('speech_model') ?? '')
    this.#turnSilence = Number(query.get('max_turn_silence') ?? 1000) / 1000
    const encoding = query.get('encoding') === 'pcm_mulaw' ? 'mulaw' : 'linear16'
    this.#format = { encoding, sampleRate: Number(query.get('sample_rate')) || 16_000, channels: 1 }
    this.#ear = new Ear(session, this.#format, {
      partial: (text, start) => this.#spelled(text, start),
      word: (word) => this.#heard(word),
      advance: (now) => this.#advance(now),
    })
  }

  opened(): void {
    this.#startedMs = performance.now()
    this.#beatMs = this.#startedMs
    if (!this.#terms.isKnown)
      return void this.#refuse(1008, 'Unauthorized Connection: Missing Authorization header')
    const wrong = complaint(this.#query)
    if (wrong !== null) return void this.#refuse(3006, wrong)
    this.#session.send({
      type: 'Begin',
      id: randomUUID(),
      expires_at: Math.floor(Date.now() / 1000) + 10_800,
    })
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#isOver) return
    if (isBinary) return void this.#audio(bytes)
    const message = readMessage(bytes)
    if (message === null) return void this.#refuse(3006, `Invalid JSON: ${bytes}`)
    if (message.type === 'Terminate') this.#terminate()
    else if (message.type === 'ForceEndpoint') this.#force()
    else if (message.type !== 'KeepAlive' && message.type !== 'UpdateConfiguration')
      this.#refuse(3006, `Invalid Message Type: ${String(message.type)}`)
  }

  tick(): void {
    const nowMs = performance.now()
    if (this.#query.get('session_heartbeat') !== 'true' || nowMs - this.#beatMs < 1000) return
    this.#beatMs = nowMs
    const total_audio_received_ms = milliseconds(this.#seconds)
    const total_duration_ms = Math.round(nowMs - this.#startedMs)
    this.#session.send({
      type: 'Heartbeat',
      total_audio_received_ms,
      total_duration_ms,
      realtime_factor: total_audio_received_ms / total_duration_ms,
      max_speech_probability: this.#isSpeaking ? 1 : 0,
    })
  }

  expired(): void {}

  /** An error comes as a message, and then as the code of the close. */
  #refuse(code: number, error: string): void {
    this.#isOver = true
    const reason = Buffer.byteLength(error) > 123 ? 'See Error message for details' : error
    this.#session.refuse(code, reason, { type: 'Error', error_code: code, error })
  }

  #audio(bytes: Buffer): void {
    const seconds = bytes.length / bytesPerSecond(this.#format)
    const [least, most] = CHUNK_MS
    if (seconds * 1000 < least || seconds * 1000 > most) {
      const length = Number((seconds * 1000).toFixed(1))
      return void this.#refuse(
        3007,
        `Input duration violation: ${length} ms. Expected between ${least} and ${most} ms`,
      )
    }
    this.#seconds += seconds
    const passed = (performance.now() - this.#startedMs) / 1000
    if (this.#seconds - passed > this.#terms.aheadSeconds) {
      const told = `Received ${this.#seconds.toFixed(1)} sec. audio in ${passed.toFixed(6)} sec`
      return void this.#refuse(3007, `Audio Transmission Rate Exceeded: ${told}`)
    }
    this.#ear.hear(bytes)
  }

  #spelled(text: string, start: number): void {
    if (text !== '' && !this.#isSpeaking) {
      this.#isSpeaking = true
      if (this.#isPro) this.#session.send({ type: 'SpeechStarted', timestamp: milliseconds(start) })
    }
    this.#partial = text === '' ? null : { text, start }
    this.#tell(false, false)
  }

  #heard(word: HeardWord): void {
    this.#partial = null
    this.#isSpeaking = true
    this.#words.push(word)
    this.#tell(false, false)
  }

  #advance(now: number): void {
    if (!this.#ear.isQuiet) {
      this.#quietFrom = now
      return
    }
    if (this.#words.length > 0) {
      if (now - this.#ear.lastEnd >= this.#turnSilence) this.#endTurn()
      this.#quietFrom = now
    } else if (this.#query.get('acknowledge_silence') === 'true' && now - this.#quietFrom >= 1) {
      this.#session.send({
        type: 'Silence',
        start_ms: milliseconds(this.#quietFrom),
        end_ms: milliseconds(now),
      })
      this.#quietFrom = now
    }
  }

  #force(): void {
    this.#ear.flush()
    this.#endTurn()
  }

  #terminate(): void {
    this.#force()
    this.#isOver = true
    this.#session.send({
      type: 'Termination',
      audio_duration_seconds: this.#seconds,
      session_duration_seconds: (performance.now() - this.#startedMs) / 1000,
    })
    this.#session.live.close(1000, '')
  }

  /** Where turns are formatted afterwards, the end of one comes twice. */
  #endTurn(): void {
    this.#isSpeaking = false
    if (this.#words.length === 0) return
    if (!this.#isPro) this.#tell(true, false)
    if (this.#isPro || this.#query.get('format_turns') === 'true') this.#tell(true, true)
    this.#order += 1
    this.#words = []
  }

  #tell(isEnd: boolean, isFormatted: boolean): void {
    if (!isEnd && this.#query.get('include_partial_turns') === 'false') return
    const finals = this.#words.map(({ text }, at) =>
      isFormatted ? formatted(text, at, this.#words.length) : text,
    )
    // https://assemblyai.com/docs/streaming/universal-3-pro/turn-detection-and-partials
    const isSure = isEnd || !this.#isPro
    const words = this.#words.map(({ start, end }, at) => wordOf(finals[at]!, start, end, isSure))
    const open = isEnd ? null : this.#partial
    if (open !== null) words.push(wordOf(open.text, open.start, this.#ear.lastEnd, false))
    const told = open !== null && this.#isPro ? [...finals, open.text] : finals
    const isDetected = this.#query.get('language_detection') === 'true'
    this.#session.send({
      type: 'Turn',
      turn_order: this.#order,
      turn_is_formatted: isFormatted,
      end_of_turn: isEnd,
      transcript: told.join(' '),
      end_of_turn_confidence: isEnd ? 0.9 : 0.1,
      words,
      ...(isEnd && isDetected ? { language_code: 'en', language_confidence: 0.9 } : {}),
    })
  }
}

function wordOf(text: string, start: number, end: number, isFinal: boolean) {
  return { text, start: milliseconds(start), end: milliseconds(end), confidence: 0.9, word_is_final: isFinal }
}

/** A word of a sentence with stops and capitals. */
function formatted(text: string, at: number, count: number): string {
  const word = at === 0 ? text.charAt(0).toUpperCase() + text.slice(1) : text
  return at === count - 1 ? `${word}.` : word
}
