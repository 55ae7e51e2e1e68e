import type { LiveAudio, LiveCall } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake } from '../../../contracts/live.ts'
import type { LiveTranscription, Target, Unsupported } from '../../../contracts/provider.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { asObject } from '../json.ts'
import { type LanguageHint, languageHint, whisperLanguage } from '../language.ts'
import {
  base64Of,
  broken,
  type CommitPace,
  commitPace,
  failureInside,
  isCommitDue,
  LiveLog,
  NOTHING,
  type Received,
  silence,
  socketUrl,
  TEXT_MAX,
  textOnly,
  UNREADABLE,
} from '../live.ts'
import { secondsOf } from '../numbers.ts'
import { unsupportedField } from '../unsupported.ts'
import { bearerHeaders, type ExtraHeaders } from './wire.ts'

/** Options that one family of models supports in a transcription session. */
interface LiveShape {
  /** The provider finds the ends of utterances; else the session says where they are, by commits. */
  readonly vad: boolean
  readonly language: 'language' | 'languages'
  readonly prompt: boolean
  readonly keywords: boolean
}

/**
 * The dialect that the session speaks. `speaches` has the words of OpenAI's beta: the model in the address, fields of
 * the session at its top, and times within the piece of audio that is under way, so that they cannot be told as times
 * of the session. speaches-ai/speaches src/speaches/realtime: session.py, session_event_router.py and
 * input_audio_buffer_event_router.py
 */
type Dialect = 'openai' | 'speaches'

/** The parts of the protocol that differ at a server that is not OpenAI's. */
export interface LiveTerms {
  readonly dialect: Dialect
  readonly shapeOf: (model: string) => LiveShape
}

const TURNS: LiveShape = { vad: true, language: 'language', prompt: true, keywords: false }

/**
 * openai 7.55.0 resources/realtime/realtime.d.ts, AudioTranscription and RealtimeTranscriptionSessionAudioInput. The
 * models without detection of turns refuse it: https://developers.openai.com/api/docs/guides/realtime-transcription
 */
const SHAPES: ReadonlyMap<string, LiveShape> = new Map([
  ['gpt-live-transcribe', { vad: false, language: 'languages', prompt: false, keywords: true }],
  ['gpt-realtime-whisper', { vad: false, language: 'language', prompt: false, keywords: false }],
])

const OPENAI: LiveTerms = {
  dialect: 'openai',
  shapeOf: (model) => SHAPES.get(model.replace(/-\d{4}-\d{2}-\d{2}$/, '')) ?? TURNS,
}

/** A model that only the configuration knows: it is asked for what the call needs and for nothing else. */
export const UNLISTED_LIVE: LiveShape = { ...TURNS, keywords: true }

/** Its own format: 24 kHz, mono. Telephone audio goes as it is. */
const PCM: LiveAudio = { encoding: 'pcm_s16le', sampleRate: 24_000, channels: 1 }

function liveAudioFor({ live: { audio } }: LiveCall, dialect: Dialect): LiveAudio {
  if (dialect === 'speaches' || audio.encoding === 'pcm_s16le' || audio.sampleRate !== 8000) return PCM
  return { ...audio, channels: 1 }
}

const FORMATS = {
  pcm_s16le: { type: 'audio/pcm', rate: 24_000 },
  mulaw: { type: 'audio/pcmu' },
  alaw: { type: 'audio/pcma' },
} as const

/**
 * Transcription sessions of the Realtime API: `GET /realtime?intent=transcription` as a WebSocket, JSON frames with
 * audio in base64. The model is in `session.update`, and must not be in the address.
 */
export function liveOperation(extra: ExtraHeaders, terms: LiveTerms = OPENAI): LiveTranscription {
  const { shapeOf } = terms
  return defineLive({
    unsupported: ({ options }, { model }) => unsupported(options, shapeOf(model)),
    handshake: (call, target) => handshake(call, target, extra, terms),
    answersWithinMs: ANSWER_MS,
    hint: (call, { model }) => hintOf(call, shapeOf(model)),
    wire: (call, target) => new TranscriptionWire(call, target, terms),
  })
}

function unsupported(options: LiveCall['options'], { keywords }: LiveShape): Unsupported | null {
  const lacked = textOnly(options, keywords)
  if (lacked !== null) return lacked
  if (!options.keyterms.some((term) => /[<>\r\n]/.test(term))) return null
  return unsupportedField('keyterms', 'the provider takes single lines without < and >')
}

