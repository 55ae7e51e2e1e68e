import { randomUUID } from 'node:crypto'
import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import type { AudioFormat, ENCODINGS } from '../../src/sandbox/live/samples.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import { Ear, type LiveVendor, readMessage, VendorRefusal, type VendorSession } from './live-vendor.ts'

/** What differs between deployments of the vendor's. */
export interface FluxWays {
  /** It does not know `ForceEndTurn`, which a deployment has to be enabled for. */
  readonly unforced?: boolean
  /** Seconds without audio behind which it closes with 1011. */
  readonly idleSeconds?: number
}

/**
 * Deepgram's `/v2/listen`. Options and messages: @deepgram/sdk 5.13.0 listen/resources/v2 and
 * api/types/ListenV2*.d.ts; the order of events, and that there is no `KeepAlive`:
 * https://developers.deepgram.com/docs/flux/state, /flux/close-stream, /flux/force-end-turn, /flux/configure. It is
 * sure of the end of a turn behind a second of silence.
 */
export function flux(key: string, ways: FluxWays = {}): LiveVendor {
  return {
    messageMaxBytes: 1024 * 1024,
    accept({ path, query, headers }) {
      const refuse = (status: number, err_code: string, err_msg: string): never => {
        throw new VendorRefusal(status, { err_code, err_msg, request_id: randomUUID() })
      }
      if (path !== '/v2/listen') refuse(404, 'NOT_FOUND', 'Not Found')
      if (headers.authorization !== `Token ${key}`) refuse(401, 'INVALID_AUTH', 'Invalid credentials.')
      const wrong = complaint(query)
      if (wrong !== null) refuse(400, 'Bad Request', wrong)
      return (session) => new Flux(session, query, ways)
    },
  }
}

const isFlag = (text: string) => text === 'true' || text === 'false'
const isWithin = (least: number, most: number) => (text: string) =>
  text !== '' && Number(text) >= least && Number(text) <= most
const isTerm = (text: string) => text !== ''

/** The encodings of the contract, of which it hears those that Morse code is read of. */
const ENCODING: Readonly<Record<string, (typeof ENCODINGS)[number]>> = {
  linear16: 'linear16',
  mulaw: 'mulaw',
  alaw: 'alaw',
}
const MODELS = ['flux-general-en', 'flux-general-multi']
const LANGUAGES = ['en', 'es', 'fr', 'de', 'hi', 'ru', 'pt', 'ja', 'it', 'nl']
const TIMEOUT_MS = 5000

const THRESHOLDS: Readonly<Record<string, (text: string) => boolean>> = {
  eot_threshold: isWithin(0.5, 1),
  eager_eot_threshold: isWithin(0.3, 0.9),
  eot_timeout_ms: isWithin(500, 60_000),
}
const OPTIONS: Readonly<Record<string, (text: string) => boolean>> = {
  ...THRESHOLDS,
  model: (text) => MODELS.includes(text),
  encoding: (text) => Object.hasOwn(ENCODING, text),
  sample_rate: (text) => ['8000', '16000', '24000', '44100', '48000'].includes(text),
  keyterm: isTerm,
  language_hint: (text) => LANGUAGES.includes(text.split('-')[0] ?? ''),
  profanity_filter: isFlag,
  numerals: isFlag,
  redact: (text) => text === 'numbers' || text === 'aggressive_numbers',
  mip_opt_out: isFlag,
  tag: isTerm,
}

function complaint(query: URLSearchParams): string | null {
  for (const [name, value] of query) {
    if (OPTIONS[name]?.(value) !== true) return `Invalid query parameter ${name}: ${value}`
  }
  // Containers are not read here.
  for (const name of ['model', 'encoding', 'sample_rate'])
    if (query.getAll(name).length !== 1) return `Missing query parameter ${name}`
  if (query.has('language_hint') && query.get('model') !== 'flux-general-multi')
    return 'language_hint is only valid when the model is flux-general-multi'
  const eager = query.get('eager_eot_threshold')
  if (eager !== null && Number(eager) > Number(query.get('eot_threshold') ?? 0.7))
    return 'eager_eot_threshold must not be greater than eot_threshold'
  return query.getAll('keyterm').length > 100 ? 'Too many keyterms' : null
}

const UPDATE_SECONDS = 0.24
const SURE_SECONDS = 1
const IDLE_SECONDS = 10

class Flux implements LiveProtocol {
  readonly #session: VendorSession
  readonly #query: URLSearchParams
  readonly #ways: FluxWays
  readonly #requestId = randomUUID()
  readonly #ear: Ear
  #sequence = 0
  #turn = 0
  /** Where the turn under way began; null: none is. */
  #from: number | null = null
  /** Where the last turn ended, and up to where was told. */
  #ended = 0
  #told = 0
  #words: HeardWord[] = []
  #spelled = ''
  #isEager = false
  #timeoutMs: number
  #isSure: boolean
  #isOver = false

