import type { LiveAudio, LiveCall, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { LiveEvent, LiveFrame, LiveHandshake } from '../../../contracts/live.ts'
import type { Target, Unsupported } from '../../../contracts/provider.ts'
import { AddedSilence } from '../added-silence.ts'
import { defineLive, type LiveWire } from '../define-live.ts'
import { objectsIn } from '../json.ts'
import { type LanguageHint, languageCode, languageHint } from '../language.ts'
import {
  base64Of,
  type CommitPace,
  commitPace,
  failureInside,
  isCommitDue,
  LiveLog,
  silence,
  socketUrl,
  UNREADABLE,
} from '../live.ts'
import { fractionOf, spanOf } from '../numbers.ts'
import { wantsSpeakers } from '../transcript-needs.ts'
import { lackedFeatures } from '../unsupported.ts'
import { elevenlabsHeaders, unlogged } from './wire.ts'

/**
 * It closes a session that has had no audio for about 15 seconds, with 1000 and without an error, as its users saw. So
 * it is sent a little silence, which the caller's audio does not have.
 */
const KEEP_ALIVE_MS = 5_000
const KEEP_ALIVE_SECONDS = 0.05

/**
 * `GET /v1/speech-to-text/realtime` as a WebSocket, options in the query, JSON frames with audio in base64. The session
 * says what an utterance is (`commit_strategy=manual`): so it knows which audio a transcript is of.
 * elevenlabs-js 2.73.0 wrapper/realtime/scribe.js, wrapper/realtime/connection.d.ts
 */
export const live = defineLive({
  unsupported: ({ options }) => unsupported(options),
  handshake,
  // A commit of silence, and time for its answer.
  answersWithinMs: 8_000,
  keepAliveMs: KEEP_ALIVE_MS,
  hint: hintOf,
  wire: (call) => new ScribeWire(call),
})

function unsupported(options: LiveCall['options']): Unsupported | null {
  return lackedFeatures([
    wantsSpeakers(options) && 'diarization',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'multichannel',
  ])
}

/** Rates of its PCM, Hz. */
const RATES: readonly number[] = [8000, 16_000, 22_050, 24_000, 44_100, 48_000]

function liveAudioFor({ live: { audio } }: LiveCall): LiveAudio {
  if (audio.encoding === 'mulaw' && audio.sampleRate === 8000) return { ...audio, channels: 1 }
  const sampleRate = RATES.includes(audio.sampleRate) ? audio.sampleRate : 16_000
  return { encoding: 'pcm_s16le', sampleRate, channels: 1 }
}

/** ISO 639-1 and 639-3. */
function hintOf({ options }: LiveCall): LanguageHint {
  return languageHint(options, (code) => code)
}

function handshake(call: LiveCall, target: Target): Omit<LiveHandshake, 'protocols'> {
  const audio = liveAudioFor(call)
  const query = new URLSearchParams({
    model_id: target.model,
    audio_format: `${audio.encoding === 'mulaw' ? 'ulaw' : 'pcm'}_${audio.sampleRate}`,
    commit_strategy: 'manual',
    include_timestamps: 'true',
    ...unlogged(target),
  })
  const { language } = hintOf(call)
  if (language === null) query.set('include_language_detection', 'true')
  else query.set('language_code', language)
  for (const term of call.options.keyterms) query.append('keyterms', term)
  return {
    url: socketUrl(target, `/v1/speech-to-text/realtime?${query}`),
    headers: elevenlabsHeaders(target),
    audio,
  }
}

/** Audio without any answer behind which it is committed, seconds: silence is settled so, and the provider heard. */
const QUIET_SECONDS = 4
/** Least audio of a commit; one of less is answered with `commit_throttled`. */
const COMMIT_MIN_SECONDS = 0.3
/** Most commits without an answer. */
const COMMITS_MAX = 256

/** Errors that blame what was sent. */
const OF_REQUEST: ReadonlySet<string> = new Set(['input_error', 'invalid_request'])

/** A commit that has no answer yet. */
interface Commit {
  /** Seconds sent before it. */
  readonly end: number
  readonly answers: LiveEvent[]
}

class ScribeWire implements LiveWire {
  readonly #audio: LiveAudio
  readonly #pace: CommitPace
  readonly log: LiveLog
  readonly #language: string | null
  readonly #commits: Commit[] = []
  /** Seconds that were sent before the last commit. */
  #committed = 0
  /** Text of the last partial, and when it changed and anything was heard, in seconds sent. */
  #partial = ''
  #written = 0
  #heard = 0
  /** A transcript whose times are still to come, and one that came with them first, as it does now and then. */
  #untimed: string | null = null
  #early: string | null = null
  readonly #added: AddedSilence
  #ending = false
  #ended = false

  constructor(call: LiveCall) {
    const { language } = hintOf(call)
    this.#audio = liveAudioFor(call)
    this.#pace = commitPace(call.live)
    this.log = new LiveLog(this.#audio)
    this.#added = new AddedSilence(this.#audio)
    this.#language = language === null ? null : languageCode(language)
  }

  get waiting(): number {
    return this.#commits.length
  }

  get isWhole(): boolean {
    return this.#ended || (this.#ending && this.log.settled >= this.log.sent - COMMIT_MIN_SECONDS)
  }

  send(bytes: Uint8Array): readonly LiveFrame[] {
    const chunk = this.#chunk(bytes)
    return this.#isDue() ? [chunk, this.#commit([])] : [chunk]
  }

  finalize(): readonly LiveFrame[] {
    return [this.#commit([{ kind: 'finalized' }])]
  }

  keepAlive(): readonly LiveFrame[] {
    return [this.#chunk(this.#added.make(KEEP_ALIVE_SECONDS, this.log.sent))]
  }

  end(): readonly LiveFrame[] {
    this.#ending = true
    const left = this.log.sent - this.#committed
    // Audio that is too short to be committed would be lost.
    const missing = left > 0 && left < COMMIT_MIN_SECONDS ? COMMIT_MIN_SECONDS - left : 0
    const filled = missing > 0 ? [this.#chunk(silence(this.#audio, missing))] : []
    return [...filled, this.#commit([{ kind: 'ended' }])]
  }

  read(message: JsonObject): readonly LiveEvent[] {
    this.#heard = this.log.sent
    const { message_type: type, text } = message
    switch (type) {
      case 'session_started':
        return [{ kind: 'ready' }]
      case 'partial_transcript':
        return typeof text === 'string' ? this.#changed(text.trim()) : UNREADABLE.events
      case 'committed_transcript':
        return typeof text === 'string' ? this.#wasCommitted(text.trim()) : UNREADABLE.events
      case 'committed_transcript_with_timestamps':
        return typeof text === 'string' ? this.#timed(text.trim(), message) : UNREADABLE.events
      case 'commit_throttled':
        return this.#answer(false)
      default:
        // Everything that has an error is one.
        return typeof message.error === 'string'
          ? [this.#failed(typeof type === 'string' ? type : '', message.error)]
          : []
    }
  }

  #changed(text: string): readonly LiveEvent[] {
    if (text !== this.#partial) this.#written = this.log.sent
    this.#partial = text
    return [this.log.partial(this.log.settled, text)]
  }

  /** The text alone comes first; its times come in a message of their own, and silence has none. */
  #wasCommitted(text: string): readonly LiveEvent[] {
    const early = this.#early
    this.#early = null
    if (text !== '' && early === text) return []
    const before = this.#untimed === null ? [] : this.#finalEvents(this.#untimed, [], null)
    this.#untimed = text === '' ? null : text
    if (text !== '') return before
    const stale = this.#partial === '' ? [] : [this.log.partial(this.log.settled, '')]
    return [...before, ...stale, ...this.#answer(true)]
  }

  #timed(text: string, message: JsonObject): readonly LiveEvent[] {
    if (text === '') return []
    if (this.#untimed === null) this.#early = text
    this.#untimed = null
    const { language_code: language } = message
    const words = objectsIn(message.words)
      .flatMap(readLiveWord)
      .map((word) => this.#placed(word))
    return this.#finalEvents(text, words, typeof language === 'string' ? languageCode(language) : null)
  }

  /** Times without the silence that was sent beside the audio. */
  #placed(word: Word): Word {
    return { ...word, start: this.#added.placeOf(word.start), end: this.#added.placeOf(word.end) }
  }

  #finalEvents(text: string, words: readonly Word[], heard: string | null): readonly LiveEvent[] {
    const language = heard ?? this.#language
    const end = this.#commits[0]?.end ?? this.log.sent
    const finals = this.log.finals({ start: this.log.settled, end, text, words, language })
    return [...finals, ...this.#answer(true), this.log.utteranceEnd(end)]
  }

  /** The answer to the oldest commit. @param isWhole there was enough to be committed */
  #answer(isWhole: boolean): readonly LiveEvent[] {
    const commit = this.#commits.shift()
    if (commit === undefined) return []
    this.#partial = ''
    const isEnd = commit.answers.some(({ kind }) => kind === 'ended')
    this.#ended ||= isEnd
    return [...(isWhole || isEnd ? this.log.settle(commit.end) : []), ...commit.answers]
  }

  #failed(type: string, said: string): LiveEvent {
    const status = OF_REQUEST.has(type) ? 400 : 500
    return { kind: 'failed', failure: failureInside({ error: { code: type, message: said } }, status) }
  }

  #isDue(): boolean {
    if (this.#commits.length >= COMMITS_MAX) return false
    const { sent } = this.log
    const isQuiet = this.#partial === '' && this.#commits.length === 0 && sent - this.#heard >= QUIET_SECONDS
    const at = { sent, committed: this.#committed, written: this.#written }
    return (isQuiet && sent - this.#committed >= QUIET_SECONDS) || isCommitDue(this.#pace, at)
  }

  /** Text is built by hand: the audio is most of it, and needs no escaping. */
  #chunk(bytes: Uint8Array): string {
    return `{"message_type":"input_audio_chunk","audio_base_64":"${base64Of(bytes)}",${this.#rest(false)}}`
  }

  #commit(answers: LiveEvent[]): string {
    this.#commits.push({ end: this.log.sent, answers })
    this.#committed = this.log.sent
    return `{"message_type":"input_audio_chunk","audio_base_64":"",${this.#rest(true)}}`
  }

  #rest(commit: boolean): string {
    return `"commit":${commit},"sample_rate":${this.#audio.sampleRate}`
  }
}

/** Spaces and sounds are items too. The confidence is told as its logarithm. */
function readLiveWord({ text, start, end, type, logprob }: JsonObject): Word[] {
  const span = spanOf(start, end)
  if (type !== 'word' || span === null || typeof text !== 'string' || text.trim() === '') return []
  const confidence = typeof logprob === 'number' ? fractionOf(Math.exp(logprob)) : null
  return [{ word: text.trim(), ...span, ...(confidence === null ? {} : { confidence }) }]
}