function handshake(
  call: LiveCall,
  target: Target,
  extra: ExtraHeaders,
  { dialect }: LiveTerms,
): Omit<LiveHandshake, 'protocols'> {
  const { accept: _accept, ...headers } = bearerHeaders(target, extra)
  const model = dialect === 'speaches' ? `&model=${encodeURIComponent(target.model)}` : ''
  const url = socketUrl(target, `/realtime?intent=transcription${model}`)
  return { url, headers, audio: liveAudioFor(call, dialect) }
}

function hintOf({ options }: LiveCall, { language }: LiveShape): LanguageHint {
  return languageHint(options, (code) => (language === 'languages' ? code : whisperLanguage(code)))
}

function sessionUpdate(call: LiveCall, { model }: Target, { dialect, shapeOf }: LiveTerms): string {
  const shape = shapeOf(model)
  const { options, live } = call
  const { language } = hintOf(call, shape)
  const silence = live.endpointingMs === null ? {} : { silence_duration_ms: live.endpointingMs }
  const transcription = {
    model,
    ...(language === null ? {} : shape.language === 'languages' ? { languages: [language] } : { language }),
    ...(options.prompt !== null && shape.prompt ? { prompt: options.prompt } : {}),
    ...(options.keyterms.length > 0 ? { keywords: options.keyterms } : {}),
  }
  const turn_detection = detectsTurns(call, shape) ? { type: 'server_vad', ...silence } : null
  const format = FORMATS[liveAudioFor(call, dialect).encoding]
  const session =
    dialect === 'speaches'
      ? { input_audio_transcription: transcription, turn_detection }
      : { type: 'transcription', audio: { input: { format, transcription, turn_detection } } }
  return JSON.stringify({ type: 'session.update', session })
}

function detectsTurns({ live }: LiveCall, { vad }: LiveShape): boolean {
  return vad && live.commit === 'auto'
}

/** Answered in their order: by an item, or by an error that there was nothing. */
const COMMIT = '{"type":"input_audio_buffer.commit"}'
/** Changes nothing, and is answered: so a provider that hears only silence still says that it is there. */
const PROBES: Readonly<Record<Dialect, string>> = {
  openai: '{"type":"session.update","session":{"type":"transcription"}}',
  speaches: '{"type":"session.update","session":{}}',
}
/** Audio that is sent without a word from the provider until it is asked for one, seconds. */
const PROBE_SECONDS = 3
/** That, and time for the answer. */
const ANSWER_MS = 6_000
/** How far behind the audio the detection of speech may be, seconds. */
const DETECTION_SECONDS = 1
/** Least audio of a commit; less is refused, as an empty one is. */
const COMMIT_MIN_SECONDS = 0.1
/** Most items that have no transcript yet, and commits that have no answer. */
const ITEMS_MAX = 256
const ID_MAX_LENGTH = 256

/** Audio that was committed, by the provider or the session, and has no transcript yet; or a commit of nothing. */
interface Item {
  /** Null: a commit that was empty. */
  readonly id: string | null
  start: number
  end: number
  /** The text of its deltas. */
  text: string
  /** Null: not known yet. */
  transcript: string | null
  answers: readonly Answer[]
}

type Answer = Extract<LiveEvent, { readonly kind: 'finalized' | 'ended' }>

const FINALIZED: Answer = { kind: 'finalized' }
const ENDED: Answer = { kind: 'ended' }

/** A commit of the session that has no answer yet. */
interface Commit {
  /** Seconds sent before it. */
  readonly end: number
  readonly answers: readonly Answer[]
}

/** Items of a session: those that were committed, and those that are not. */
class Items {
  /** In the order of the audio; the first ones are not whole. */
  readonly #committed: Item[] = []
  /** Items of speech that is not over, or of deltas that came before. */
  readonly #open = new Map<string, Item>()
  /** End of the last item that was committed, seconds. */
  #queued = 0
  /** Length of all texts that deltas have made. */
  #textLength = 0

  get hasOpen(): boolean {
    return this.#open.size > 0
  }

  get hasCommitted(): boolean {
    return this.#committed.length > 0
  }

  get isFull(): boolean {
    return this.#open.size >= ITEMS_MAX
  }

  /** Speech begins at a second of the session. */
  begin(id: string, start: number): void {
    this.#open.set(id, newItem(id, start))
  }

  /** Speech ends; the beginning of it may have been committed by the session. */
  end(id: string, end: number): void {
    const item = this.#open.get(id) ?? newItem(id, this.#queued)
    this.#open.set(id, item)
    item.end = end
  }