  constructor(session: VendorSession, query: URLSearchParams, ways: FluxWays) {
    this.#session = session
    this.#query = query
    this.#ways = ways
    this.#timeoutMs = Number(query.get('eot_timeout_ms') ?? TIMEOUT_MS)
    this.#isSure = Number(query.get('eot_threshold') ?? 0.7) < 1
    const format: AudioFormat = {
      encoding: ENCODING[query.get('encoding') ?? '']!,
      sampleRate: Number(query.get('sample_rate')),
      channels: 1,
    }
    this.#ear = new Ear(session, format, {
      partial: (text, start) => this.#hear(text, start),
      word: (word) => this.#heard(word),
      advance: (now) => this.#advance(now),
    })
  }

  opened(): void {
    this.#say({ type: 'Connected' })
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#isOver) return
    if (isBinary && bytes.length === 0) return void this.#refuse('an empty frame')
    if (isBinary) return void this.#ear.hear(bytes)
    const message = readMessage(bytes)
    switch (message?.type) {
      case 'CloseStream':
        return void this.#close()
      case 'ForceEndTurn':
        if (this.#ways.unforced === true) return void this.#refuse('ForceEndTurn')
        if (this.#from !== null) this.#endTurn('manual')
        return
      case 'Configure':
        return void this.#configure(message)
      default:
        // KeepAlive is none of its messages either.
        return void this.#refuse(String(message?.type))
    }
  }

  tick(idleMs: number): void {
    if (idleMs < (this.#ways.idleSeconds ?? IDLE_SECONDS) * 1000 || this.#isOver) return
    this.#isOver = true
    this.#session.refuse(1011, 'NET-0001')
  }

  expired(): void {}

  #say(message: object): void {
    this.#session.send({ ...message, request_id: this.#requestId, sequence_id: this.#sequence++ })
  }

  #refuse(what: string): void {
    this.#isOver = true
    const description = `Could not parse the message: ${what}`
    this.#session.refuse(1008, 'UNPARSABLE_CLIENT_MESSAGE', {
      ...{ type: 'Error', sequence_id: this.#sequence, code: 'UNPARSABLE_CLIENT_MESSAGE', description },
    })
  }

  #configure(message: Readonly<Record<string, unknown>>): void {
    const { type: _, thresholds = {}, keyterms = [], ...more } = message
    const given = Object.entries(thresholds as Record<string, unknown>)
    const isRight =
      Object.keys(more).length === 0 &&
      Array.isArray(keyterms) &&
      given.every(([name, value]) => THRESHOLDS[name]?.(String(value)) === true)
    if (!isRight) return void this.#say({ type: 'ConfigureFailure' })
    for (const [name, value] of given) {
      if (name === 'eot_timeout_ms') this.#timeoutMs = Number(value)
      if (name === 'eot_threshold') this.#isSure = Number(value) < 1
    }
    this.#say({ type: 'ConfigureSuccess', thresholds, keyterms })
  }

  #hear(text: string, start: number): void {
    if (text === '') return
    this.#spelled = text
    this.#begin(start)
  }

  #heard(word: HeardWord): void {
    this.#spelled = ''
    this.#begin(word.start)
    this.#words.push(word)
  }

  #begin(start: number): void {
    if (this.#isEager) this.#tell('TurnResumed')
    this.#isEager = false
    if (this.#from !== null) return
    this.#from = Math.max(this.#ended, start)
    this.#tell('StartOfTurn')
  }

  #advance(now: number): void {
    if (this.#isOver) return
    const silence = this.#ear.isQuiet ? now - this.#ear.lastEnd : 0
    if (this.#from !== null && this.#words.length > 0) {
      if (this.#isSure && silence >= SURE_SECONDS) return void this.#endTurn('model')
      if (silence * 1000 >= this.#timeoutMs) return void this.#endTurn('timeout')
      const isEager = this.#query.has('eager_eot_threshold') && silence >= SURE_SECONDS / 2
      if (isEager && !this.#isEager) {
        this.#isEager = true
        return void this.#tell('EagerEndOfTurn')
      }
    }
    if (now - this.#told >= UPDATE_SECONDS) this.#tell('Update')
  }

  #endTurn(trigger: string): void {
    this.#ear.flush()
    this.#tell('EndOfTurn', { trigger })
    this.#from = null
    this.#isEager = false
    this.#ended = this.#ear.now
    this.#words = []
    this.#spelled = ''
    this.#turn += 1
  }

  #tell(event: string, more: object = {}): void {
    this.#told = this.#ear.now
    const isRedacted = this.#query.has('redact')
    const words = this.#words.map(({ text, start, end }) => {
      return { word: isRedacted && /\d/.test(text) ? '*' : text, confidence: 0.9, start, end }
    })
    const transcript = [...words.map(({ word }) => word), this.#spelled]
      .filter((text) => text !== '')
      .join(' ')
    this.#say({
      ...{ type: 'TurnInfo', event, turn_index: this.#turn, transcript, words },
      audio_window_start: this.#from ?? this.#ended,
      audio_window_end: this.#ear.now,
      end_of_turn_confidence: event === 'EndOfTurn' ? 0.9 : 0.1,
      ...(this.#query.get('model') === 'flux-general-multi' && transcript !== ''
        ? { languages: ['en'] }
        : {}),
      ...more,
    })
  }

  /** What is heard is told as an update; it then closes without a code, which the record has no place for. */
  #close(): void {
    this.#ear.flush()
    this.#tell('Update')
    this.#isOver = true
    this.#session.live.close(1000, '')
  }
}