  /**
   * An item was committed.
   *
   * @param previous id of the one that it follows
   * @param commit   tells where the audio ends that the session has committed, of which no end of speech is known
   * @returns the end of its audio, seconds; or why it is none
   */
  commit(id: string, previous: unknown, commit: () => Commit): number | 'too many' | 'known' {
    if (this.#committed.length >= ITEMS_MAX) return 'too many'
    if (this.#committed.some((one) => one.id === id)) return 'known'
    const item = this.#open.get(id) ?? newItem(id, this.#queued)
    this.#open.delete(id)
    if (Number.isNaN(item.end)) Object.assign(item, commit())
    this.#queued = Math.max(this.#queued, item.end)
    const before = this.#committed.findIndex((other) => other.id !== null && other.id === previous)
    if (before < 0) this.#committed.push(item)
    else this.#committed.splice(before + 1, 0, item)
    return item.end
  }

  /** A commit of nothing: its answers come when all before it is whole. */
  commitNothing(answers: readonly Answer[]): void {
    this.#committed.push({ id: null, start: 0, end: 0, text: '', transcript: '', answers })
  }

  /** @param start of the item, if this is the first that is known of it. @returns false: there are too many */
  write(id: string, delta: string, start: number): boolean {
    let item = this.#find(id) ?? this.#open.get(id)
    if (item === undefined) {
      if (this.isFull) return false
      item = newItem(id, start)
      this.#open.set(id, item)
    }
    const added = delta.slice(0, Math.max(0, TEXT_MAX - this.#textLength))
    item.text += added
    this.#textLength += added.length
    return true
  }

  /** @returns false: there is no such item */
  transcribe(id: string, transcript: string): boolean {
    const item = this.#find(id)
    if (item === undefined) return false
    item.transcript ??= transcript.trim().slice(0, TEXT_MAX)
    return true
  }

  /** Takes the next item that is whole, in the order of the audio. */
  take(): (Item & { readonly transcript: string }) | null {
    const [item] = this.#committed
    if (item === undefined || item.transcript === null) return null
    this.#committed.shift()
    this.#textLength -= item.text.length
    return item as Item & { readonly transcript: string }
  }

  /** All unfinished text; null: there is none. Items overlap, and a partial replaces the one before. */
  unfinished(): { readonly start: number; readonly text: string } | null {
    const written = [...this.#committed, ...this.#open.values()].filter(({ text }) => text !== '')
    const [first] = written
    if (first === undefined) return null
    return {
      start: first.start,
      text: written
        .map((item) => item.transcript ?? item.text)
        .join(' ')
        .trim(),
    }
  }

  #find(id: string): Item | undefined {
    return this.#committed.find((one) => one.id === id)
  }
}

interface Session {
  readonly update: string
  readonly dialect: Dialect
  readonly vad: boolean
  readonly pace: CommitPace
  readonly audio: LiveAudio
}

function sessionTerms(call: LiveCall, target: Target, terms: LiveTerms): Session {
  const { dialect, shapeOf } = terms
  return {
    update: sessionUpdate(call, target, terms),
    dialect,
    vad: detectsTurns(call, shapeOf(target.model)),
    pace: commitPace(call.live),
    audio: liveAudioFor(call, dialect),
  }
}

class TranscriptionWire implements LiveWire {
  readonly #session: Session
  readonly log: LiveLog
  #isReady = false
  #ending = false
  #ended = false
  readonly #items = new Items()
  /**
   * Where the provider heard the beginning of speech that is not over, seconds; null: it hears none, or does not say.
   */
  #speech: number | null = null
  readonly #commits: Commit[] = []
  /** End of what was committed, as far as it was asked for, seconds. */
  #committed = 0
  /** Seconds sent when the provider said something last, and when it last added to a text. */
  #heard = 0
  #written = 0
  /** Probes without an answer: seconds sent before each, and what it answers. */
  readonly #probes: { readonly at: number; readonly answers: readonly Answer[] }[] = []

  constructor(call: LiveCall, target: Target, terms: LiveTerms) {
    this.#session = sessionTerms(call, target, terms)
    this.log = new LiveLog(this.#session.audio)
  }

  opened(): readonly LiveFrame[] {
    return [this.#session.update]
  }

  get waiting(): number {
    return this.#commits.length + this.#probes.length
  }

  get isWhole(): boolean {
    return this.#ended || (this.#ending && this.log.settled >= this.log.sent - COMMIT_MIN_SECONDS)
  }

  send(bytes: Uint8Array): readonly LiveFrame[] {
    const append = appendFrame(bytes)
    if (this.#isDue()) return [append, this.#commit([])]
    if (this.log.sent - this.#heard < PROBE_SECONDS || this.#probes.length > 0) return [append]
    return [append, this.#probe([])]
  }

  finalize(): readonly LiveFrame[] {
    return [this.#ask(FINALIZED)]
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    const left = this.log.sent - this.#committed
    // Audio that is too short to be committed would be lost.
    const missing = left > 0 && left < COMMIT_MIN_SECONDS ? COMMIT_MIN_SECONDS - left : 0
    // And speech that has only just begun may be heard by means of later audio.
    const padding = this.#session.vad && this.#speech === null ? DETECTION_SECONDS / 2 : missing
    const frames = padding > 0 ? [appendFrame(silence(this.#session.audio, padding))] : []
    return [...frames, this.#ask(ENDED)]
  }

  read(event: JsonObject): Received | readonly LiveEvent[] {
    this.#heard = this.log.sent
    switch (event.type) {
      case 'session.updated':
        return this.#updated()
      case 'input_audio_buffer.speech_started':
        return this.#speechStarted(event)
      case 'input_audio_buffer.speech_stopped':
        return this.#speechStopped(event)
      case 'input_audio_buffer.committed':
        return this.#wasCommitted(event)
      case 'conversation.item.input_audio_transcription.delta':
        return this.#delta(event)
      case 'conversation.item.input_audio_transcription.completed':
        return this.#completed(event)
      case 'conversation.item.input_audio_transcription.failed':
        return this.#itemFailed(event)
      case 'error':
        return this.#error(event)
      default:
        return []
    }
  }

  /** The answer to the configuration, or to a probe: no speech came before it where nothing is under way. */
  #updated(): Received {
    if (!this.#isReady) {
      this.#isReady = true
      return { events: [{ kind: 'ready' }] }
    }
    const probe = this.#probes.shift()
    if (probe === undefined || !this.#session.vad) return NOTHING
    const { at, answers } = probe
    if (this.#speech !== null || this.#items.hasOpen) {
      // Speech has begun meanwhile.
      return answers.length === 0 ? NOTHING : { events: [], reply: [this.#commit(answers)] }
    }
    if (this.#items.hasCommitted) {
      this.#items.commitNothing(answers)
      return NOTHING
    }
    const settled = this.log.settle(answers.length > 0 ? at : at - DETECTION_SECONDS)
    return { events: [...settled, ...this.#answered(answers)] }
  }

  #speechStarted({ item_id: id, audio_start_ms: start }: JsonObject): readonly LiveEvent[] {
    const at = this.#placeOf(start)
    if (!isId(id) || at === null || this.#items.isFull) return UNREADABLE.events
    this.#speech = at
    this.#items.begin(id, at)
    return [this.log.speechStarted(at)]
  }

  #speechStopped({ item_id: id, audio_end_ms: end }: JsonObject): readonly LiveEvent[] {
    const at = this.#placeOf(end)
    if (!isId(id) || at === null || this.#items.isFull) return UNREADABLE.events
    this.#items.end(id, at)
    this.#speech = null
    return [this.log.utteranceEnd(at)]
  }

  /** Audio of which the end of speech is known was committed by the provider, all other by the session. */
  #wasCommitted({ item_id: id, previous_item_id: previous }: JsonObject): readonly LiveEvent[] {
    if (!isId(id)) return UNREADABLE.events
    const end = this.#items.commit(
      id,
      previous,
      () => this.#commits.shift() ?? { end: this.log.sent, answers: [] },
    )
    if (end === 'too many') return [TOO_MANY]
    if (end === 'known') return UNREADABLE.events
    this.#committed = Math.max(this.#committed, end)
    return this.#flush()
  }

  #delta({ item_id: id, delta }: JsonObject): readonly LiveEvent[] {
    if (!isId(id) || typeof delta !== 'string') return UNREADABLE.events
    if (!this.#items.write(id, delta, this.#committed)) return [TOO_MANY]
    this.#written = this.log.sent
    return this.#partial()
  }

  #completed({ item_id: id, transcript }: JsonObject): readonly LiveEvent[] {
    if (!isId(id) || typeof transcript !== 'string') return UNREADABLE.events
    return this.#items.transcribe(id, transcript) ? this.#flush() : UNREADABLE.events
  }

  /** Audio that it could make nothing of has no text; after any other failure it has to be heard by another. */
  #itemFailed({ item_id: id, error }: JsonObject): readonly LiveEvent[] {
    const body = asObject(error) ?? {}
    if (body.code === 'audio_unintelligible' && isId(id)) {
      const text = 'content: the provider could not understand a part of the audio'
      return [{ kind: 'warning', text }, ...this.#completed({ item_id: id, transcript: '' })]
    }
    return [{ kind: 'failed', failure: failureInside({ error: body }, errorStatus(body)) }]
  }

  #error({ error }: JsonObject): readonly LiveEvent[] {
    const body = asObject(error) ?? {}
    const [commit] = this.#commits
    // Everything was committed before, by the provider as a rule.
    const isEmpty =
      body.code === 'input_audio_buffer_commit_empty' ||
      (this.#session.dialect === 'speaches' &&
        typeof body.message === 'string' &&
        body.message.startsWith('Error committing input audio buffer'))
    if (isEmpty) {
      this.#commits.shift()
      this.#items.commitNothing(commit?.answers ?? [])
      return this.#flush()
    }
    return [{ kind: 'failed', failure: failureInside({ error: body }, errorStatus(body)) }]
  }

  /** Tells what is complete, in the order of the audio. */
  #flush(): readonly LiveEvent[] {
    const events: LiveEvent[] = []
    let wasWritten = false
    for (let item = this.#items.take(); item !== null; item = this.#items.take()) {
      wasWritten ||= item.text !== ''
      const { start, end, transcript: text } = item
      if (text !== '') {
        events.push(...this.log.final({ start, end, text }))
        wasWritten = false
      }
      // Where the end is taken from what was sent when it was told, more may have been on its way.
      const margin = this.#session.dialect === 'speaches' ? DETECTION_SECONDS : 0
      if (item.id !== null) events.push(...this.log.settle(end - margin))
      events.push(...this.#answered(item.answers))
    }
    const isStale = wasWritten || (events.length > 0 && this.#items.unfinished() !== null)
    return isStale && !this.#ended ? [...events, ...this.#partial()] : events
  }

  #answered(answers: readonly Answer[]): readonly LiveEvent[] {
    if (!answers.includes(ENDED)) return answers
    this.#ended = true
    return [...this.log.settle(this.log.sent), ...answers]
  }

  /** All unfinished text is one partial, which replaces the one before. */
  #partial(): readonly LiveEvent[] {
    const { start, text } = this.#items.unfinished() ?? { start: this.log.settled, text: '' }
    return [this.log.partial(start, text)]
  }

  /** Whether the audio since the last commit is to be committed. */
  #isDue(): boolean {
    if (this.#commits.length >= ITEMS_MAX) return false
    const { sent } = this.log
    if (!this.#session.vad)
      return isCommitDue(this.#session.pace, { sent, committed: this.#committed, written: this.#written })
    // A speaker who makes no pause would be heard only at the end.
    return this.#speech !== null && sent - Math.max(this.#speech, this.#committed) >= this.#session.pace.step
  }

  /**
   * Asks for all that was sent to be settled. Where the provider finds the speech itself and hears none, there is
   * nothing to commit: a transcript of silence would be made up.
   */
  #ask(answer: Answer): string {
    if (!this.#session.vad || this.#speech !== null) return this.#commit([answer])
    return this.#probe([answer])
  }

  /** A time of the session in seconds; null when it is none. */
  #placeOf(value: unknown): number | null {
    const at = typeof value === 'number' ? secondsOf(value / 1000) : null
    if (at === null) return null
    return this.#session.dialect === 'speaches' ? this.log.sent : Math.min(this.log.sent, at)
  }

  #commit(answers: readonly Answer[]): string {
    this.#commits.push({ end: this.log.sent, answers })
    this.#committed = this.log.sent
    return COMMIT
  }

  #probe(answers: readonly Answer[]): string {
    this.#probes.push({ at: this.log.sent, answers })
    return PROBES[this.#session.dialect]
  }
}

const TOO_MANY: LiveEvent = {
  kind: 'failed',
  failure: broken('the provider does not finish what it began to transcribe'),
}

/** Text is built by hand: the audio is most of it, and needs no escaping. */
export function appendFrame(bytes: Uint8Array): string {
  return `{"type":"input_audio_buffer.append","audio":"${base64Of(bytes)}"}`
}

function newItem(id: string, start: number): Item {
  return { id, start, end: Number.NaN, text: '', transcript: null, answers: [] }
}

function isId(id: unknown): id is string {
  return typeof id === 'string' && id !== '' && id.length <= ID_MAX_LENGTH
}

/** The status that an error of the API would have: its types are those of the whole API. */
function errorStatus({ type }: JsonObject): number {
  return type === 'invalid_request_error' ? 400 : 500
}
